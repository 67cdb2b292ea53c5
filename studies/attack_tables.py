"""Write the tables of docs/results/attacks.md from what studies/attacks.py has run.

python -m studies.attack_tables

What stands between the marks of the page is written anew: for each file of results that is there,
its table; for one that is not, that it has not been run. Only attacks that every seed of a file has
are shown.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from studies.attacks import METHODS, ROBUST, RULES

from duotone.federation.attacks import ATTACKS
from duotone.files import write_atomically
from duotone.measures.statistics import Estimate, estimate

PLACE = Path(__file__).parents[1] / "docs" / "results"
PAGE = PLACE / "attacks.md"
BEGIN, END = "<!-- tables: written by studies/attack_tables.py -->", "<!-- end of tables -->"
REPORTED = ("label-flip", "backdoor")
"""Attacks that look like clients with other data: no rule promises anything."""
Results = Mapping[str, Any]


def honest_accuracy(results: Results, seed: str, attack: str, entry: str) -> float | None:
    """Return the honest members' mean accuracy; ``None`` if the run gave up.

    Without an attack, of those members that are honest under one with the same seed.
    """
    of_seed = results["seeds"][seed]
    known: Mapping[str, float] | None = of_seed[attack][entry].get("accuracy")
    if known is None:
        return None
    honest = next(
        (
            own["accuracy"]
            for other in of_seed
            if other != "none"
            for own in of_seed[other].values()
            if "accuracy" in own
        ),
        known,
    )
    values = [value for client, value in known.items() if client in honest]
    return sum(values) / len(values)


def shown_attacks(results: Results, entries: tuple[str, ...]) -> list[str]:
    """Return the attacks that every seed and entry of a file has."""
    seeds = results["seeds"].values()
    return [
        attack
        for attack in ATTACKS
        if all(entry in of_seed.get(attack, {}) for of_seed in seeds for entry in entries)
    ]


def over_seeds(results: Results, value: Callable[[str], float | None]) -> Estimate | None:
    """Return a value's mean and interval over seeds; ``None`` if a run gave up."""
    found = [value(seed) for seed in results["seeds"]]
    known = [100 * own for own in found if own is not None]
    return estimate(known) if len(known) == len(found) else None


def loss(results: Results, attack: str, entry: str) -> Estimate | None:
    """Return the points of accuracy that an attack costs honest members, seed by seed."""

    def of_seed(seed: str) -> float | None:
        clean = honest_accuracy(results, seed, "none", entry)
        hit = honest_accuracy(results, seed, attack, entry)
        return None if clean is None or hit is None else clean - hit

    return over_seeds(results, of_seed)


def _cell(found: Estimate | None, sign: str = "") -> str:
    if found is None:
        return "gave up"
    half = "" if found.half is None else f" ± {found.half:.1f}"
    return f"{found.mean:{sign}.1f}{half}".replace("-", "−")


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cost(results: Results) -> str:
    seconds = [
        own["seconds"]
        for of_seed in results["seeds"].values()
        for entries in of_seed.values()
        for own in entries.values()
    ]
    count = len(results["seeds"])
    seeds = f"{count} seed{'s' if count > 1 else ''} ({', '.join(sorted(results['seeds']))})"
    return f"{seeds}; {len(seconds)} runs, {sum(seconds) / 60:.0f} minutes of one core."


def rules_table(results: Results) -> str:
    """Return what each attack costs under every way to aggregate, and what that costs itself."""
    attacks = shown_attacks(results, RULES)

    def clean(entry: str) -> Estimate | None:
        return over_seeds(results, lambda seed: honest_accuracy(results, seed, "none", entry))

    rows = [["no attack: accuracy, %", *(_cell(clean(rule)) for rule in RULES)]]
    for attack in sorted(attacks, key=lambda name: name in REPORTED):
        losses = [loss(results, attack, rule) for rule in RULES]
        rows.append([attack, *(_cell(found, "+") for found in losses)])
    return f"{_cost(results)}\n\n{_table(['', *RULES], rows)}\n\n{_verdict(results, attacks)}"


def _verdict(results: Results, attacks: list[str]) -> str:
    """Say how the rule that was chosen beforehand fared."""
    bound = {a: loss(results, a, ROBUST) for a in attacks if a not in REPORTED}
    gave_up = [attack for attack, found in bound.items() if found is None]
    known = {attack: found for attack, found in bound.items() if found is not None}
    if gave_up or not known:
        return f"`{ROBUST}` gave up under {', '.join(gave_up) or 'everything'}."
    worst = max(known, key=lambda attack: known[attack].mean)
    above = [attack for attack, found in known.items() if found.mean > 3]
    says = "within 3 points for every one of them" if not above else f"above 3: {', '.join(above)}"
    return (
        f"`{ROBUST}`, chosen beforehand, loses most under `{worst}`: {_cell(known[worst])} points "
        f"({says}; {len(known)} attacks, without {' and '.join(REPORTED)})."
    )


def methods_table(results: Results) -> str:
    """Return the honest members' accuracy of each method, with the mean and a robust rule."""
    parts = [_cost(results)]
    for rule in ("mean", ROBUST):
        entries = tuple(f"{name}, {rule}" for name in METHODS)
        rows = [
            [
                "no attack" if attack == "none" else attack,
                *(
                    _cell(
                        over_seeds(
                            results, lambda s, a=attack, e=e: honest_accuracy(results, s, a, e)
                        )
                    )
                    for e in entries
                ),
            ]
            for attack in ("none", *shown_attacks(results, entries))
        ]
        parts.append(f"Aggregated by `{rule}`:\n\n{_table(['', *METHODS], rows)}")
    return "\n\n".join(parts)


TABLES = {
    "digits": ("Ways to aggregate, on digits", rules_table),
    "domains": ("Ways to aggregate, on five domains", rules_table),
    "methods": ("Personalised methods", methods_table),
}


def whole_seeds(results: Results) -> Results:
    """Return results without the seeds that have fewer runs than another: they are not done yet."""
    runs = {seed: sum(map(len, found.values())) for seed, found in results["seeds"].items()}
    whole = {seed: results["seeds"][seed] for seed in runs if runs[seed] == max(runs.values())}
    return {**results, "seeds": whole}


def tables(place: Path = PLACE) -> str:
    """Return all tables, from the files of results in a folder."""
    parts = []
    for name, (title, write) in TABLES.items():
        path = place / f"attacks-{name}.json"
        text = "Not run yet."
        if path.exists():
            text = write(whole_seeds(json.loads(path.read_text(encoding="utf-8"))))
        parts.append(f"## {title}\n\n{text}")
    return "\n\n".join(parts)


def page() -> str:
    """Return the page with its tables written anew."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{tables()}\n\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    write_atomically(PAGE, page().encode())
