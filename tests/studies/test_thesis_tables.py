from __future__ import annotations

import json

import pytest
from studies.thesis_tables import PAGES, RESULTS, page_with_tables


@pytest.mark.parametrize("page", PAGES)
def test_pages_have_the_committed_numbers(page):
    text = (RESULTS / page).read_text(encoding="utf-8")
    assert "<!-- table: " in text
    assert page_with_tables(text, RESULTS) == text


def test_a_table_is_the_results_beside_the_thesis(tmp_path):
    score = {"mean": 0.5, "low": 0.4, "high": 0.6, "unit": "share"}
    alone = {"mean": 0.25, "low": None, "high": None, "unit": "share"}
    entries = [
        {"name": "fedbn", "seeds": [0, 1], "scores": {"member.accuracy": score}},
        {"name": "fedcd, FC1", "seeds": [0], "scores": {"newcomer.accuracy": alone}},
        {"name": "fedrep", "seeds": [], "scores": {}},
    ]
    (tmp_path / "fedcd-curves.json").write_text(json.dumps({"entries": entries}))
    told = {"seed0": {"local": {"by other clients": 0.912}}}
    (tmp_path / "fedcd-curves-codes.json").write_text(json.dumps({"fedcd, FC1": told}))
    page = "A\n<!-- table: fedcd-curves -->\nold\n<!-- end of table -->\nB\n"
    lines = page_with_tables(page, tmp_path).splitlines()
    assert lines[0] == "A"
    assert lines[-1] == "B"
    assert lines[4] == "| fedbn | 0, 1 | 80.4 | 50.0 ± 10.0 | – | – | – |"
    assert lines[5] == "| fedcd, FC1 | 0 | 91.5 | – | 25.0 | 91 | – |"
    assert len(lines) == 8


def test_a_study_that_was_not_run_says_so(tmp_path):
    page = "<!-- table: fedcd-epsilon -->\n<!-- end of table -->"
    assert "Not run yet" in page_with_tables(page, tmp_path)
