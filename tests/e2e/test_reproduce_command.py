"""duotone reproduce, through the real command line."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from duotone.reproduction.rows import all_rows


def test_the_list_has_every_row_with_its_verdict(cli):
    found = json.loads(cli("reproduce", "--json").stdout)
    assert [row["key"] for row in found] == [row.key for row in all_rows()]
    assert all(row["verdict"] for row in found)
    assert "thesis-table-6.1" in cli("reproduce").stdout


def test_listing_loads_no_torch():
    script = (
        "import sys; from duotone.cli import main; sys.argv = ['duotone', 'reproduce', '--json']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "sys.exit(3 if 'torch' in sys.modules else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], check=False, stdout=subprocess.DEVNULL)
    assert done.returncode == 0


def test_an_unknown_row_is_a_mistake_of_usage(cli):
    assert "Did you mean" in cli("reproduce", "thesis-table-61", code=2).stderr


def test_a_drawing_says_that_nothing_is_measured(cli):
    assert "nothing is measured" in cli("reproduce", "feddva-fig-9").stdout


@pytest.mark.slow
def test_a_row_runs_from_the_command_to_its_page(cli, folder):
    done = cli("reproduce", "padpaf-fig-9", "--scale", "0.02")
    assert "of training here" in done.stderr
    place = folder / "runs" / "reproduce" / "simpson@0.02"
    assert (place / "padpaf-fig-9.html").exists()
    assert "after 2 % of the rounds" in (place / "padpaf-fig-9.md").read_text(encoding="utf-8")
