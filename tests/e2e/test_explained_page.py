"""The page on explanations shows what the raw values say."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_tables_are_made_from_the_values():
    page = (ROOT / "docs" / "results" / "explained.md").read_text(encoding="utf-8")
    rows = json.loads((ROOT / "docs" / "results" / "explained.json").read_text(encoding="utf-8"))
    tables = runpy.run_path(str(ROOT / "studies" / "explained.py"))["tables"]
    shown = page.partition("<!-- tables -->\n")[2].partition("<!-- end of tables -->")[0]
    assert shown.strip() == tables(rows).strip()
