"""Pooled results as plain tables: the same for Markdown and for the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duotone.measures.metrics import number_text
from duotone.measures.panels import NOTHING, PlainTable
from duotone.runs.published import share_text
from duotone.types import ROLES
from duotone.words import RULES

_SHOWN = {"accuracy": ("accuracy", "auc", "f1"), "mse": ("mse", "mae", "r2")}
_CALLED = {"auc": "AUC", "f1": "F1", "mse": "MSE", "mae": "MAE", "r2": "R²"}


def choice_text(values: Mapping[str, Any]) -> str:
    """Return searched values in a word: ``lr=0.1,momentum=0.9``."""
    return ",".join(f"{key}={value}" for key, value in values.items())


def score_table(results: Mapping[str, Any], *, brief: bool = False) -> PlainTable:
    """Return one row per entry: members, newcomers, and what newcomers were given.

    Args:
        results: Pooled results.
        brief: Show the headline metric alone.
    """
    metric = str(results["headline"])
    shown = (metric,) if brief else _SHOWN[metric]
    columns = [(role, name) for role in ROLES for name in shown]
    searched = any(entry.get("chosen") for entry in results["entries"])
    shares = any(entry.get("published_share") is not None for entry in results["entries"])
    rows: list[tuple[str, ...]] = []
    for entry in results["entries"]:
        scores = entry["scores"]
        given = RULES[entry["newcomer_rule"]] if f"newcomer.{metric}" in scores else NOTHING
        rows.append(
            (
                str(entry["name"]),
                *([choice_text(entry["chosen"] or {}) or NOTHING] if searched else []),
                ", ".join(map(str, entry["seeds"])) or NOTHING,
                *([_share(entry.get("published_share"))] if shares else []),
                *(
                    _cell(scores.get(f"{role}.{name}"), name, name == metric)
                    for role, name in columns
                ),
                given,
            )
        )
    unit = " %" if metric == "accuracy" else ""
    return PlainTable(
        "Scores",
        (
            "entry",
            *(["chosen"] if searched else []),
            "seeds",
            *([">published training"] if shares else []),
            *(f">{role}s {_CALLED.get(name, name)}{unit}" for role, name in columns),
            "newcomers give",
        ),
        tuple(rows),
        "Mean over seeds of the mean over clients, at the last round; ± half the 95 % confidence "
        "interval over seeds; in brackets the standard deviation over clients."
        + _shortened(results.get("settings", {})),
    )


def _share(share: float | None) -> str:
    return NOTHING if share is None else share_text(share)


def _shortened(settings: Mapping[str, Any]) -> str:
    """Say that all runs of a study are shorter than its file says."""
    scale = float(settings.get("scale", 1))
    return f" Shortened: every run made {share_text(scale)} of its rounds." if scale < 1 else ""


def _cell(score: Mapping[str, Any] | None, metric: str, with_interval: bool) -> str:
    if score is None:
        return NOTHING
    text = number_text(score["mean"], metric)
    if with_interval and score["low"] is not None:
        text += f" ± {number_text((score['high'] - score['low']) / 2, metric)}"
    return f"{text} ({number_text(score['std'], metric)})" if score["clients"] > 1 else text


def comparison_table(results: Mapping[str, Any], *, brief: bool = False) -> PlainTable:
    """Return each entry against the reference, with the verdict.

    Args:
        results: Pooled results.
        brief: Leave out effect, shares and number of pairs.
    """
    metric = str(results["headline"])
    rows: list[tuple[str, ...]] = []
    for found in results["comparisons"]:
        difference = found["difference"]
        ends = [difference["low"], difference["high"]]
        rows.append(
            (
                found["entry"],
                f"{found['role']}s",
                number_text(difference["mean"], metric, sign="+"),
                NOTHING
                if ends[0] is None
                else " to ".join(number_text(end, metric) for end in ends),
                NOTHING if found["corrected_p"] is None else f"{found['corrected_p']:.2g}",
                *([] if brief else _effect_cells(found)),
                found["verdict"],
            )
        )
    ranks = "; ".join(
        f"{role}s "
        + " · ".join(f"{name} {rank:.2f}" for name, rank in sorted(found.items(), key=_second))
        for role in ROLES
        if (found := results["mean_ranks"].get(f"{role}.{metric}"))
    )
    return PlainTable(
        f"Against {results['reference']}",
        (
            "entry",
            "clients",
            f">difference ({'points' if metric == 'accuracy' else metric})",
            ">95 % interval",
            ">p (Holm)",
            *([] if brief else [">effect", ">won / tied", ">pairs"]),
            "verdict",
        ),
        tuple(rows),
        "A seed is one observation: interval and p are over seeds."
        + ("" if brief else " Effect (rank-biserial, 1 = always better) and shares are over pairs")
        + ("" if brief else " of (seed, client); they describe and test nothing.")
        + " Better or worse is said only of comparisons that were declared before the runs, if p, "
        "corrected for all of them, is below 0.05."
        + smallest_text(results)
        + (f" Mean rank, 1 is best: {ranks}." if ranks else ""),
    )


def smallest_text(results: Mapping[str, Any]) -> str:
    """Say which differences of accuracy could be shown at all; nothing for one seed."""
    seeds = min((found["difference"]["n"] for found in results["comparisons"]), default=1)
    if seeds < 2 or results["headline"] != "accuracy":
        return ""
    declared = sum(map(len, results.get("primary", {}).values()))
    return " " + smallest_sentence(seeds, declared)


def smallest_sentence(seeds: int, declared: int) -> str:
    """Say which difference some seeds could show, in points.

    >>> smallest_sentence(3, 1)
    'With 3 seeds the smallest difference that can be shown is 1.2, 2.5 or 5.0 points if seeds \
stray by 0.5, 1 or 2 points.'
    """
    from duotone.measures.statistics import smallest_shown

    sizes = [smallest_shown(seeds, deviation, declared) for deviation in (0.5, 1.0, 2.0)]
    told = "{:.1f}, {:.1f} or {:.1f}".format(*sizes)
    return (
        f"With {seeds} seeds the smallest difference that can be shown is {told} points if seeds "
        "stray by 0.5, 1 or 2 points."
    )


def _effect_cells(found: Mapping[str, Any]) -> list[str]:
    shares = f"{found['won'] * 100:.0f} % / {found['tied'] * 100:.0f} %"
    return [f"{found['effect']:+.2f}", shares, str(found["pairs"])]


def _second(item: tuple[str, float]) -> float:
    return item[1]


def curve_points(scores: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the scores of the newcomer curve by point: 5, 20, all, unlabelled."""
    names = {own["variant"]: name for name, own in scores.items() if own.get("measure") == "curve"}
    order = sorted(names, key=lambda p: (not p.isdigit(), int(p) if p.isdigit() else 0, p))
    return {point: names[point] for point in order}


