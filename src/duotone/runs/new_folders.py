"""Where the folder of a new run is made."""

from __future__ import annotations

import os
import shutil
from datetime import datetime
from pathlib import Path

from duotone.config import RunConfig


def free_place(config: RunConfig, method: str) -> Path:
    """Return a folder in ``runs`` that does not exist yet, named after what is run."""
    stamp = datetime.now().strftime("%Y-%m-%d_%H%M")
    data = Path(config.data.removeprefix("object:")).stem
    name = f"{stamp}_{method}_{data}_seed{config.seed}"
    path, number = Path("runs") / name, 2
    while path.exists():
        path, number = Path("runs") / f"{name}-{number}", number + 1
    return path


def clear_half_made(parent: Path) -> None:
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
