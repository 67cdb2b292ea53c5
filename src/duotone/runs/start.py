"""Begin a run, continue one, open one."""

from __future__ import annotations

import platform
import sys
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from duotone.config import RunConfig, merged, read_toml
from duotone.errors import RunError
from duotone.federation.method import Method
from duotone.registry import check_file, own_code
from duotone.runs.draft import OBJECT, Data, with_tables
from duotone.runs.execute import RunObserver, execute
from duotone.runs.folder import RunFolder
from duotone.runs.handle import Run
from duotone.runs.notebook import notebook_observers
from duotone.runs.plan import Model, Plan, facts_of, plan_run


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
        observers: Told what happens; in a notebook, by default, a line that shows progress.
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
        check_file(values)
    given = {} if method is None else {"method": method}
    values = merged(with_tables(values), _placed({**given, **settings}))
    if isinstance(data, str | Path):
        values, data = {**values, "data": str(data)}, None
    if isinstance(model, str):
        values, model = {**values, "model": model}, None
    plan = plan_run(values, data=data, model=model)
    own_code(plan.config.model_dump())  # the program gave its names, or its files were checked
    folder = prepare(plan, None if out is None else Path(out))
    execute(folder, plan, observers or notebook_observers())
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
    execute(folder, plan, observers or notebook_observers())
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
        ConfigError: The run names code that was neither given nor allowed.
    """
    values = folder.config().model_dump()
    check_file(
        {
            **values,
            "method": values["method"]["name"] if method is None else None,
            "model": values["model"] if model is None else None,
        }
    )
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