def curve_table(results: Mapping[str, Any]) -> PlainTable | None:
    """Return how newcomers fare by what they are given; ``None`` if that was not measured."""
    metric = str(results["headline"])
    points = curve_points(
        {n: s for entry in results["entries"] for n, s in entry["scores"].items()}
    )
    if not points:
        return None
    rows = tuple(
        (
            str(entry["name"]),
            *(_cell(entry["scores"].get(name), metric, True) for name in points.values()),
        )
        for entry in results["entries"]
    )
    unit = " %" if metric == "accuracy" else ""
    return PlainTable(
        f"Newcomers {metric}{unit} by the samples they are given",
        ("entry", *(f">{point}" for point in points)),
        rows,
        "Labelled samples per newcomer; unlabelled: all inputs, no label.",
    )


def search_table(results: Mapping[str, Any]) -> PlainTable | None:
    """Return what the search tried for each entry; ``None`` without a search."""
    metric = str(results["headline"])
    rows = tuple(
        (
            str(entry["name"]),
            choice_text(tried["values"]),
            NOTHING if tried["score"] is None else number_text(tried["score"], metric),
            "chosen" if tried["chosen"] else str(tried["error"] or ""),
        )
        for entry in results["entries"]
        for tried in entry.get("search", [])
    )
    if not rows:
        return None
    unit = " %" if metric == "accuracy" else ""
    return PlainTable(
        "Search",
        ("entry", "values", f">members validation {metric}{unit}", ""),
        rows,
        _search_rule(results),
    )


def _search_rule(results: Mapping[str, Any]) -> str:
    seeds = results.get("search_seeds")
    if seeds is None:  # studies of earlier versions
        return (
            f"Every combination is tried with seed {results['seeds'][0]}; the best on validation "
            "samples at the last round is chosen. Test samples have no part in it."
        )
    named = f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
    return (
        f"Every combination is tried with {named}. An entry keeps the values that it has without a "
        "search unless others are better with every seed, on validation samples at the last round. "
        "Test samples have no part in it."
    )


def settings_tables(results: Mapping[str, Any]) -> list[PlainTable]:
    """Return the settings that differ between entries, and those that all have."""
    entries = results["entries"]
    differ = PlainTable(
        "Settings that differ",
        ("entry", "settings"),
        tuple(
            (
                str(entry["name"]),
                ", ".join(f"{name} = {value}" for name, value in entry["settings"].items()),
            )
            for entry in entries
            if entry["settings"]
        ),
    )
    same = PlainTable(
        "Settings of all entries",
        ("setting", "value"),
        tuple((name, str(value)) for name, value in results["settings"].items()),
    )
    return [found for found in (differ, same) if found.rows]


def result_tables(results: Mapping[str, Any], *, brief: bool = False) -> list[PlainTable]:
    """Return all tables that the results have something for.

    Args:
        results: Pooled results, or those of a study.
        brief: Leave out columns, so that the tables fit a terminal.
    """
    if results["headline"] is None:
        return []
    found: list[PlainTable | None] = [score_table(results, brief=brief)]
    if results["comparisons"]:
        found.append(comparison_table(results, brief=brief))
    found += [curve_table(results), search_table(results)]
    return [item for item in found if item is not None]
