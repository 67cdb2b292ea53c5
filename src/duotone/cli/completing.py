"""What the shell offers when Tab is pressed, and what is said where an option does not exist.

``duotone --install-completion`` turns completion on. Nothing here imports torch: Tab answers at
once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from duotone.errors import ConfigError

_OPTIONS = {
    "dataset": "--data",
    "num-clients": "--clients",
    "num-rounds": "--rounds",
    "global-rounds": "--rounds",
    "scheme": "--partition",
    "network": "--model",
    "random-state": "--seed",
    "output": "--out",
}
_SETTINGS = {
    "alpha": "partition.alpha",
    "dirichlet-alpha": "partition.alpha",
    "newcomers": "partition.newcomers",
    "lr": "lr",
    "learning-rate": "lr",
    "epochs": "epochs",
    "local-epochs": "epochs",
    "batch-size": "batch_size",
    "momentum": "momentum",
    "weight-decay": "weight_decay",
    "optimizer": "optimizer",
    "labels": "labels",
    "shots": "shots",
    "personalise": "personalise",
    "quorum": "quorum",
    "latents": "latents",
    "evaluate-every": "evaluate_every",
}
_COMMANDS = ("run", "partition")


def methods(incomplete: str) -> list[str]:
    """Return the methods that begin so."""
    from duotone.methods import METHODS

    return _beginning(METHODS, incomplete)


def partitions(incomplete: str) -> list[str]:
    """Return the partitions that begin so."""
    names = "iid dirichlet groups domains pathological quantity attribute natural"
    return _beginning(names.split(), incomplete)


def run_folders(incomplete: str) -> list[str]:
    """Return the run folders that begin so, those in ``runs`` where nothing was typed yet."""
    folder, _, name = incomplete.rpartition("/")
    place = Path(folder or "runs")
    found = sorted(place.glob("*/run.json")) if place.is_dir() else []
    return [str(path.parent) for path in found if path.parent.name.startswith(name)]


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def check_options(arguments: Sequence[str]) -> None:
    """Say where to put what other tools have as an option of their own.

    Raises:
        ConfigError: There is such an option.
    """
    if not arguments or arguments[0] not in _COMMANDS:
        return
    for place, argument in enumerate(arguments):
        name, _, value = argument.removeprefix("--").partition("=")
        key = name.replace("_", "-").lower()
        if not argument.startswith("--"):
            continue
        if not value and place + 1 < len(arguments):
            value = arguments[place + 1]
        if key in _OPTIONS:
            raise ConfigError(f"There is no option --{name}. Did you mean {_OPTIONS[key]} {value}?")
        if key in _SETTINGS:
            setting = f"--set {_SETTINGS[key]}={value}"
            raise ConfigError(f"--{name} is a setting, not an option. Write: {setting}")
