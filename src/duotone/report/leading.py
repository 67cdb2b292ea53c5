"""Who leads a comparison, and who is level with the leader: the first lines of its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from duotone.measures.metrics import DIRECTIONS, value_text
from duotone.measures.panels import Tile
from duotone.measures.statistics import SeedClient, compare_pairs
from duotone.types import ROLES

_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Lead:
    """The best means of one role.

    Attributes:
        role: Whose scores they are, member or newcomer.
        word: Which end of the scale is the good one: highest or lowest.
        level: The entry with the best mean, and those that do not differ from it: to the printed
            digit or, over several seeds, by more than noise. Each with its mean as text.
        behind: The first one after them, if any.
    """

    role: str
    word: str
    level: tuple[tuple[str, str], ...]
    behind: tuple[str, str] | None

    @property
    def sentence(self) -> str:
        """The lead in words."""
        after = f", then {self.behind[0]} ({self.behind[1]})" if self.behind else ""
        named = [f"{name} ({value})" for name, value in self.level[:_MOST_NAMED]]
        more = len(self.level) - len(named)
        named += [f"{more} more"] if more else []
        if len(self.level) == 1:
            return f"For {self.role}s {self.level[0][0]} is {self.word} " + (
                f"({self.level[0][1]}){after}."
            )
        return f"For {self.role}s {', '.join(named[:-1])} and {named[-1]} are level{after}."

    @property
    def tile(self) -> Tile:
        """The lead as a number."""
        name, value = self.level[0]
        others = [other for other, _ in self.level[1:]]
        level = f"{len(others)} others" if len(others) > 1 else "".join(others)
        note = f"{name}, level with {level}" if level else name
        return Tile(f"{self.word} for {self.role}s", value, note)


def leads_of(results: Mapping[str, Any]) -> list[Lead]:
    """Return who leads for members and for newcomers, as far as there are scores.

    Nobody leads alone unless all others are behind: with several seeds, by a difference whose 95 %
    interval leaves out zero.

    Args:
        results: What :func:`duotone.runs.compare.compare_entries` says.
    """
    metric = str(results["headline"])
    found = [_lead(results["entries"], role, metric) for role in ROLES]
    return [lead for lead in found if lead is not None]


def headline(results: Mapping[str, Any], difference: str) -> str:
    """Say in a sentence or two who did best, and how much that is worth."""
    count = len(results["entries"])
    if difference:
        return f"{count} entries beside each other; they are not ranked, for {difference}."
    found = leads_of(results)
    if not found:
        return f"{count} entries beside each other."
    if min(len(entry["seeds"]) for entry in results["entries"]) < 2:
        worth = "One seed each, so another may rank them differently."
    elif any(len(lead.level) > 1 for lead in found):
        worth = "Level: over the seeds, no more than noise is between them."
    else:
        worth = "The sentences below say which differences are more than noise."
    return " ".join([*(lead.sentence for lead in found), worth])


def _lead(entries: Sequence[Mapping[str, Any]], role: str, metric: str) -> Lead | None:
    direction = DIRECTIONS[metric]
    name = f"{role}.{metric}"
    ranked = sorted(
        (entry for entry in entries if name in entry["scores"]),
        key=lambda entry: entry["scores"][name]["mean"],
        reverse=direction == "higher",
    )
    if not ranked:
        return None
    shown = [(str(e["name"]), value_text(e["scores"][name]["mean"], metric)) for e in ranked]
    first = _values(ranked[0], role, metric)

    def is_level(place: int) -> bool:
        if shown[place][1] == shown[0][1]:
            return True
        found = compare_pairs(first, _values(ranked[place], role, metric), direction)
        low, high = (found.difference.low, found.difference.high) if found else (None, None)
        return low is not None and high is not None and low <= 0 <= high

    places = [place for place in range(len(ranked)) if place == 0 or is_level(place)]
    behind = [place for place in range(len(ranked)) if place not in places]
    word = "highest" if direction == "higher" else "lowest"
    level = tuple(shown[place] for place in places)
    return Lead(role, word, level, shown[behind[0]] if behind else None)


def _values(entry: Mapping[str, Any], role: str, metric: str) -> dict[SeedClient, float]:
    """Return what each client of each seed reached."""
    return {
        (int(seed), client): value
        for seed, table in entry["values"].get(role, {}).items()
        for client, value in zip(table["clients"], table[metric], strict=True)
    }
