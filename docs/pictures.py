"""Draw for every method what is shared and what is local: ``python docs/pictures.py``.

Nothing is drawn by hand. Each method builds its network and trains one round at three small
clients; a block is a layer, and its ink says where the code keeps it. The pictures are written to
``docs/images/methods``; a test draws them anew and compares.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from pathlib import Path

import duotone

PLACE = Path(__file__).parent / "images" / "methods"
SHARED, LOCAL, TEXT, QUIET, RULE = "#00798a", "#c2570c", "#22282d", "#5b656d", "#c3cbd0"
ROW, BLOCK, WIDTH = 24, 19, 720
COLUMN, OWN = 150, 62


@dataclass(frozen=True)
class Inks:
    """What one round of a method showed.

    Attributes:
        layers: The network's layers, from the input up.
        shared: Layers with a tensor that leaves the client.
        local: Layers with a tensor that never does.
        own: Layers of a second model that a client keeps for itself.
        copies: How many shared models the server has.
        sent: What else leaves a client.
    """

    layers: tuple[str, ...]
    shared: frozenset[str]
    local: frozenset[str]
    own: frozenset[str]
    copies: int
    sent: tuple[str, ...]


def _tops(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.split(".")[0] for name in names)


def inks_of(name: str) -> Inks:
    """Train one round of a method and see where its tensors are."""
    dataset = duotone.load_dataset("mini-digits")
    few = {"clients": 4, "newcomers": 1, "max_train": 24, "max_test": 5}
    partition = duotone.build_partition(dataset, "iid", few, seed=0)
    population = duotone.Population(dataset, partition)
    kind = duotone.METHODS.load(name)
    method = kind(kind.Config(), network=duotone.MODELS.load("thesis-cnn-bn"))
    states = duotone.MemoryStates()
    (result,) = duotone.federate(method, population, rounds=1, sampled=3, seed=0, states=states)
    shared, local = method.split(method.build(result.info.data))
    kept = states.get(partition.members[0])
    extra = () if kept is None else tuple(kept.extra)
    server, info = result.server, result.info
    forms = dict(method.extra_form(server, info))
    if isinstance(method, duotone.Collects):
        forms |= method.collected_form(server, info)
    layers = dict.fromkeys(each.split(".")[0] for each in (*shared, *local))
    order = [layer for layer, _ in method.build(info.data).named_children() if layer in layers]
    return Inks(
        (*order, *(layer for layer in layers if layer not in order)),
        _tops(shared),
        _tops(local),
        _tops(each.removeprefix("own/") for each in extra if each.startswith("own/")),
        int(getattr(method.config, "groups", 1)),
        tuple(forms),
    )


def _box(x: float, y: float, width: float, ink: str, label: str = "") -> str:
    text = f'<text x="{x + width / 2}" y="{y + 14}" class="in">{escape(label)}</text>'
    block = (
        f'<rect x="{x}" y="{y}" width="{width}" height="{BLOCK}" rx="3" fill="{ink}" class="box"/>'
    )
    return block + (text if label else "")


def _block(x: float, y: float, layer: str, inks: Inks) -> str:
    """Draw a layer as a client has it: in one ink, or half in each."""
    if layer in inks.shared and layer in inks.local:
        halves = _box(x, y, COLUMN / 2, SHARED) + _box(x + COLUMN / 2, y, COLUMN / 2, LOCAL)
        return halves + f'<text x="{x + COLUMN / 2}" y="{y + 14}" class="in">{escape(layer)}</text>'
    return _box(x, y, COLUMN, SHARED if layer in inks.shared else LOCAL, layer)


def drawing(name: str, inks: Inks) -> str:
    """Return the picture: two clients, the server between them, the output on top."""
    rows = list(reversed(inks.layers))
    top = 52
    left, middle, right = 96, (WIDTH - COLUMN) / 2, WIDTH - 96 - COLUMN
    parts = [
        f'<text x="{x + COLUMN / 2}" y="34" class="head">{label}</text>'
        for x, label in ((left, "client A"), (middle, "server"), (right, "client B"))
    ]
    for number, layer in enumerate(rows):
        y = top + number * ROW
        if layer in inks.shared:
            line = y + BLOCK / 2
            for start, end in ((left + COLUMN, middle), (middle + COLUMN, right)):
                parts.append(f'<path d="M{start + 5} {line}H{end - 5}" class="link"/>')
            for copy in reversed(range(min(inks.copies, 4))):
                place = middle + 5 * copy
                parts.append(_box(place, y, COLUMN - 15 * (inks.copies > 1), SHARED, layer))
        for x, outside in ((left, left - OWN - 8), (right, right + COLUMN + 8)):
            parts.append(_block(x, y, layer, inks))
            if layer in inks.own:
                parts.append(_box(outside, y, OWN, LOCAL, "own"))
    bottom = top + len(rows) * ROW
    if not inks.shared:
        note = f'<text x="{WIDTH / 2}" y="{top + 14}" class="quiet">nothing</text>'
        parts.append(note)
    legend = f"{name}: blue-green leaves the client and is averaged, vermilion never leaves it"
    parts.append(f'<text x="{WIDTH / 2}" y="{bottom + 24}" class="quiet">{legend}</text>')
    height = bottom + 36
    if inks.sent:
        sent = f"also sent: {', '.join(inks.sent)}"
        parts.append(f'<text x="{WIDTH / 2}" y="{bottom + 44}" class="quiet">{sent}</text>')
        height += 20
    style = (
        "text{font:13px system-ui,sans-serif;text-anchor:middle}"
        f".in{{fill:#fff;font-size:12px}}.head{{fill:{TEXT};font-weight:600}}"
        f".box{{stroke:#fff}}.quiet{{fill:{QUIET};font-size:12px}}.link{{stroke:{RULE};stroke-width:2}}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}"><style>{style}</style>'
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>' + "\n".join(parts) + "</svg>\n"
    )


def main(place: Path = PLACE) -> None:
    """Draw all methods."""
    place.mkdir(parents=True, exist_ok=True)
    for name in duotone.METHODS:
        (place / f"{name}.svg").write_text(drawing(name, inks_of(name)), encoding="utf-8")


if __name__ == "__main__":
    main()
