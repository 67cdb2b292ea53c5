"""The documentation as a site: it builds without a warning, is complete, and does what it says."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import duotone
from duotone.methods import METHODS
from duotone.runs.forecast import Forecast

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
HEADINGS = [
    "Idea",
    "What is shared and local",
    "Use",
    "Settings",
    "What holds",
    "Results",
    "Differences from the paper",
]
ELSEWHERE = ("digits5", "mnist", "celeba64", "cifar10")
"""Data that not every machine has."""


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)


def commands(path: Path) -> list[list[str]]:
    text = "\n".join(blocks(path, "sh")).replace("\\\n", " ")
    return [shlex.split(line)[1:] for line in text.splitlines() if line.startswith("duotone ")]


def test_the_site_builds_without_a_warning_and_needs_no_network(tmp_path):
    pytest.importorskip("sphinx")
    pytest.importorskip("pydata_sphinx_theme")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", str(DOCS), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "methods" / "fedbn.html").read_text(encoding="utf-8")
    loaded = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="([^"]+)"', page)
    assert loaded
    assert [address for address in loaded if re.match(r"https?:|//", address)] == []
    index = (tmp_path / "searchindex.js").read_text(encoding="utf-8")
    words = json.loads(index[index.index("(") + 1 : index.rindex(")")])["terms"]
    assert "newcom" in words  # the search stems words
    assert 'id="duotone.run"' in (tmp_path / "api.html").read_text(encoding="utf-8")


def test_the_reference_has_every_public_name_once():
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    named = re.findall(r"^\.\. [a-z:]+:: duotone\.(\w+)$", text, re.MULTILINE)
    assert sorted(named) == sorted(duotone.__all__)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_page_has_the_same_headings(name):
    text = (DOCS / "methods" / f"{name}.md").read_text(encoding="utf-8")
    found = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert found[: len(HEADINGS)] == HEADINGS
    assert f"](../images/methods/{name}.svg)" in text


def test_the_pictures_of_methods_are_what_the_code_does():
    place = DOCS / "pictures.py"
    spec = importlib.util.spec_from_file_location("pictures", place)
    assert spec is not None
    assert spec.loader is not None
    pictures = importlib.util.module_from_spec(spec)
    sys.modules["pictures"] = pictures  # dataclasses look their module up
    spec.loader.exec_module(pictures)
    for name in METHODS:
        drawn = pictures.drawing(name, pictures.inks_of(name))
        kept = (pictures.PLACE / f"{name}.svg").read_text(encoding="utf-8")
        assert drawn == kept, f"{name}: draw it anew with: python docs/pictures.py"
    fedbn = pictures.inks_of("fedbn")
    assert fedbn.local == {"norm1", "norm2", "norm3", "norm4"}
    assert fedbn.shared == {"conv1", "conv2", "fc1", "fc2", "head"}


PAGES = [*(DOCS / "methods").glob("*.md"), *(DOCS / "coming-from").glob("*.md")]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_command_of_a_page_can_be_run(path, cli, monkeypatch):
    """All is checked and planned, nothing trained: that methods train is tested elsewhere."""
    monkeypatch.setattr("duotone.runs.forecast.forecast", lambda plan: Forecast(1, 1, None, 1))
    for command in commands(path):
        at_hand = not any(word in ELSEWHERE for word in command)
        if command[0] == "run" and at_hand:
            cli(*command, "--dry-run")


@pytest.mark.usefixtures("brief_measures")
@pytest.mark.filterwarnings("ignore:Computing in one process")
@pytest.mark.parametrize("page", ["tools", "coming-from/flower", "coming-from/scikit-learn"])
def test_every_python_block_of_a_page_runs(page, folder, capsys):
    found = blocks(DOCS / f"{page}.md", "python")
    assert found
    space: dict[str, Any] = {"__name__": "__main__"}
    for source in found:
        exec(compile(source, f"{page}.md", "exec"), space)
    assert space["run"].status == "finished"
