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
  checkpoints/    the last committed round
  log.txt         what was said while it ran
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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
from duotone.errors import ConfigError, RunError
from duotone.evaluation.clients import Row
from duotone.evaluation.concepts import Concepts
from duotone.evaluation.generation import GenerationResult
from duotone.evaluation.restyle import RestyleResult
from duotone.evaluation.sheets import Images, Sheet
from duotone.evaluation.swap import SwapResult
from duotone.federation.store import FolderStore, disk_errors, write_atomically

FORMAT = 1
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

    def store(self) -> FolderStore:
        """Open the committed rounds."""
        return FolderStore(self.path / "checkpoints")

    @property
    def is_busy(self) -> bool:
        """Whether a living process works on this run."""
        try:
            with self.locked():
                return False
        except RunError:
            return True

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes away; the lock dies with this process, however it dies.

        Raises:
            RunError: Another process works on this run.
        """
        lock = FileLock(self.path / ".lock", blocking=False)
        try:
            lock.acquire()
        except Timeout:
            raise RunError(
                f"{self.path} is being worked on by another process; wait for it, or stop it first."
            ) from None
        try:
            yield
        finally:
            lock.release()

    def append_metrics(self, rows: Sequence[Row]) -> int:
        """Add rows to ``metrics.csv``; return its size in bytes."""
        path = self.path / "metrics.csv"
        table = pl.DataFrame(rows, schema=COLUMNS, orient="row")
        with disk_errors(path), path.open("ab") as file:
            table.write_csv(file, include_header=file.tell() == 0)
            file.flush()
            os.fsync(file.fileno())
            return file.tell()

    def cut_metrics(self, size: int) -> None:
        """Cut ``metrics.csv`` back to what was committed."""
        path = self.path / "metrics.csv"
        if path.exists():
            os.truncate(path, size)

    def metrics(self) -> pl.DataFrame:
        """Return the tidy table of metrics."""
        path = self.path / "metrics.csv"
        if not path.exists() or path.stat().st_size == 0:
            return pl.DataFrame(schema=COLUMNS)
        try:
            return pl.read_csv(path, schema=COLUMNS)
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
