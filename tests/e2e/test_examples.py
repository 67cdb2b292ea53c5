from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_prints_a_result(path, tmp_path):
    done = subprocess.run(
        [sys.executable, str(path)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "0." in done.stdout
    assert len(list(tmp_path.glob("runs/*/summary.json"))) == 1


def shown(source: str, space: dict) -> object:
    """Run a cell as a notebook does; return the value of its last line, if it has one."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), space)
    return (
        None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), space)
    )


@pytest.mark.usefixtures("brief_measures")
def test_the_notebook_goes_from_own_data_to_an_explanation(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = Path(__file__).parents[2] / "examples" / "first_hour.ipynb"
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert all(not cell.get("outputs") for cell in cells)  # outputs are not committed
    space: dict = {"__name__": "__main__"}
    values = [shown(source, space) for source in code]
    pages = [value._repr_html_() for value in values if hasattr(value, "_repr_html_")]
    run, client, card, portrait = pages
    assert "3 clients trained fedbn for 8 rounds" in run
    assert "client north" in client
    assert "north" in card
    assert "south" in portrait
    assert values[-1].name == "report.html"
    assert space["run"].summary["scores"]["member.accuracy"]["value"] > 0.5
