"""One sample, two clients, two answers, and why: the case that shows what is personal.

Of all samples that every member was asked about, the one is taken on which its owner and another
member differ most. Both answers are taken apart, see :mod:`duotone.measures.decomposition`.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from duotone.measures.decomposition import FloatArray, decomposed
from duotone.measures.panels import Picture

_PARTS = ("mean", "sample", "habit", "reading")
_INKS = {"mean": "#8a949b", "sample": "#00798a", "habit": "#e0a477", "reading": "#c2570c"}
_TEXT, _QUIET, _RULE = "#22282d", "#5b656d", "#c3cbd0"
_LEFT, _ZERO, _SCALE, _LINE, _WIDTH = 170, 350, 170, 21, 620


def find_case(
    answers: FloatArray, clients: Sequence[str], owners: Sequence[str], labels: Sequence[int]
) -> dict[str, Any] | None:
    """Return the sample on which its owner and another client differ most.

    ``None`` if everybody always decides alike.

    Args:
        answers: Probabilities, ``(clients, samples, classes)``.
        clients: Who answered.
        owners: Whose each sample is.
        labels: Their true classes.
    """
    decisions = answers.argmax(axis=2)
    best, found = 0.0, None
    for place, owner in enumerate(owners):
        if owner not in clients:
            continue
        own = clients.index(owner)
        mine = decisions[own, place]
        for other in range(len(clients)):
            theirs = decisions[other, place]
            if theirs == mine:
                continue
            here, there = answers[own, place], answers[other, place]
            apart = float(here[mine] - there[mine] + there[theirs] - here[theirs])
            if apart > best:
                best, found = apart, (place, own, other)
    if found is None:
        return None
    place, own, other = found
    named = int(decisions[own, place])
    return {
        "sample": place,
        "class": named,
        "label": int(labels[place]),
        "clients": [
            {
                "client": clients[each],
                "says": int(decisions[each, place]),
                "probability": round(float(answers[each, place].max()), 4),
                "parts": _parts(answers, each, place, named),
            }
            for each in (own, other)
        ],
    }


def _parts(answers: FloatArray, client: int, place: int, named: int) -> dict[str, float]:
    usual = answers.mean(axis=1)
    at = slice(place, place + 1)
    found = decomposed(answers[client, at], answers[:, at], usual[client], usual)
    parts = {
        "mean": found.mean[named],
        "sample": found.sample[0, named],
        "habit": found.habit[named],
        "reading": found.reading[0, named],
    }
    return {name: round(float(value), 4) for name, value in parts.items()}


def case_picture(
    case: Mapping[str, Any], names: Mapping[int, str], sample: str | None = None
) -> Picture:
    """Return the case as a picture for a report.

    Args:
        case: What :func:`find_case` found.
        names: What classes are called.
        sample: The sample itself, as an address that holds it; tables have none.
    """
    drawn = base64.b64encode(case_svg(case, names, sample).encode()).decode()
    first, second = (
        f"client {each['client']} says {names[each['says']]}" for each in case["clients"]
    )
    return Picture(
        f"One sample: {first}, {second}",
        (("", f"data:image/svg+xml;base64,{drawn}"),),
        f"Why the probability of {names[case['class']]} differs: what anybody would say of this "
        "sample, what this client says of anything (habit), and what it alone sees in this sample "
        "(reading). The bars add up to the answer.",
        "It is the sample on which two members differ most, not a typical one. Only the true label "
        "says who is right.",
    )


def case_svg(case: Mapping[str, Any], names: Mapping[int, str], sample: str | None) -> str:
    """Draw the sample, both answers and what they are made of."""
    first = case["clients"][0]["client"]
    truth, named = names[case["label"]], names[case["class"]]
    pieces = [
        _words(0, 172, f"a test sample of client {first}", "quiet"),
        _words(0, 190, f"true class: {truth}", "quiet"),
    ]
    if sample is not None:
        image = f'width="150" height="150" style="image-rendering:pixelated" href="{sample}"'
        pieces.append(f'<image x="0" y="4" {image}/>')
    y = 16
    for each in case["clients"]:
        said = f"client {each['client']} says {names[each['says']]}"
        pieces.append(_words(_LEFT, y, f"{said} ({each['probability']:.2f})", "head"))
        total = sum(each["parts"].values())
        pieces.append(_words(_ZERO + _SCALE + 12, y, f"{named}: {total:.2f}", "quiet"))
        pieces += _bars(each, y + 8)
        y += 4 * _LINE + 44
    height = y - 8
    style = (
        f"text{{font:13px system-ui,sans-serif;fill:{_TEXT}}}"
        ".head{font-weight:600;font-size:15px}"
        f".quiet{{fill:{_QUIET};font-size:12px}}.axis{{stroke:{_RULE}}}"
    )
    size = f'width="{_WIDTH}" height="{height}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-12 -6 {_WIDTH} {height}" {size}>'
        f'<style>{style}</style><rect x="-12" y="-6" {size} fill="#fff"/>'
        f"{''.join(pieces)}</svg>\n"
    )


def _bars(each: Mapping[str, Any], y: float) -> list[str]:
    """Draw the parts of one client's answer, each bar from where the one above ended."""
    words = {
        "mean": "anybody, of any sample",
        "sample": "+ anybody, of this sample",
        "habit": f"+ habit of client {each['client']}",
        "reading": f"+ reading of client {each['client']}",
    }
    pieces = [f'<path d="M{_ZERO} {y}V{y + 4 * _LINE}" class="axis"/>']
    total = 0.0
    for number, part in enumerate(_PARTS):
        value = float(each["parts"][part])
        start, end = sorted((total, total + value))
        total += value
        line = y + number * _LINE
        size = f'width="{max(1.0, (end - start) * _SCALE):.1f}" height="{_LINE - 7}"'
        place = f'x="{_ZERO + start * _SCALE:.1f}" y="{line + 3:.1f}"'
        pieces.append(_words(_LEFT, line + 14, words[part]))
        pieces.append(f'<rect {place} {size} fill="{_INKS[part]}"/>')
        pieces.append(_words(_ZERO + _SCALE + 12, line + 14, f"{value:+.2f}"))
    return pieces


def _words(x: float, y: float, text: str, kind: str = "") -> str:
    return f'<text x="{x}" y="{y}" class="{kind}">{escape(text)}</text>'
