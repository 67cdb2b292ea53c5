"""One sample: what this client says of it, what everybody says, and why."""

from __future__ import annotations

from typing import Any

import numpy as np

from duotone.errors import DuotoneError
from duotone.explain.card_page import heat_uri, picture_uri
from duotone.explain.layers import local_layers
from duotone.explain.policy import Governed, Policy, tried
from duotone.explain.prediction import explain_within
from duotone.explorer.asked_of import AskedCard, AskedPolicy, AskedSample
from duotone.explorer.explored import Explored
from duotone.explorer.shown import shown_answers, shown_features, shown_label, shown_samples

_MOST_ASKED = 120
_VISIBLE = 0.01  # of a probability, all pixels together


def sample(explored: Explored, asked: AskedSample) -> dict[str, Any]:
    """Return a sample, and what every client says of it."""
    client = explored.client(asked.client)
    x = explored.inputs(asked)
    strip = []
    for name in explored.names[:_MOST_ASKED]:
        other = explored.client(name)
        try:
            said = shown_answers(other.scores_from(x), other)[0]
        except DuotoneError as error:  # one client's model may be broken
            said = {"answer": None, "why": str(error)}
        strip.append({"client": name, "role": other.role, "group": other.facts.group, **said})
    label, count = None, None
    if asked.upload is None:
        rows = explored.test_rows(asked.owner)
        truth = explored.population().dataset.y[rows[asked.sample]]
        label, count = shown_label(truth, client), len(rows)
    return {
        "client": asked.client,
        "owner": asked.owner,
        "picture": shown_samples(x, client.facts.info)[0],
        "features": shown_features(x, client),
        "label": label,
        "samples": count,
        "here": shown_answers(client.scores_from(x), client)[0],
        "strip": strip,
    }


def why(explored: Explored, asked: AskedCard) -> dict[str, Any]:
    """Return the card of an answer, with its pictures."""
    federation = explored.explaining
    client = federation.client(asked.client)
    x = explored.inputs(asked)
    if asked.upload is not None or asked.owner != asked.client:
        given: Any = x.permute(0, 2, 3, 1).numpy() if client.facts.info.is_image else x.numpy()
        card = explain_within(federation, client, given, against=asked.against)
    else:
        card = explain_within(federation, client, sample=asked.sample, against=asked.against)
    pictures: dict[str, Any] = {}
    if card.picture is not None:
        for part, found in (("sample", card.sample_pixels), ("reading", card.reading_pixels)):
            # Each picture has a scale of its own, and would make much of next to nothing.
            if found is not None and np.abs(found.values).sum() >= _VISIBLE:
                pictures[part] = heat_uri(found)
        if card.support is not None:
            pictures["support"] = [picture_uri(image) for image in card.support.pictures]
        if card.difference is not None and card.difference.picture is not None:
            pictures["other"] = picture_uri(card.difference.picture)
    return {"card": card.as_json(), "pictures": pictures}


def policy(explored: Explored, asked: AskedPolicy) -> dict[str, Any]:
    """Return what becomes of an answer, and of accuracy, with local layers nearer to the mean."""
    federation = explored.thorough
    client = federation.client(asked.client)
    x = explored.inputs(asked)
    layers = local_layers(client, [other.params for other in federation.others(client)])
    rules = Policy(layers=dict.fromkeys(layers, asked.amount))
    before = shown_answers(client.scores_from(x), client)[0]
    if client.facts.info.task != "classes":
        return {"layers": list(layers), "before": before, "after": None, "effect": None}
    after = shown_answers(Governed(federation, client, rules).scores_from(x), client)[0]
    effect = explored.once(
        ("policy", asked.client, asked.amount),
        lambda: tried(federation, rules, [asked.client]).as_json()["groups"],
    )
    return {
        "layers": list(layers),
        "before": before,
        "after": after,
        "effect": effect[0] if effect else None,
    }
