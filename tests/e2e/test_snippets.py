"""What pages show is what the program understands: every command line, and every settings file."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import typer
from safetensors.torch import load_file, save_file
from torch import nn

import duotone
from duotone.cli import app
from duotone.explain.policy import read_policy
from duotone.runs.forecast import Forecast

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SHOWN = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "benchmarks" / "README.md"]
SHOWN += sorted(DOCS.rglob("*.md"))


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)


def typed(path: Path) -> list[str]:
    """Every line of a page's blocks that calls duotone."""
    text = path.read_text(encoding="utf-8")
    lines = "\n".join(re.findall(r"```(?:sh)?\n(.*?)```", text, re.DOTALL)).replace("\\\n", " ")
    return [line for line in lines.splitlines() if line.startswith("duotone ")]


def named(path: Path) -> list[str]:
    """Every code span in a page's prose that names a command."""
    prose = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    spans = [re.sub(r"\s+", " ", span) for span in re.findall(r"(?<!`)`([^`]+)`(?!`)", prose)]
    return [span for span in spans if span.startswith("duotone ") and "…" not in span]


TYPED = [(path, line) for path in SHOWN for line in typed(path)]
NAMED = [(path, line) for path in SHOWN for line in named(path)]


def understand(words: list[str]) -> None:
    """Parse a command line as the program does, and stop before anything is done."""
    command: Any = typer.main.get_command(app)
    context = None
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        context = command.make_context(command.name, [], parent=context, resilient_parsing=True)
        assert words[0] in command.commands, f"there is no command {words[0]!r}"
        command = command.commands[words.pop(0)]
    command.make_context(command.name, list(words), parent=context)


def refusal(line: str) -> str:
    """Why a line is refused, if it is; files that only its reader has may be absent."""
    words = shlex.split(line, comments=True)[1:]
    try:
        understand(words)
    except Exception as error:  # what the parser raises has no public name
        said = str(getattr(error, "message", error)) or type(error).__name__
        return "" if "does not exist" in said or said == "Exit" else said
    return ""


def test_pages_show_many_commands():
    assert len(TYPED) > 80
    assert len(NAMED) > 60


def test_what_is_no_command_is_refused():
    assert "no-such" in refusal("duotone run fedbn --no-such 3")
    assert "no command" in refusal("duotone ran fedbn")
    assert "extra" in refusal("duotone doctor extra")
    assert refusal("duotone report runs/not-there  # a remark") == ""


@pytest.mark.parametrize(
    ("path", "line"), TYPED, ids=[f"{path.stem}: {line}" for path, line in TYPED]
)
def test_every_command_that_a_page_shows_is_understood(path, line, folder):
    assert refusal(line) == ""


@pytest.mark.parametrize(
    ("path", "line"), NAMED, ids=[f"{path.stem}: {line}" for path, line in NAMED]
)
def test_every_command_that_a_page_names_exists(path, line, folder):
    words = line.split()
    if words[1].startswith("-") or words[1].isupper():
        pytest.skip("no command, or an option of the program itself, which would act at once")
    said = refusal(line)  # an option may be named without its value, a command without arguments
    assert said == "" or "requires an argument" in said or "Missing" in said


@pytest.mark.parametrize("page", ["how-to", "cli"])
def test_the_studies_of_pages_can_be_planned(page, cli, folder):
    (text,) = [block for block in blocks(DOCS / f"{page}.md", "toml") if "[search]" in block]
    Path("mine.toml").write_text(text, encoding="utf-8")
    assert "runs" in cli("study", "mine.toml", "--dry-run").stdout


def test_the_policy_of_a_page_can_be_read(folder):
    (text,) = blocks(DOCS / "explain.md", "toml")
    Path("policy.toml").write_text(text, encoding="utf-8")
    assert read_policy(Path("policy.toml")).layers == {"norm1": 0.5}


def test_what_the_first_page_submits_can_be_run(cli, folder, monkeypatch):
    monkeypatch.setattr("duotone.runs.forecast.forecast", lambda plan: Forecast(1, 1, None, 1))
    (text,) = blocks(DOCS / "start.md", "toml")
    Path("fedbn.toml").write_text(text, encoding="utf-8")
    simulated = ["--data", "mini-digits", "--partition", "iid", "--clients", "4", "--dry-run"]
    said = cli("run", "--config", "fedbn.toml", *simulated).stdout
    assert "rounds = 20" in said
    assert 'name = "fedbn"' in said


class SmallNet(nn.Module):
    """Stands in for a backbone of timm where that is not installed."""

    def __init__(self, outputs: int, channels: int) -> None:
        super().__init__()
        self.pretrained_cfg = {"mean": (0.5, 0.5, 0.5), "std": (0.2, 0.2, 0.2)}
        self.body = nn.Sequential(nn.Conv2d(channels, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        self.fc = nn.Linear(4, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.body(x).flatten(1))


def small_timm() -> SimpleNamespace:
    """The three functions of timm that duotone calls, for :class:`SmallNet`."""

    def create_model(name, pretrained, num_classes, in_chans, pretrained_cfg_overlay):
        assert (name, pretrained) == ("resnet18", True)
        network = SmallNet(num_classes, in_chans)
        given = load_file(pretrained_cfg_overlay["file"])
        own = network.state_dict()
        same = {key: value for key, value in given.items() if value.shape == own[key].shape}
        network.load_state_dict(same, strict=False)
        return network

    return SimpleNamespace(
        create_model=create_model, is_model=lambda name: True, list_models=lambda: ["resnet18"]
    )


def backbone_snippet(network: nn.Module) -> duotone.Run:
    """Execute the five lines of the guide, on small images, for one round."""
    save_file(network.state_dict(), "resnet18.safetensors")
    (source,) = blocks(DOCS / "how-to.md", "py")
    smaller = {
        '"cifar10"': '"mini-digits"',
        "rounds=5": "rounds=1, curve=[], measure='none'",
        '"newcomers": 1': '"newcomers": 1, "max_train": 40, "max_test": 20',
    }
    for shown, small in smaller.items():
        assert shown in source
        source = source.replace(shown, small)
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, "how-to.md", "exec"), space)
    run: duotone.Run = space["run"]
    return run


@pytest.mark.filterwarnings("ignore:Computing in one process")
def test_the_backbone_of_the_guide_is_trained_with_a_stand_in_for_timm(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", small_timm())
    run = backbone_snippet(SmallNet(1000, 1))
    assert run.status == "finished"
    assert run.folder.facts()["parts"]["local"]["parameters"] == 4 * 10 + 10


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Computing in one process")
def test_the_backbone_of_the_guide_is_trained_with_timm(folder):
    try:
        import timm
    except (ImportError, RuntimeError) as error:  # the latter: a torchvision that fits no torch
        pytest.skip(f"timm cannot be imported ({error})")
    run = backbone_snippet(timm.create_model("resnet18", pretrained=False))
    assert run.status == "finished"
    assert run.folder.facts()["parts"]["local"]["parameters"] == 512 * 10 + 10
