"""The page on attacks says what the files of results say."""

from __future__ import annotations

import json

import pytest
from studies.attack_tables import PAGE, TABLES, page, tables
from studies.attacks import METHODS, ROBUST, RULES


def results(entries, *, under=lambda attack, entry: 0.9):
    """Two seeds, one attack and its clean run; member c is hostile, and clean it is hopeless."""
    clean = {"accuracy": {"a": 0.9, "b": 0.94, "c": 0.0}, "seconds": 30.0}

    def hit(entry, shift):
        reached = under("stale", entry) + shift
        return {"accuracy": {"a": reached, "b": reached}, "seconds": 30.0}

    return {
        "seeds": {
            str(seed): {
                "none": dict.fromkeys(entries, clean),
                "stale": {entry: hit(entry, 0.01 * seed) for entry in entries},
            }
            for seed in (1, 2)
        }
    }


def write(place, **files):
    for name, content in files.items():
        (place / f"attacks-{name}.json").write_text(json.dumps(content))


def test_the_page_is_written_from_the_results():
    assert page() == PAGE.read_text(encoding="utf-8")


def test_a_loss_is_that_of_the_members_that_are_honest(tmp_path):
    write(
        tmp_path, digits=results(RULES, under=lambda attack, entry: 0.9 if entry == ROBUST else 0.1)
    )
    text = tables(tmp_path)
    # Clean 92 %, without the hostile member; attacked 91 and 92 %: 1 and 0 points.
    assert "| no attack: accuracy, % | 92.0 ± 0.0" in text
    stale = next(line for line in text.splitlines() if line.startswith("| stale"))
    cells = dict(zip(RULES, (cell.strip() for cell in stale.split("|")[2:-1]), strict=True))
    assert cells[ROBUST] == "+0.5 ± 6.4"
    assert cells["mean"] == "+80.5 ± 6.4"
    assert "loses most under `stale`: 0.5 ± 6.4 points (within 3 points" in text
    assert f"2 seeds (1, 2); {4 * len(RULES)} runs, {2 * len(RULES)} minutes" in text
    assert text.count("Not run yet.") == len(TABLES) - 1


def test_a_rule_that_loses_too_much_or_gives_up_is_said_to(tmp_path):
    write(tmp_path, digits=results(RULES, under=lambda attack, entry: 0.5))
    assert "above 3: stale" in tables(tmp_path)
    content = results(RULES)
    content["seeds"]["2"]["stale"][ROBUST] = {"failed": "too few", "seconds": 1.0}
    write(tmp_path, digits=content)
    assert f"`{ROBUST}` gave up under stale." in tables(tmp_path)


@pytest.mark.parametrize("rule", ["mean", ROBUST])
def test_methods_have_a_table_for_each_rule(tmp_path, rule):
    entries = [f"{name}, {own}" for name in METHODS for own in ("mean", ROBUST)]
    under = {entry: 0.2 + 0.05 * place for place, entry in enumerate(entries)}
    write(tmp_path, methods=results(entries, under=lambda attack, entry: under[entry]))
    part = tables(tmp_path).partition(f"Aggregated by `{rule}`:")[2]
    stale = next(line for line in part.splitlines() if line.startswith("| stale"))
    first = 100 * under[f"fedavg, {rule}"] + 1.5
    assert stale.split("|")[2].strip() == f"{first:.1f} ± 6.4"


def test_a_seed_that_is_not_done_yet_is_left_out(tmp_path):
    content = results(RULES)
    del content["seeds"]["2"]["stale"]["krum"]
    write(tmp_path, digits=content)
    assert f"1 seed (1); {2 * len(RULES)} runs" in tables(tmp_path)
