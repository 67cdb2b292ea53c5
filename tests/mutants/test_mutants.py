"""The breaks are still where they say they are, and the tool that tries them can say so."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from mutants.run import ROOT, Mutant, MutantError, load_mutants, run_mutant, why_not_healthy

MUTANTS = load_mutants(Path(__file__).parent)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_break_is_where_it_says_and_its_tests_exist(mutant):
    broken = mutant.applied((ROOT / mutant.file).read_text(encoding="utf-8"))
    ast.parse(broken)
    assert mutant.breaks.endswith(".")
    assert mutant.tests
    for test in mutant.tests:
        file, _, name = test.partition("::")
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert not name or name.partition("[")[0] in names, test


def test_a_text_that_is_missing_or_ambiguous_is_an_error():
    mutant = made("return 2 * x", "return 3 * x")
    with pytest.raises(MutantError, match=r"0 times in src/duotone/__init__\.py"):
        mutant.applied("return x")
    with pytest.raises(MutantError, match="2 times"):
        mutant.applied("return 2 * x\n" * 2)


# -- the tool, on a package of one function


def made(old, new, tests=("tests/test_double.py::test_double",)):
    return Mutant("made", "Doubling.", "src/duotone/__init__.py", old, new, tests)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("made")
    files = {
        "src/duotone/__init__.py": "def double(x):\n    return 2 * x\n",
        "tests/test_double.py": (
            "from duotone import double\n\n"
            "def test_double():\n    assert double(3) == 6\n\n"
            "def test_nothing():\n    assert double(0) == 0\n\n"
            "def test_wrong():\n    assert double(3) == 7\n"
        ),
        "pyproject.toml": "[tool.pytest.ini_options]\ntestpaths = ['tests']\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def test_a_break_that_a_test_notices_is_killed_by_it(root):
    verdict = run_mutant(made("2 * x", "3 * x"), root)
    assert (verdict.fate, verdict.who) == ("killed", "tests/test_double.py::test_double")
    assert "2 * x" in (root / "src/duotone/__init__.py").read_text(), (
        "the tree itself is left alone"
    )


def test_a_break_that_no_test_notices_has_survived(root):
    verdict = run_mutant(made("2 * x", "3 * x", ("tests/test_double.py::test_nothing",)), root)
    assert verdict.fate == "survived"
    assert "SURVIVED" in verdict.row


@pytest.mark.parametrize(
    ("mutant", "why"),
    [
        (made("5 * x", "6 * x"), "occurs 0 times"),
        (made("return 2 * x", "return )"), "SyntaxError"),
        (made("2 * x", "3 * x", ("tests/test_double.py::test_gone",)), "not found"),
    ],
)
def test_a_break_that_cannot_be_tried_is_not_called_killed(root, mutant, why):
    verdict = run_mutant(mutant, root)
    assert verdict.fate == "broken"
    assert why in verdict.who


def test_tests_that_fail_anyway_prove_nothing(root):
    assert why_not_healthy(root, ("tests/test_double.py::test_double",)) is None
    why = why_not_healthy(root, ("tests/test_double.py::test_wrong",))
    assert "fail without it" in why
    assert run_mutant(made("2 * x", "3 * x"), root, why).fate == "broken"
