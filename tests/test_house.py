"""The house rules that a program can check."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

import duotone
from duotone.federation.method import Method

ROOT = Path(duotone.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
LONG = {"federate"}
"""The rounds are read from top to bottom."""
SAME = {"__init__.py", "__main__.py"}
QUESTIONS = 16


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(ROOT)) for path in FILES])
def test_files_and_functions_can_be_read_at_a_glance(path):
    """Signature and docstring of a function aside: a command's are its help page."""
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 350
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name not in LONG:
            first = node.body[1 if ast.get_docstring(node) and len(node.body) > 1 else 0]
            assert node.end_lineno - first.lineno < 60, node.name


def test_no_file_name_stands_for_two_things():
    places = defaultdict(list)
    for path in FILES:
        if path.name not in SAME:
            places[path.name].append(str(path.relative_to(ROOT)))
    assert [found for found in places.values() if len(found) > 1] == []


def test_a_method_is_asked_at_most_sixteen_questions():
    """A question is what some method in the house answers in its own way."""
    asked = {
        name
        for method in _subclasses(Method)
        if method.__module__.startswith("duotone.")
        for name in vars(method)
        if callable(getattr(Method, name, None)) and not name.startswith("_")
    } - {"Config"}
    assert len(asked) <= QUESTIONS, sorted(asked)


def _subclasses(kind):
    from duotone.methods import METHODS

    for name in METHODS:
        METHODS.load(name)
    found = kind.__subclasses__()
    return [*found, *(deeper for own in found for deeper in _subclasses(own))]


def test_reports_and_tables_take_no_score_name_apart():
    """Score names are made in one place and looked up by their keys."""
    for room in ("report", "cli", "runs"):
        for path in (ROOT / room).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            for trace in ('startswith("probe', 'partition("@")', '"_from_"', 'split("@")'):
                assert trace not in text, (path.name, trace)
