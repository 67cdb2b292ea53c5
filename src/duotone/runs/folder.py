"""A run's folder: made once, never overwritten, complete in itself.

runs/2026-11-15_2130_fedavg_digits_seed0/
  config.toml     resolved; `duotone run --config` repeats the run
  run.json        status, versions, command, times, fingerprints of data and partition
  metrics.csv     round,client,group,kind,part,metric,value
  summary.json    scores with their direction and spread
  latents.npz     representations of some samples of every client
  swap.json       how well pairs of clients swap codes, if the method has a decoder
  concepts.json   clients' weights of concepts, if the method finds any
  generate.json   what judges say of each client's generated samples, if the method draws any
  restyle.json    what judges and attackers say of each pair's re-styled samples, likewise
  samples.png     what members draw from the same draws, as of the last evaluation, likewise
  figures/        pictures of what the codes draw, of samples, or of concepts
  checkpoints/    the last committed round, and the one that validation data would choose
  served/         every client's model as it is used, so that the data is not needed again
  log.txt         what was said while it ran

Reading changes nothing. What is written, cut or removed is so by the holder of the run's lock.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from filelock import FileLock, Timeout
from PIL import Image

from duotone.config import RunConfig, read_toml, validated, write_toml
from duotone.data.dataset import Array
from duotone.errors import CheckpointError, ConfigError, RunError
from duotone.federation.manifest import Manifest, Which, read_manifest
from duotone.federation.store import CommittedRound, FolderStore, reading
from duotone.files import disk_errors, is_held, refuse_links, write_atomically
from duotone.measures.clients import Row
from duotone.measures.concepts import Concepts
from duotone.measures.generation import GenerationResult
from duotone.measures.restyle import RestyleResult
from duotone.measures.sheets import Images, Sheet
from duotone.measures.swap import SwapResult

FORMAT = 1
_FREE = ("data", "backend", "workers")
"""Settings that may be changed between two parts of a run without changing a result."""
_OWN = (
    *("config.toml", "run.json", "metrics.csv", "summary.json", "latents.npz", "log.txt"),
    *("checkpoints", "served", "figures", ".lock", ".alive", ".scratch"),
)
COLUMNS = {
    "round": pl.Int64,
    "client": pl.String,
    "group": pl.String,
    "kind": pl.String,
    "part": pl.String,
    "metric": pl.String,
    "value": pl.Float64,
}


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The files of one run."""

    path: Path

    @classmethod
    def create(cls, config: RunConfig, facts: Mapping[str, Any], out: Path | None) -> RunFolder:
        """Make the folder of a new run.

        Args:
            config: The resolved configuration.
            facts: What ``run.json`` shall say.
            out: The folder to make; by default a new one in ``runs``.

        Raises:
            RunError: ``out`` exists and is not empty.
        """
        path = out or _free_name(config, str(facts["method"]))
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            is_run = (path / "run.json").is_file()
            hint = f", or continue it with: duotone resume {path}" if is_run else "."
            raise RunError(
                f"{path} exists already and a run never overwrites; choose another --out{hint}"
            )
        _clear_half_made(path.parent)
        # A new folder appears with both its files at once: a kill leaves a run or nothing.
        made = path if path.exists() else path.with_name(f".{path.name}.{os.getpid()}")
        with disk_errors(path):
            made.mkdir(parents=True, exist_ok=True)
        write_atomically(made / "config.toml", write_toml(config.model_dump()).encode())
        cls(made).write_facts({"format": FORMAT, **facts})
        if made != path:
            with disk_errors(path):
                made.rename(path)
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open an existing run.

        Raises:
            RunError: This is not the folder of a run, or of another version.
        """
        if not path.is_dir():
            raise RunError(f"There is no run folder {path}. List runs with: duotone runs")
        if not (path / "run.json").is_file() or not (path / "config.toml").is_file():
            raise RunError(f"{path} is not the folder of a run: it lacks run.json or config.toml.")
        refuse_links(path, *_OWN)
        folder = cls(path)
        if folder.facts().get("format") != FORMAT:
            raise RunError(
                f"{path} was made by another version of duotone "
                f"({folder.facts().get('duotone', 'unknown')}); open it with that version."
            )
        return folder

    def facts(self) -> dict[str, Any]:
        """Return what ``run.json`` says."""
        return self._json("run.json")

    def write_facts(self, facts: Mapping[str, Any]) -> None:
        """Replace ``run.json``."""
        content = json.dumps(facts, indent=2, ensure_ascii=False) + "\n"
        write_atomically(self.path / "run.json", content.encode())

    def update_facts(self, **changes: Any) -> None:
        """Change some facts in ``run.json``."""
        self.write_facts({**self.facts(), **changes})

    def config(self) -> RunConfig:
        """Return the resolved configuration."""
        try:
            values = read_toml(self.path / "config.toml")
            return validated(RunConfig, values, owner="the run")
        except ConfigError as error:
            raise RunError(f"{self.path / 'config.toml'} is damaged: {error}") from error

    @contextmanager
    def writing(self) -> Iterator[FolderStore]:
        """Open the committed rounds to add to them; only the holder of the lock may.

        Raises:
            RunError: States, metrics or configuration are not what was committed.
        """
        metrics = self.path / "metrics.csv"
        has_states = (self.path / "checkpoints" / "manifest.json").exists()
        if not has_states and metrics.exists() and metrics.stat().st_size:
            raise CheckpointError(
                f"{metrics} holds results, but {self.path / 'checkpoints'} has no manifest.json; "
                "nothing was changed. Restore it from a copy, or start the run anew in another "
                "folder."
            )
        store = FolderStore(self.path / "checkpoints")
        self._check_committed(store.last.notes)
        if "config" not in store.last.notes:
            store.note(config=self._settings())
        try:
            yield store
        finally:
            store.close()

    def reading(self, which: Which = "last") -> AbstractContextManager[CommittedRound]:
        """Open one committed round to read it; nothing is changed, also beside a writer."""
        return reading(self.path / "checkpoints", which)

    def manifest(self) -> Manifest:
        """Return what is committed: nothing, if the run has not begun."""
        checkpoints = self.path / "checkpoints"
        return read_manifest(checkpoints) if checkpoints.exists() else Manifest()

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Make a folder for what is needed while the run is worked on, by the holder of its lock.

        What a killed run left in it is removed first.
        """
        place = self.path / ".scratch"
        with disk_errors(place):
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def _settings(self) -> dict[str, Any]:
        """Return the settings that results depend on."""
        values = self.config().model_dump(mode="json", exclude_none=True)
        # Data may have moved; that it is the same is known by its fingerprint.
        return {key: value for key, value in values.items() if key not in _FREE}

    def _check_committed(self, notes: Mapping[str, Any]) -> None:
        """Make sure that configuration and metrics are what was committed.

        Raises:
            RunError: One was edited, cut or removed; the message says what differs.
        """
        was = notes.get("config")
        if was is not None and (changes := _differences(was, self._settings())):
            raise RunError(
                f"{self.path / 'config.toml'} is not what the run was begun with: "
                f"{'; '.join(changes)}. Results would be mixed: change it back, or start a new run."
            )
        size, path = int(notes.get("metrics_bytes", 0)), self.path / "metrics.csv"
        content = path.read_bytes() if path.exists() else b""
        problem = ""
        if size and not path.exists():
            problem = "it is missing"
        elif len(content) < size:
            problem = f"it has {len(content):,} bytes instead of {size:,}"
        elif zlib.crc32(content[:size]) != notes.get("metrics_crc", zlib.crc32(content[:size])):
            problem = f"its first {size:,} bytes have been edited"
        if problem:
            raise RunError(
                f"{path} is not what was committed: {problem}. Restore it from a copy, or start a "
                "new run."
            )

    @property
    def is_busy(self) -> bool:
        """Whether a living process works on this run; asking keeps nobody away."""
        return is_held(self.path / ".alive")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes away; the lock dies with this process, however it dies.

        Raises:
            RunError: Another process works on this run.
        """
        lock = FileLock(self.path / ".lock", blocking=False)
        # Readers ask the second lock whether the first is held, and never touch the first: who
        # looks at a run cannot keep another from starting it.
        alive = FileLock(self.path / ".alive", poll_interval=0.005)
        try:
            lock.acquire()
        except Timeout:
            raise RunError(
                f"{self.path} is being worked on by another process; wait for it, or stop it first."
            ) from None
        try:
            with alive:
                yield
        finally:
            lock.release()

    def append_metrics(self, rows: Sequence[Row], crc: int = 0) -> tuple[int, int]:
        """Add rows to ``metrics.csv``; return its size in bytes and its checksum.

        Args:
            rows: The rows.
            crc: The checksum of what the file holds already.
        """
        path = self.path / "metrics.csv"
        table = pl.DataFrame(rows, schema=COLUMNS, orient="row")
        with disk_errors(path), path.open("ab") as file:
            content = table.write_csv(include_header=file.tell() == 0).encode()
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            return file.tell(), zlib.crc32(content, crc)

    def cut_metrics(self, size: int) -> int:
        """Cut ``metrics.csv`` back to what was committed; return the checksum of that."""
        path = self.path / "metrics.csv"
        if not path.exists():
            return 0
        os.truncate(path, size)
        return zlib.crc32(path.read_bytes())

    def metrics(self) -> pl.DataFrame:
        """Return the tidy table of metrics: of an unfinished run, what is committed."""
        path = self.path / "metrics.csv"
        size = None
        if self.facts()["status"] != "finished":  # first the size: the file only grows
            size = self.manifest().last.notes.get("metrics_bytes", 0)
        content = path.read_bytes()[:size] if path.exists() else b""
        if not content:
            return pl.DataFrame(schema=COLUMNS)
        try:
            return pl.read_csv(content, schema=COLUMNS)
        except pl.exceptions.PolarsError as error:
            raise RunError(f"{path} is damaged and cannot be read: {error}.") from error

    def summary(self) -> dict[str, Any]:
        """Return the scores of a finished run.

        Raises:
            RunError: The run has not finished.
        """
        if not (self.path / "summary.json").exists():
            raise RunError(
                f"{self.path} has no summary yet; finish it with: duotone resume {self.path}"
            )
        return self._json("summary.json")

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write the scores."""
        content = json.dumps(summary, indent=2) + "\n"
        write_atomically(self.path / "summary.json", content.encode())

    def write_made(
        self,
        swaps: SwapResult | None,
        generation: GenerationResult | None,
        restyled: RestyleResult | None,
    ) -> None:
        """Write what judges say of samples that a method made."""
        if swaps is not None:
            self._write_json(
                "swap.json", {"matrix": swaps.matrix, "local_effect": swaps.local_effect}
            )
        if generation is not None:
            self._write_json(
                "generate.json", {"clients": generation.clients, "pairs": generation.pairs}
            )
        if restyled is not None:
            self._write_json("restyle.json", {"pairs": restyled.pairs})

    def write_samples(self, tiles: Images, heads: tuple[int, int]) -> None:
        """Replace ``samples.png``."""
        write_atomically(self.path / "samples.png", tiles_png(tiles, heads))

    def write_concepts(self, concepts: Concepts) -> None:
        """Write ``concepts.json``."""
        self._write_json("concepts.json", concepts.as_json())

    def concepts(self) -> dict[str, Any] | None:
        """Return what clients are mixtures of; ``None`` for methods without concepts.

        Raises:
            RunError: The file is damaged.
        """
        return self._json("concepts.json") if (self.path / "concepts.json").exists() else None

    def write_sheets(self, sheets: Sequence[Sheet]) -> None:
        """Write all pictures into ``figures``, with a list that says what each of them shows."""
        place = self.path / "figures"
        with disk_errors(place):
            place.mkdir(exist_ok=True)
        told: list[dict[str, str]] = []
        for sheet in sheets:
            write_atomically(place / f"{sheet.name}.png", tiles_png(sheet.tiles, sheet.heads))
            facts = {key: getattr(sheet, key) for key in ("title", "caption", "mislead", "section")}
            told.append({"file": f"{sheet.name}.png", **facts})
        content = json.dumps(told, indent=2, ensure_ascii=False) + "\n"
        write_atomically(place / "figures.json", content.encode())

    def write_latents(self, arrays: Mapping[str, Array]) -> None:
        """Write ``latents.npz``."""
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, **arrays)
        write_atomically(self.path / "latents.npz", buffer.getvalue())

    def latents(self) -> dict[str, Array]:
        """Return the saved representations.

        Raises:
            RunError: There are none, or the file is damaged.
        """
        path = self.path / "latents.npz"
        if not path.exists():
            raise RunError(f"{self.path} holds no latents: the run has not finished, or latents=0.")
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                return dict(arrays)
        except Exception as error:  # zipfile and NumPy fail on damaged files in a dozen ways
            raise RunError(f"{path} is damaged and cannot be read: {error}.") from error

    def log(self, line: str) -> None:
        """Add a line to ``log.txt``."""
        stamp = datetime.now().astimezone().isoformat(timespec="seconds")
        with disk_errors(self.path), (self.path / "log.txt").open("a", encoding="utf-8") as file:
            file.write(f"{stamp} {line}\n")

    def _write_json(self, name: str, content: Mapping[str, Any]) -> None:
        write_atomically(self.path / name, (json.dumps(content, indent=2) + "\n").encode())

    def _json(self, name: str) -> dict[str, Any]:
        try:
            content = json.loads((self.path / name).read_bytes())
        except (OSError, ValueError) as error:
            raise RunError(f"{self.path / name} is damaged and cannot be read: {error}.") from error
        if not isinstance(content, dict):
            raise RunError(f"{self.path / name} is damaged: it holds no table.")
        return content


