"""Personalised federated learning, printed in two inks: what is shared, and what is local.

    import duotone

    run = duotone.run(method="fedavg", data="digits", rounds=10)
    run.summary["scores"]["member.accuracy"]

Names are imported when they are first used, so that ``import duotone`` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duotone.data import DATASETS as datasets
    from duotone.data.dataset import Dataset
    from duotone.errors import DuotoneError
    from duotone.federation.engine import federate
    from duotone.federation.method import Method, MethodSettings
    from duotone.methods import METHODS as methods
    from duotone.runs import Run, load_run, resume, run
    from duotone.runs.align import align
    from duotone.runs.compare import compare
    from duotone.runs.generate import generate
    from duotone.runs.restyle import anonymise, restyle
    from duotone.runs.study import run_study as study

_WHERE = {
    "Dataset": "duotone.data.dataset:Dataset",
    "DuotoneError": "duotone.errors:DuotoneError",
    "Method": "duotone.federation.method:Method",
    "MethodSettings": "duotone.federation.method:MethodSettings",
    "Run": "duotone.runs:Run",
    "align": "duotone.runs.align:align",
    "anonymise": "duotone.runs.restyle:anonymise",
    "compare": "duotone.runs.compare:compare",
    "datasets": "duotone.data:DATASETS",
    "federate": "duotone.federation.engine:federate",
    "generate": "duotone.runs.generate:generate",
    "load_run": "duotone.runs:load_run",
    "methods": "duotone.methods:METHODS",
    "restyle": "duotone.runs.restyle:restyle",
    "resume": "duotone.runs:resume",
    "run": "duotone.runs:run",
    "study": "duotone.runs.study:run_study",
}

__all__ = [
    "Dataset",
    "DuotoneError",
    "Method",
    "MethodSettings",
    "Run",
    "align",
    "anonymise",
    "compare",
    "datasets",
    "federate",
    "generate",
    "load_run",
    "methods",
    "restyle",
    "resume",
    "run",
    "study",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("duotone")
    if name not in _WHERE:
        raise AttributeError(f"module 'duotone' has no attribute {name!r}")
    from duotone.registry import import_object

    return import_object(_WHERE[name])


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
