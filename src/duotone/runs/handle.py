"""A run on disk, as an object: what it says, and what can be done with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from duotone.config import RunConfig
from duotone.data.dataset import Array
from duotone.registry import import_object
from duotone.runs.folder import RunFolder

if TYPE_CHECKING:
    from duotone.federation.manifest import Which
    from duotone.federation.method import Method
    from duotone.runs.client import Client
    from duotone.runs.draft import Data
    from duotone.runs.explanation import Explanation, Explorer
    from duotone.runs.inputs import Samples
    from duotone.runs.join import Labels
    from duotone.runs.opened import OpenedRun
    from duotone.runs.plan import Model
    from duotone.runs.restyle import Anonymised


@dataclass(frozen=True)
class Run:
    """A run on disk, as an object.

    Attributes:
        path: Its folder.
        method: Its method, if that was made in Python.
        data: Its data, likewise.
        model: Its model, likewise.
    """

    path: Path
    method: type[Method] | None = field(default=None, repr=False, compare=False)
    data: Data | None = field(default=None, repr=False, compare=False)
    model: Model | None = field(default=None, repr=False, compare=False)

    def _repr_html_(self) -> str:
        """Show the first screen of the report in a notebook."""
        # Named, not imported: reports are made from runs, and so stand above them.
        shown: str = import_object("duotone.report.inline:run_html")(self)
        return shown

    @property
    def folder(self) -> RunFolder:
        """The files behind it."""
        return RunFolder(self.path)

    @property
    def status(self) -> str:
        """One of running, finished, interrupted, failed; killed if its process is gone."""
        status = str(self.folder.facts()["status"])
        if status != "running" or self.folder.is_busy:
            return status
        # It may have ended between the two questions.
        status = str(self.folder.facts()["status"])
        return "killed" if status == "running" else status

    @cached_property
    def config(self) -> RunConfig:
        """The resolved configuration."""
        return self.folder.config()

    @cached_property
    def metrics(self) -> pl.DataFrame:
        """The tidy table: round, client, group, kind, part, metric, value."""
        return self.folder.metrics()

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The scores: ``summary["scores"]["member.accuracy"]["value"]``."""
        return self.folder.summary()

    @cached_property
    def latents(self) -> dict[str, Array]:
        """Representations of some samples of every client."""
        return self.folder.latents()

    @cached_property
    def concepts(self) -> dict[str, Any] | None:
        """What clients are mixtures of, for methods that find concepts."""
        return self.folder.table("concepts")

    def client(self, name: str, *, round: Which = "last") -> Client:
        """Return one client of the finished run with the model it uses.

        >>> run.client("b").predict(x)  # doctest: +SKIP

        Args:
            name: A member, a newcomer, or a client that joined and was kept.
            round: "last", or "selected": the round that validation data would choose.

        Raises:
            RunError: The run is not finished, or lacks what is needed.
            UnknownNameError: It has no such client.
        """
        return self._opened.client(name, round)

    def card(self, client: str | None = None) -> Explanation:
        """Say what is typical of a client, or what the answers of all of them are made of.

        Why a client answers one sample as it does is said by ``run.client(name).explain(x)``.

        Raises:
            RunError: The run is not finished, or lacks what is needed.
            UnknownNameError: It has no such client.
        """
        # Named, not imported: explanations are made from runs, and so stand above them.
        if client is None:
            whole: Explanation = import_object("duotone.explain:federation_card")(self)
            return whole
        card: Explanation = import_object("duotone.explain:client_card")(self, client)
        return card

    def join(
        self,
        x: Samples | None = None,
        y: Labels | None = None,
        *,
        name: str = "newcomer",
        keep: bool = False,
    ) -> Client:
        """Let a newcomer join the finished run by its rule; nothing shared moves.

        Args:
            x: Its samples, as far as the rule uses any: an array, images, or a path. A folder
                ``CLASS/*.png`` or an npz file with ``x`` and ``y`` has labels, too.
            y: Their labels, likewise: numbers, or names of classes.
            name: What it is called.
            keep: Whether the run shall keep it, so that :meth:`client` finds it again.

        Raises:
            ConfigError: The name is taken, or the rule needs more than was given.
            DataError: Samples or labels have the wrong form.
        """
        joined: Client = import_object("duotone.runs.join:join")(
            self._opened, x, y, name=name, keep=keep
        )
        return joined

    @cached_property
    def _opened(self) -> OpenedRun:
        # Named, not imported: it needs runs itself.
        opened: OpenedRun = import_object("duotone.runs.opened:OpenedRun")(self)
        return opened

    def generate(
        self, client: str, *, label: int | None = None, count: int = 20, seed: int = 0
    ) -> Array:
        """Return new samples of a client's model: uint8 images, or rows of features.

        ``duotone.generate`` says more about them, and takes data and model made in Python.
        """
        # Named, not imported: it needs runs itself.
        generate = import_object("duotone.runs.generate:generate")
        samples: Array = generate(self, client, label=label, count=count, seed=seed).x
        return samples

    def restyle(
        self, images: Array | None = None, *, source: str, target: str, seed: int = 0
    ) -> Array:
        """Return samples of one client as another would have them, by default test samples.

        ``duotone.restyle`` says more about them, and takes data and model made in Python.
        """
        restyle = import_object("duotone.runs.restyle:restyle")
        samples: Array = restyle(self, images, source=source, target=target, seed=seed).x
        return samples

    def anonymise(
        self, images: Array | None = None, *, client: str, reference: str, seed: int = 0
    ) -> Anonymised:
        """Return a client's samples as a reference client would have them, and what they give away.

        Print ``.exposure.statement`` before passing ``.x`` on: there is no guarantee.
        """
        anonymise = import_object("duotone.runs.restyle:anonymise")
        found: Anonymised = anonymise(self, images, client=client, reference=reference, seed=seed)
        return found

    def report(self, out: str | Path | None = None) -> Path:
        """Write the report, by default ``report.html`` in the run's folder; return its path."""
        # Named, not imported: reports are made from runs, and so stand above them.
        write_report = import_object("duotone.report:write_report")
        path: Path = write_report([self], None if out is None else Path(out))
        return path

    def explore(self, *, height: int = 720) -> Explorer:
        """Show the explorer, in a notebook as a frame; ``.address`` opens in any browser.

        It answers this machine alone, until this program ends or ``.stop()``.

        Args:
            height: Of the frame, in pixels.

        Raises:
            MissingExtraError: starlette and uvicorn are not installed.
        """
        # Named, not imported: the explorer stands above runs.
        explorer: Explorer = import_object("duotone.explorer:beside")(self, height=height)
        return explorer


def load_run(
    path: str | Path,
    *,
    method: type[Method] | None = None,
    data: Data | None = None,
    model: Model | None = None,
) -> Run:
    """Open a run folder.

    Args:
        path: The folder.
        method: The method again, if it was made in Python and the run's clients are to be used.
        data: The data again, likewise.
        model: The model again, likewise.

    Raises:
        RunError: It is missing, damaged, or of another version.
    """
    return Run(RunFolder.open(Path(path)).path, method, data, model)
