"""Tables on the terminal."""

from __future__ import annotations

import pytest
from rich.console import Console

from duotone.cli import printing

SCORES = {
    f"{role}.{name}": {"value": 0.5, "std": 0.1, "n": 4, "unit": "share"}
    for role in ("member", "newcomer")
    for name in ("accuracy", "worst")
}
SUMMARY = {"headline": "accuracy", "newcomer_rule": "few-shot", "scores": SCORES}


@pytest.mark.parametrize(("narrow", "columns"), [(True, 4), (False, 6)])
def test_names_and_numbers_stay_whole_at_sixty_columns(narrow, columns, monkeypatch):
    monkeypatch.setattr(printing, "is_narrow", lambda: narrow)
    table = printing.results_table([("content-style", SUMMARY)])
    assert len(table.columns) == columns
    console = Console(width=60)
    with console.capture() as captured:
        console.print(table)
    said = captured.get()
    assert "content-style" in said
    assert not narrow or said.count("50.0 ± 10.0") == 2


def test_values_are_shorter_where_there_is_little_room(monkeypatch):
    scores = {
        "loss": {"value": 3.36823, "std": 0.095, "n": 4, "unit": "nats"},
        "nmi": {"value": -0.19049, "std": 0.0, "n": 4, "unit": "index"},
    }
    monkeypatch.setattr(printing, "is_narrow", lambda: True)
    assert [printing.value_text(scores, name) for name in scores] == ["3.368 ± 0.095", "-0.190"]
    monkeypatch.setattr(printing, "is_narrow", lambda: False)
    assert printing.value_text(scores, "nmi") == "-0.1905 ± 0.0000"
