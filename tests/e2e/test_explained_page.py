"""The page on explanations shows what the raw values say."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_table_is_made_from_the_values():
    page = (ROOT / "docs" / "results" / "explained.md").read_text(encoding="utf-8")
    rows = json.loads((ROOT / "docs" / "results" / "explained.json").read_text(encoding="utf-8"))
    table = runpy.run_path(str(ROOT / "studies" / "explained.py"))["table"]
    shown = page.partition("<!-- table -->\n")[2].partition("<!-- end of table -->")[0]
    assert shown.strip() == table(rows).strip()
