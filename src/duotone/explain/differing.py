"""Why do two clients differ on one sample? Exchange the layers in which they differ."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from duotone.data.dataset import Array
from duotone.explain.card import Control, Difference
from duotone.explain.layers import layer_shares, local_layers
from duotone.explain.witnesses import Federation
from duotone.measures.sheet import pixels
from duotone.measures.stylists import own_styles, put_on, restyles, taken_off
from duotone.runs.client import Client

_CONTROLS = 2  # of each relation


def difference(federation: Federation, client: Client, other: Client, x: Tensor) -> Difference:
    """Share the difference between two clients' answers out among their local layers.

    Args:
        federation: The run.
        client: Whose answer is explained.
        other: The client it is compared with.
        x: One sample, as a network sees it.
    """
    is_class = client.facts.info.task == "classes"
    mine, theirs = (c.scores_from(x)[0] for c in (client, other))
    here, there = int(mine.argmax()), int(theirs.argmax())
    if is_class and here == there:
        # They agree; what is shared out is then the rival class whose margin differs most.
        change = (theirs - theirs[here] - mine + mine[here]).abs()
        change[here] = -1
        there = int(change.argmax())
    names = client.class_names

    def worth(scores: Tensor) -> float:
        return float(scores[0, there] - scores[0, here]) if is_class else float(scores[0, 0])

    layers = layer_shares(client, x, [other.params], worth)
    apart = local_layers(client, [other.params])
    decided = int(theirs.argmax())
    likely = float(theirs.softmax(dim=0)[decided]) if is_class else float(theirs[0])
    drawn, said = _as_other(federation, client, other, x) if is_class else (None, None)
    return Difference(
        against=other.name,
        answer=names[decided] if names else f"{likely:.4g}",
        probability=likely,
        margin=f"score of {names[there]} less that of {names[here]}" if names else "the value",
        before=worth(mine[None]),
        after=worth(theirs[None]),
        layers=layers,
        only=next(iter(apart)) if len(apart) == 1 else None,
        flips=_nearest_flip(federation, client, x) if is_class else None,
        controls=_controls(federation, client, other, x) if is_class else (),
        picture=drawn,
        picture_answer=said,
    )


def _nearest_flip(federation: Federation, client: Client, x: Tensor) -> str | None:
    """Return the member nearest in how it answers that decides differently on a sample."""
    distances = federation.distances(client.name)
    mine = int(client.scores_from(x)[0].argmax())
    others = federation.others(client)
    others.sort(key=lambda other: distances.get(other.name, np.inf))
    for other in others:
        if int(other.scores_from(x)[0].argmax()) != mine:
            return other.name
    return None


def _controls(
    federation: Federation, client: Client, other: Client, x: Tensor
) -> tuple[Control, ...]:
    """Ask some more members about the same sample, of the client's group and of other groups."""
    mine = int(client.scores_from(x)[0].argmax())
    found: list[Control] = []
    for relation in ("same group", "other group"):
        wanted = [
            c
            for c in federation.others(client)
            if c.name != other.name
            and (c.facts.group == client.facts.group) == (relation == "same group")
        ]
        for control in wanted[:_CONTROLS]:
            said = int(control.scores_from(x)[0].argmax())
            found.append(Control(control.name, relation, client.class_names[said], said != mine))
    return tuple(found)


def _as_other(
    federation: Federation, client: Client, other: Client, x: Tensor
) -> tuple[Array | None, str | None]:
    """Return the sample as another client would have it, where the method can draw."""
    method = client.method
    own = federation.own_samples(other.name)
    if not client.facts.info.is_image or own is None or not restyles(method):
        return None, None
    # With the models as they are open: to make them again may take training.
    content = taken_off(method, client.model(), x, 0, client.name, redrawn=False)
    target = other.model()
    styles = own_styles(method, target, own.x)
    drawn = pixels(put_on(method, target, content, styles, 0, client.name, other.name))
    said = int(client.predict(drawn)[0])
    return drawn[0], client.class_names[said]