def tiles_png(tiles: Images, heads: tuple[int, int] = (0, 0)) -> bytes:
    """Return a grid of images as a PNG file: beside each other, originals a little apart.

    Args:
        tiles: The images, ``(rows, columns, height, width, channels)``.
        heads: How many first rows and columns are originals.
    """
    rows, columns, height, width, channels = tiles.shape
    zoom = max(1, round(56 / max(height, width)))

    def starts(count: int, size: int, heads: int) -> list[int]:
        return [
            place * (size * zoom + 2) + (6 if place >= heads > 0 else 0) for place in range(count)
        ]

    tops, lefts = starts(rows, height, heads[0]), starts(columns, width, heads[1])
    page = np.full((tops[-1] + height * zoom, lefts[-1] + width * zoom, channels), 255, np.uint8)
    for top, row in zip(tops, tiles, strict=True):
        for left, tile in zip(lefts, row, strict=True):
            large = tile.repeat(zoom, axis=0).repeat(zoom, axis=1)
            page[top : top + large.shape[0], left : left + large.shape[1]] = large
    buffer = io.BytesIO()
    Image.fromarray(page.squeeze(2) if channels == 1 else page).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def _clear_half_made(parent: Path) -> None:
    """Remove folders whose making was cut short because their process was killed."""
    for path in parent.glob(".*.*"):
        pid = path.name.rpartition(".")[2]
        if not pid.isdecimal() or path.is_symlink() or not path.is_dir() or _is_alive(int(pid)):
            continue
        made = {"config.toml", "config.toml.part", "run.json", "run.json.part"}
        if {item.name for item in path.iterdir()} <= made:
            shutil.rmtree(path, ignore_errors=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # it belongs to somebody else
        pass
    return True


def _differences(was: Mapping[str, Any], now: Mapping[str, Any], under: str = "") -> list[str]:
    """Return in words which settings differ between two trees of them."""
    found: list[str] = []
    for key in sorted({*was, *now}):
        name, old, new = f"{under}{key}", was.get(key), now.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += _differences(old, new, f"{name}.")
        elif old != new:
            texts = ["not set" if value is None else repr(value) for value in (old, new)]
            found.append(f"{name} was {texts[0]} and is {texts[1]}")
    return found


def _free_name(config: RunConfig, method: str) -> Path:
    stamp = datetime.now().strftime("%Y-%m-%d_%H%M")
    data = Path(config.data.removeprefix("object:")).stem
    name = f"{stamp}_{method}_{data}_seed{config.seed}"
    path, number = Path("runs") / name, 2
    while path.exists():
        path, number = Path("runs") / f"{name}-{number}", number + 1
    return path


def list_runs(folder: Path) -> list[RunFolder]:
    """Return the runs below a folder, oldest first."""
    paths = sorted(path.parent for path in folder.glob("**/run.json"))
    # A name with a dot in front is a folder whose making was cut short.
    return [RunFolder(path) for path in paths if not path.name.startswith(".")]
