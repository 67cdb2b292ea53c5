"""An environment of its own for each peer, with the versions that were raced."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[2] / ".venv-race"
COMMON = ("torch==2.13.0", "numpy==2.4.6")


@dataclass(frozen=True)
class Pins:
    """What is installed for one peer.

    Attributes:
        peer: The peer itself.
        needs: What it imports, if its own list of requirements cannot be followed; it names
            torchvision, which has no build for this torch and would bring another torch.
    """

    peer: str
    needs: tuple[str, ...] = ()

    def installs(self) -> list[list[str]]:
        """Return the arguments of each call of pip."""
        if not self.needs:
            return [[*COMMON, self.peer]]
        return [[*COMMON, *self.needs], ["--no-deps", self.peer]]


PINS = {
    "flower": Pins("flwr[simulation]==1.41.0"),
    "pfl": Pins("pfl==0.6.0"),
    "fedlab": Pins(
        "fedlab==1.3.0",
        (
            "nvidia-ml-py==13.615.71",  # has the module pynvml
            "pandas==3.1.1",
            "pillow==13.0.0",
            "scikit-learn==1.9.1",
            "tqdm==4.70.1",
        ),
    ),
    "fluke": Pins(
        "fluke-fl==0.8.1",
        (
            "cerberus==1.3.8",
            "diskcache==5.6.3",
            "matplotlib==3.11.2",
            "omegaconf==2.4.0",
            "pandas==3.1.1",
            "psutil==7.2.2",
            "rich==15.0.0",
            "scikit-learn==1.9.1",
            "seaborn==0.13.2",
            "torchmetrics==1.9.0",
        ),
    ),
}


def python(name: str) -> Path:
    """Return the interpreter of a peer's environment."""
    return FOLDER / name / "bin" / "python"


def is_ready(name: str) -> bool:
    """Return whether an environment holds what the table says."""
    stamp = FOLDER / name / "pins.txt"
    return stamp.exists() and stamp.read_text() == str(PINS[name])


def set_up(name: str) -> None:
    """Make an environment, unless it is there."""
    if is_ready(name):
        return
    print(f"{name}: installing {PINS[name].peer}", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", FOLDER / name], check=True)
    for arguments in PINS[name].installs():
        command = [python(name), "-m", "pip", "install", "--disable-pip-version-check", "-q"]
        subprocess.run([*command, *arguments], check=True)
    (FOLDER / name / "pins.txt").write_text(str(PINS[name]))
