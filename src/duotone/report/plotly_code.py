"""Plotly's JavaScript with the kinds of figures that a page has, and no other.

The file that comes with Plotly draws some fifty kinds, maps of the world and 3-d among them, and
has 4.8 MB. It is a bundle in which every module is a function of its own, called where it is
needed, and in which one list names the kinds. With a shorter list most modules are called by
nobody; they are left out, as in the bundles that Plotly's own build makes of a shorter list. Where
the file does not look like that, or is of a version that nobody looked at, all of it is taken: the
page is larger then, and the same.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from plotly.offline import get_plotlyjs, get_plotlyjs_version

LOOKED_AT = frozenset({"4.1.1"})
"""Versions of the library whose shorter form was looked at in a browser."""
CORE = frozenset({"scatter"})
"""Kinds that are in the library without being on its list."""

_LAZY = re.compile(r"[ ,]([\w$]+)=\(\w+(?:,\w+)+\)=>\(\)=>")
_CALL = re.compile(r"(?<![\w$.])([\w$]+)\(\)")
_KIND = re.compile(r'moduleType:"trace",name:"(\w+)"')
_LIST = re.compile(r"\.register\(\[([\w$(),]+)\]\)")


def plotly_code(kinds: frozenset[str]) -> str:
    """Return JavaScript that defines ``Plotly`` and draws traces of some kinds."""
    bundle = get_plotlyjs()
    return trimmed(bundle, kinds) if get_plotlyjs_version() in LOOKED_AT else bundle


def trimmed(bundle: str, kinds: Collection[str]) -> str:
    """Return a bundle without the modules that some kinds of traces do not need.

    Args:
        bundle: The JavaScript of the whole library.
        kinds: The kinds that are to be drawn, as a trace's ``type`` says them.

    Returns:
        The smaller bundle; the bundle itself if its form is another, or a kind is not on its list.
    """
    heads, lazy = _heads(bundle)
    close = bundle.rfind(f"return {heads[-1][1]}()") if heads else -1
    if close < 0:
        return bundle
    starts = [head.start() for head in heads]
    units = [bundle[a:b] for a, b in zip(starts, [*starts[1:], close], strict=True)]
    owner = _owners(heads, units, lazy)
    entry = units[-1]
    found = _LIST.search(entry)
    if found is None:
        return bundle
    registered = found[1].split(",")
    named = {_kind(call.removesuffix("()"), units, owner): call for call in registered}
    wanted = set(kinds) - CORE
    if not wanted <= named.keys():
        return bundle
    shorter = ",".join(named[kind] for kind in sorted(wanted))
    entry = entry.replace(found[0], f".register([{shorter}])")
    del owner[heads[-1][1]]
    kept = _called(bundle[: starts[0]] + entry, units, owner)
    inner = [unit for place, unit in enumerate(units[:-1]) if place in kept]
    return "".join([bundle[: starts[0]], *inner, entry, bundle[close:]])


def _heads(bundle: str) -> tuple[list[re.Match[str]], list[str]]:
    """Return where modules begin, and what the functions are called that wrap them."""
    lazy = _LAZY.findall(bundle[:20_000])
    if not lazy:
        return [], []
    wraps = "|".join(map(re.escape, lazy))
    return list(re.finditer(rf"(?<=[;}}])var ([\w$]+)=(?:{wraps})\(", bundle)), lazy


def _owners(heads: list[re.Match[str]], units: list[str], lazy: list[str]) -> dict[str, int]:
    """Return the unit in which each module lies; several lie in one where no line parts them."""
    inner = re.compile(rf"[ ,]([\w$]+)=(?:{'|'.join(map(re.escape, lazy))})\(")
    owner = {name: place for place, unit in enumerate(units) for name in inner.findall(unit)}
    return owner | {head[1]: place for place, head in enumerate(heads)}


def _called(text: str, units: list[str], owner: dict[str, int]) -> set[int]:
    """Return all units that a text calls, and those that they call, and so on."""
    found: set[int] = set()
    texts = [text]
    while texts:
        calls = {owner[name] for name in _CALL.findall(texts.pop()) if name in owner}
        texts += [units[place] for place in calls - found]
        found |= calls
    return found


def _kind(name: str, units: list[str], owner: dict[str, int]) -> str:
    """Return which kind of trace a module on the list draws; empty if that cannot be read."""
    seen: set[str] = set()
    while name in owner and name not in seen:
        seen.add(name)
        unit = units[owner[name]]
        if kind := _KIND.search(unit):
            return kind[1]
        passed = re.search(r"\.exports=([\w$]+)\(\)\}\);$", unit)
        name = passed[1] if passed else ""
    return ""
