"""Documents are executed: a command or a setting that is no longer there fails here."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from duotone.config import RunConfig
from duotone.data.tables import TableSettings
from duotone.federation.settings import MethodSettings
from duotone.federation.system import SystemSettings
from duotone.methods import METHODS
from duotone.networks.classifiers import cnn_bn
from duotone.partition import SCHEMES
from duotone.types import DataInfo

ROOT = Path(__file__).parents[2]


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)


def commands(path: Path) -> list[list[str]]:
    lines = [line for block in blocks(path, "sh") for line in block.splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("duotone ")]


@pytest.mark.usefixtures("brief_measures")
@pytest.mark.parametrize("name", ["README.md", "docs/start.md"])
def test_every_command_of_a_first_page_works(name, cli):
    # The demo has a test of its own, and the explorer runs until it is stopped.
    found = [c for c in commands(ROOT / name) if c[0] not in ("demo", "explore")]
    assert found
    for command in found:
        cli(*command)


def test_the_readme_can_be_finished():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 700


@pytest.mark.usefixtures("brief_measures")
def test_the_five_lines_of_the_readme_end_in_an_explanation(folder, capsys):
    (source,) = blocks(ROOT / "README.md", "python")
    exec(compile(source, "README.md", "exec"), {"__name__": "__main__"})
    assert "client 0 says" in capsys.readouterr().out.lower()


def test_every_setting_is_documented():
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    names = [*RunConfig.model_fields, *MethodSettings.model_fields, *SCHEMES]
    names += [*TableSettings.model_fields, *SystemSettings.model_fields]
    for scheme in SCHEMES:
        names += SCHEMES.load(scheme).Config.model_fields
    missing = {name for name in names if f"`{name}`" not in text} - {"method", "partition"}
    assert not missing
    for kind in (RunConfig, MethodSettings, TableSettings, SystemSettings):
        for field in kind.model_fields.values():
            if field.description and not field.default_factory:
                assert field.description in text


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_has_a_page_with_its_settings(name):
    text = (ROOT / "docs" / "methods" / f"{name}.md").read_text(encoding="utf-8")
    for setting in METHODS.load(name).Config.model_fields.keys() - MethodSettings.model_fields:
        assert f"`{setting}`" in text


def test_the_method_in_the_guide_is_a_method():
    (source,) = [b for b in blocks(ROOT / "docs" / "how-to.md", "python") if "class FedBN" in b]
    space: dict[str, type] = {}
    exec(source, space)
    method = space["FedBN"](MethodSettings(), cnn_bn)
    _, local = method.split(method.build(DataInfo((1, 8, 8), "classes", 3)))
    assert {name.split(".")[0] for name in local} == {"norm1", "norm2", "norm3"}
    assert isinstance(method.build(DataInfo((1, 8, 8), "classes", 3)), nn.Module)


@pytest.mark.usefixtures("brief_measures")
@pytest.mark.filterwarnings("ignore:Computing in one process")
def test_every_python_block_of_the_guide_runs(folder, capsys):
    """In their order, as a reader would paste them into one notebook."""
    found = blocks(ROOT / "docs" / "how-to.md", "python")
    assert len(found) >= 5
    space: dict[str, Any] = {"__name__": "__main__"}
    for source in found:
        exec(compile(source, "how-to.md", "exec"), space)
    assert space["run"].config.method["name"] == "object:FedBN"
    assert space["run"].status == "finished"
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "After: 'it was the worst of time'"
    assert said[-3:] == ["1 4 {}", "2 4 {}", "3 4 {}"]
    assert space["scores"].shape[1] == 10


def test_links_between_documents_lead_somewhere():
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
            if not target.startswith("http"):
                assert (path.parent / target).exists(), f"{path.name}: {target}"


@pytest.mark.slow
def test_the_demo_ends_with_a_table(cli, folder):
    done = cli("demo", "--out", "demo")
    assert "fedavg-ft" in done.stdout
    assert "duotone explore demo/feddva" in done.stdout
    assert (folder / "demo" / "local" / "summary.json").exists()
    page = (folder / "demo" / "report.html").read_text(encoding="utf-8")
    assert len(page) < 1_000_000
    for title in ("fedavg-ft · One sample: client", "feddva · Everybody&#39;s content in"):
        assert title in page
    assert "--client 0" in done.stdout  # the next command to type
    order = [line.split()[0] for line in done.stdout.splitlines() if " ± " in line]
    assert order == ["local", "fedavg", "fedavg-ft", "feddva"]
    means = [float(line.split()[1]) for line in done.stdout.splitlines() if " ± " in line]
    assert means[-1] > min(means)
