"""Runs: one execution, one folder; and the Python interface to them.

run = duotone.run(method="fedavg", data="digits", rounds=10)
run.summary["scores"]["member.accuracy"]
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from duotone.config import RunConfig, merged, read_toml
from duotone.data.dataset import Array
from duotone.errors import RunError
from duotone.federation.method import Method
from duotone.registry import import_object
from duotone.runs.draft import OBJECT, Data, plan_population, with_tables
from duotone.runs.execute import Interrupted, Progress, RunObserver, execute
from duotone.runs.folder import RunFolder, list_runs
from duotone.runs.plan import Model, Plan, facts_of, plan_run

if TYPE_CHECKING:
    from duotone.federation.manifest import Which
    from duotone.runs.client import Client
    from duotone.runs.explanation import Explanation
    from duotone.runs.inputs import Samples
    from duotone.runs.join import Labels
    from duotone.runs.opened import OpenedRun
    from duotone.runs.restyle import Anonymised

__all__ = [
    "Interrupted",
    "Plan",
    "Progress",
    "Run",
    "RunFolder",
    "RunObserver",
    "execute",
    "facts_of",
    "given_again",
    "list_runs",
    "load_run",
    "plan_population",
    "plan_run",
    "prepare",
    "resume",
    "run",
    "with_tables",
]


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


def run(
    config: Mapping[str, Any] | str | Path | None = None,
    /,
    *,
    method: type[Method] | Mapping[str, Any] | str | None = None,
    data: Data | str | None = None,
    model: Model | str | None = None,
    out: str | Path | None = None,
    observers: Sequence[RunObserver] = (),
    **settings: Any,
) -> Run:
    """Run a method and return the finished run.

    Args:
        config: Settings as nested tables, or the path of a TOML file.
        method: A method's name, a subclass of :class:`duotone.Method`, or a table with a name and
            settings.
        data: A data set's name or path; arrays ``x_train, y_train, x_test, y_test`` in a mapping;
            a data frame, a torch or Hugging Face data set: see
            :func:`duotone.data.objects.dataset_from_object`.
        model: A model's name, or a class, function or module.
        out: The folder to make; by default a new one in ``runs``.
        observers: Told what happens.
        **settings: More settings on top: those of a run, or of the method.

    Raises:
        ConfigError: Settings are wrong; all problems are in the message.
        DataError: The data cannot be read.
        Interrupted: Ctrl-C was pressed; continue with :func:`resume`.

    Example:
        >>> run = duotone.run(method="fedavg", data="digits", rounds=10)  # doctest: +SKIP
    """
    values: Mapping[str, Any] = {}
    if isinstance(config, Mapping):
        values = config
    elif config is not None:
        values = read_toml(Path(config))
    given = {} if method is None else {"method": method}
    values = merged(with_tables(values), _placed({**given, **settings}))
    if isinstance(data, str | Path):
        values, data = {**values, "data": str(data)}, None
    if isinstance(model, str):
        values, model = {**values, "model": model}, None
    plan = plan_run(values, data=data, model=model)
    folder = prepare(plan, None if out is None else Path(out))
    execute(folder, plan, observers)
    used = values["method"].get("name")
    return Run(folder.path, used if isinstance(used, type) else None, data, model)


def _placed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Put keyword settings where they belong: the run's own at the top, others to the method."""
    top = {key: value for key, value in settings.items() if key in RunConfig.model_fields}
    own = {key: value for key, value in settings.items() if key not in RunConfig.model_fields}
    top = {key: value for key, value in with_tables(top).items() if value != {}}
    return merged(top, {"method": own}) if own else top


def prepare(plan: Plan, out: Path | None = None, command: Sequence[str] = ()) -> RunFolder:
    """Make the folder of a planned run."""
    libraries = ("torch", "numpy", "scikit-learn", "polars", "safetensors")
    facts = {
        "status": "prepared",
        "method": plan.method.name,
        "seed": plan.config.seed,
        "created": datetime.now().astimezone().isoformat(timespec="seconds"),
        "seconds": 0.0,
        "command": list(command),
        "duotone": version("duotone"),
        "python": platform.python_version(),
        "versions": {library: version(library) for library in libraries},
        "platform": f"{sys.platform} {platform.machine()}",
        "device": plan.method.device,
        **facts_of(plan),
    }
    return RunFolder.create(plan.config, facts, out)


def resume(
    path: str | Path,
    *,
    method: type[Method] | None = None,
    data: Data | None = None,
    model: Model | None = None,
    observers: Sequence[RunObserver] = (),
) -> Run:
    """Continue a run from its last committed round, to the same end as if it had never stopped.

    A finished run is returned as it is. What was made in Python, the method, the data or the model,
    must be given again.

    Raises:
        RunError: The folder is not that of a run, or its data has changed since.
    """
    folder = RunFolder.open(Path(path))
    if folder.facts()["status"] == "finished":
        return Run(folder.path, method, data, model)
    values = given_again(folder, method=method, data=data, model=model, again="resume")
    plan = plan_run(values, data=data, model=model)
    was, now = folder.facts(), facts_of(plan)
    for what in ("data", "partition"):
        if was[f"{what}_fingerprint"] != now[f"{what}_fingerprint"]:
            raise RunError(
                f"The {what} of {path} is no longer what the run began with; results would be "
                "mixed. Restore it, or start a new run."
            )
    execute(folder, plan, observers)
    return Run(folder.path, method, data, model)


def given_again(
    folder: RunFolder,
    *,
    method: type[Method] | None,
    data: Data | None,
    model: Model | None,
    again: str,
    needed: Collection[str] = ("method", "data", "model"),
) -> dict[str, Any]:
    """Return a run's settings, with the method that was given again in its place.

    Args:
        folder: The run.
        method: The method given now.
        data: The data given now.
        model: The model given now.
        again: The function of :mod:`duotone` that was called.
        needed: Which of the three cannot be done without.

    Raises:
        RunError: Something made in Python is missing, or the method is another one.
    """
    values = folder.config().model_dump()
    was = {"method": values["method"]["name"], "data": values["data"], "model": values["model"]}
    for name, given in (("method", method), ("data", data), ("model", model)):
        if given is None and name in needed and str(was[name]).startswith(OBJECT):
            raise RunError(
                f"{folder.path} used a {name} made in Python ({was[name].removeprefix(OBJECT)}); "
                f"give it again: duotone.{again}({str(folder.path)!r}, {name}=…)"
            )
    if method is not None:
        if folder.facts()["method"] != method.name:
            raise RunError(
                f"{folder.path} is a run of {folder.facts()['method']!r}, not of {method.name!r}; "
                "results would be mixed. Give the method it began with."
            )
        values["method"] = {**values["method"], "name": method}
    return values


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
