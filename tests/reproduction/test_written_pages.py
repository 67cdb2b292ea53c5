"""The committed pages are those that the committed numbers give."""

from __future__ import annotations

import pytest

from duotone.errors import ConfigError
from duotone.reproduction.committed import repository
from duotone.reproduction.reproduction_page import (
    BEGIN,
    END,
    claims_section,
    reproduction_page,
    with_claims,
    written_pages,
)
from duotone.reproduction.rows import all_rows


def test_no_page_is_stale():
    """Write them anew with: python -m duotone.reproduction."""
    root = repository()
    assert root is not None
    for path, text in written_pages(root).items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is stale"


def test_every_row_and_its_command_are_on_the_page():
    page = reproduction_page()
    for row in all_rows():
        assert f"| {row.name} |" in page
        assert f"`duotone reproduce {row.key}`" in page


def test_claims_replace_the_claims_that_were_there():
    page = f"# FedVC\n\ntext\n\n{BEGIN}\nold\n{END}\n"
    assert with_claims(page, "fedvc") == f"# FedVC\n\ntext\n\n{claims_section('fedvc')}"
    assert with_claims("# FedVC\n\ntext\n", "fedvc") == with_claims(page, "fedvc")
    assert "1. **Thesis Fig 6.1.**" in claims_section("fedvc")


def test_a_lost_mark_is_an_error():
    with pytest.raises(ConfigError, match="lost a mark"):
        with_claims(f"# FedVC\n\n{BEGIN}\nold\n", "fedvc")
