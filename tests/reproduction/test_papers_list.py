"""The list has every table and figure of the papers, each with a command and its numbers."""

from __future__ import annotations

from collections import Counter

import pytest

from duotone.errors import ConfigError
from duotone.methods import METHODS
from duotone.reproduction.rows import (
    OURS,
    all_rows,
    papers,
    row_of,
    study_file,
    study_values,
)

ROWS = list(all_rows())


def wanted():
    """Yield how the key of every table and figure begins."""
    yield from (f"feddva-fig-{number}" for number in range(3, 12))
    yield from (f"thesis-fig-4.{number}" for number in range(4, 14))
    yield from (f"thesis-fig-5.{number}" for number in range(1, 9))
    yield from (f"thesis-fig-6.{number}" for number in range(1, 11))
    yield from (f"thesis-table-5.{number}" for number in range(2, 5))
    yield from (f"thesis-table-6.{number}" for number in range(1, 10))
    yield "thesis-section-a.2.2"
    yield "padpaf-table-1"
    yield "padpaf-section-c.1"
    yield from (f"padpaf-fig-{number}" for number in range(3, 22))
    yield from ("content-style-table-1", "content-style-fig-3")


@pytest.mark.parametrize("start", list(wanted()))
def test_every_table_and_figure_has_its_row(start):
    assert any(row.key == start or row.key.startswith(f"{start}-") for row in ROWS)


def test_keys_and_names_are_used_once():
    assert [key for key, count in Counter(row.key for row in ROWS).items() if count > 1] == []
    assert [name for name, count in Counter(row.name for row in ROWS).items() if count > 1] == []


@pytest.mark.parametrize("row", ROWS, ids=[row.key for row in ROWS])
def test_a_row_can_be_run_and_judged_or_says_why_not(row):
    assert row.command == f"duotone reproduce {row.key}"
    assert row.method in METHODS
    if row.study is None:
        assert row.not_comparable
        return
    assert study_file(row.study).exists()
    entries = set(study_values(row.study)["entries"])
    for earlier in row.earlier:
        entries |= {earlier.label, *earlier.entries}
    for result in row.judged:
        assert result.label in entries
        assert result.minus is None or result.minus in entries
        assert result.published is not None or result.nothing is not None
    assert bool(row.judged) or row.not_comparable
    assert not row.duotone or OURS in entries


def test_a_table_has_as_many_numbers_as_columns():
    for row in ROWS:
        if row.table is None:
            continue
        count = len(row.table.columns)
        assert len(row.table.scores) == count
        for values in (*row.table.rows.values(), *row.table.spreads.values()):
            assert len(values) == count, row.key


@pytest.mark.parametrize(
    ("key", "label", "column", "published"),
    [
        ("thesis-table-5.2", "FedCD-FC1", "avg. accuracy", 98.43),
        ("thesis-table-5.3", "FedCD-FC3", "w. F1", 69.69),
        ("thesis-table-5.4", "FedAvg+BN", "w. AUC", 97.82),
        ("thesis-table-6.1", "FedDual", "avg. accuracy", 96.87),
        ("thesis-table-6.2", "FedVC-sg", "w. F1", 95.92),
        ("thesis-table-6.3", "Ditto", "w. AUC", 92.10),
        ("thesis-table-6.4", "FedRep", "avg. accuracy", 34.85),
        ("thesis-table-6.7", "iota 0.01", "avg. accuracy on tr clients", 85.74),
        ("thesis-table-6.9", "gamma 0.5", "avg. accuracy on ts clients", 82.35),
        ("padpaf-table-1", "Ditto", "#3", 240.70),
        ("content-style-table-1", "ours", "SVHN", 68.43),
    ],
)
def test_published_numbers_are_those_of_the_papers(key, label, column, published):
    table = row_of(key).table
    assert table.rows[label][table.columns.index(column)] == published


def test_a_difference_of_a_table_is_that_of_its_rows():
    first = row_of("thesis-table-5.2").judged[0]
    assert (first.label, first.minus) == ("FedCD-FC1", "FedAvg+BN")
    assert first.published == pytest.approx(98.43 - 97.97)
    assert first.nothing == 0


def test_an_unknown_key_is_an_error_with_a_hint():
    with pytest.raises(ConfigError, match=r"thesis-table-6\.1"):
        row_of("thesis-table-6,1")


def test_every_study_of_the_list_belongs_to_a_row():
    used = {row.study for row in ROWS}
    there = {path.stem for path in study_file("x").parent.glob("*.toml")}
    assert there == used - {None}


def test_papers_are_those_of_the_five_methods():
    assert list(papers()) == ["feddva", "thesis", "padpaf", "content-style"]
    methods = {row.method for row in ROWS}
    assert methods == {"feddva", "fedcd", "fedvc", "padpaf", "padpaf-vae", "content-style"}
