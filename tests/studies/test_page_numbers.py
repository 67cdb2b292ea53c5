"""Every number of README and the result pages is in committed results, or a stated exception."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from page_numbers import heading_of, read, unsupported

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
NUMBERS = tomllib.loads((RESULTS / "numbers.toml").read_text(encoding="utf-8"))
PAGES = [*sorted(RESULTS.glob("*.md")), ROOT / "README.md"]


def called(path):
    """Return the name of a page in numbers.toml."""
    return path.name if path.parent == RESULTS else "/README.md"


def results_of(path):
    """Return the results that a page may show."""
    named = re.findall(r"([\w-]+)\.json", path.read_text(encoding="utf-8"))
    names = {*named, path.stem, *NUMBERS["files"].get(called(path), [])}
    return [read(file) for name in sorted(names) if (file := RESULTS / f"{name}.json").exists()]


def is_excepted(path, page, shown, used=None):
    """Say whether a number is a stated exception; note which ones were needed."""
    for place, exception in enumerate(NUMBERS["exception"]):
        numbers = exception["numbers"]
        is_meant = (
            all(digits == 2 for _, digits in shown.numbers)
            if numbers == "two decimals"
            else shown.text in numbers
        )
        where = (exception["page"], exception["under"])
        if is_meant and where == (called(path), heading_of(page, shown.line)):
            if used is not None:
                used.add((place, shown.text))
            return True
    return False


def missing(path, page, used=None):
    """Return the numbers that neither results nor exceptions have."""
    if called(path) in NUMBERS["written"]:
        page = re.sub("<!-- tables:.*<!-- end of tables -->", "", page, flags=re.DOTALL)
    found = unsupported(page, results_of(path), called(path) in NUMBERS["ranges"])
    return [
        f"{path.name}:{shown.line}: {shown.text}"
        for shown in found
        if not is_excepted(path, page, shown, used)
    ]


@pytest.mark.parametrize("path", PAGES, ids=called)
def test_every_number_of_a_page_is_in_its_results(path):
    assert missing(path, path.read_text(encoding="utf-8")) == []


def test_every_exception_is_needed_and_has_a_reason():
    used = set()
    for path in PAGES:
        missing(path, path.read_text(encoding="utf-8"), used)
    for place, exception in enumerate(NUMBERS["exception"]):
        assert exception["reason"]
        if exception["numbers"] != "two decimals":
            left = [text for text in exception["numbers"] if (place, text) not in used]
            assert left == [], f"{exception['page']}, {exception['under']}"


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("bench.md", "97.7 ± 1.2 (1.7) **better**", "97.7 ± 1.3 (1.7) **better**"),
        ("bench.md", "(+1.8, 0.0 to 3.5)", "(+1.8, 0.0 to 3.9)"),
        ("bench.md", "| `fedbn` | 83.8 ± 1.9 (10.3)", "| `fedbn` | 83.7 ± 1.9 (10.3)"),
        ("target-shift.md", "95.9 ± 2.8 (3.3)", "96.9 ± 2.8 (3.3)"),
        ("README.md", "| `fedrep` | 80.7 |", "| `fedrep` | 85.7 |"),
    ],
)
def test_a_wrong_number_is_seen(name, before, after):
    path = RESULTS / name
    page = path.read_text(encoding="utf-8")
    assert before in page
    assert len(missing(path, page.replace(before, after, 1))) == 1
