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
  ledger.csv      what each client sent in each round; ledger.json: all of it, by client and kind
  log.txt         what was said while it ran

Reading changes nothing. What is written, cut or removed is so by the holder of the run's lock.
"""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
from filelock import FileLock, Timeout

from duotone.config import NAME_OF_TABLE, RunConfig, flat, read_toml, validated, write_toml
from duotone.errors import CheckpointError, ConfigError, RunError
from duotone.federation.manifest import Manifest, Which, read_manifest
from duotone.files import disk_errors, is_held, refuse_links, write_atomically
from duotone.runs.new_folders import clear_half_made, free_place
from duotone.runs.result_files import ResultFiles, read_json, write_json

if TYPE_CHECKING:  # who only looks at a run needs no torch
    from duotone.data.preparing import Preparation
    from duotone.federation.store import CommittedRound, FolderStore
    from duotone.measures.measure import Row

FORMAT = 1
_FREE = ("data", "backend", "workers")
"""Settings that may be changed between two parts of a run without changing a result."""
COLUMNS = {
    "round": pl.Int64,
    "client": pl.String,
    "group": pl.String,
    "kind": pl.String,
    "part": pl.String,
    "metric": pl.String,
    "value": pl.Float64,
}


class RunFolder(ResultFiles):
    """The files of one run."""

    __slots__ = ()

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
        path = out or free_place(config, str(facts["method"]))
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            is_run = (path / "run.json").is_file()
            hint = f", or continue it with: duotone resume {path}" if is_run else "."
            raise RunError(
                f"{path} exists already and a run never overwrites; choose another --out{hint}"
            )
        clear_half_made(path.parent)
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
        # Any of them: through a link, what a run writes would land elsewhere.
        refuse_links(path, *os.listdir(path))
        folder = cls(path)
        if folder.facts().get("format") != FORMAT:
            raise RunError(
                f"{path} was made by another version of duotone "
                f"({folder.facts().get('duotone', 'unknown')}); open it with that version."
            )
        return folder

    def facts(self) -> dict[str, Any]:
        """Return what ``run.json`` says."""
        return read_json(self.path / "run.json")

    def class_names(self) -> tuple[str, ...] | None:
        """Return what the classes are called, in the order of their numbers, if it is known."""
        names = self.facts().get("class_names")
        return None if names is None else tuple(map(str, names))

    def preparation(self) -> Preparation | None:
        """Return how the run's features were made of the columns of a table; else ``None``.

        Raises:
            RunError: What ``run.json`` says of it is damaged.
        """
        from duotone.data.preparing import Preparation

        content = self.facts().get("preparation")
        try:
            return None if content is None else Preparation.from_json(content)
        except (KeyError, TypeError) as error:
            raise RunError(
                f"{self.path / 'run.json'} is damaged: its preparation lacks {error}."
            ) from error

    def write_facts(self, facts: Mapping[str, Any]) -> None:
        """Replace ``run.json``."""
        write_json(self.path / "run.json", facts)

    def update_facts(self, **changes: Any) -> None:
        """Change some facts in ``run.json``."""
        self.write_facts({**self.facts(), **changes})

    def config(self) -> RunConfig:
        """Return the resolved configuration."""
        try:
            values = read_toml(self.path / "config.toml")
            config = validated(RunConfig, values, owner="the run")
            for table, name in NAME_OF_TABLE.items():
                if not isinstance(getattr(config, table).get(name), str):
                    raise ConfigError(f"{table}.{name} is missing.")
            return config
        except ConfigError as error:
            raise RunError(f"{self.path / 'config.toml'} is damaged: {error}") from error

    @contextmanager
    def writing(self) -> Iterator[FolderStore]:
        """Open the committed rounds to add to them; only the holder of the lock may.

        Raises:
            RunError: States, metrics or configuration are not what was committed.
        """
        from duotone.federation.store import FolderStore

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
        from duotone.federation.store import reading

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
        if was is not None:  # settings that are newer than the run are at their defaults
            was = RunConfig().model_dump(mode="json", exclude=set(_FREE), exclude_none=True) | was
        if was is not None and (changes := _differences(was, self._settings())):
            raise RunError(
                f"{self.path / 'config.toml'} is not what the run was begun with: "
                f"{'; '.join(changes)}. Results would be mixed: change it back, or start a new run."
            )
        size, path = notes.get("metrics_bytes", 0), self.path / "metrics.csv"
        if type(size) is not int or size < 0:
            raise RunError(f"{self.path / 'checkpoints'} is damaged: metrics_bytes = {size!r}.")
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
            reason = str(error).partition("\n")[0]
            raise RunError(f"{path} is damaged and cannot be read: {reason}.") from error

    def log(self, line: str) -> None:
        """Add a line to ``log.txt``."""
        stamp = datetime.now().astimezone().isoformat(timespec="seconds")
        with disk_errors(self.path), (self.path / "log.txt").open("a", encoding="utf-8") as file:
            file.write(f"{stamp} {line}\n")


def _differences(was: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return in words which settings differ between two trees of them."""
    old, new = dict(flat(was)), dict(flat(now))
    return [
        f"{name} was {_value_text(old.get(name))} and is {_value_text(new.get(name))}"
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    ]


def _value_text(value: Any) -> str:
    return "not set" if value is None else repr(value)


def list_runs(folder: Path) -> list[RunFolder]:
    """Return the runs below a folder, oldest first."""
    paths = sorted(path.parent for path in folder.glob("**/run.json"))
    # A name with a dot in front is a folder whose making was cut short.
    return [RunFolder(path) for path in paths if not path.name.startswith(".")]
