"""One client: its card, and its samples with what it says of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from duotone.errors import DuotoneError
from duotone.explain.card_page import picture_uri
from duotone.explain.portrait import ClientCard, client_card_within
from duotone.explorer.asked_of import MOST_TILES, AskedClient, AskedGrid
from duotone.explorer.explored import Explored
from duotone.explorer.shown import shown_answers, shown_label, shown_samples

_LOOKED_AT = 600
_REFEREES = 12  # members whose mean stands in for a shared model that cannot answer


def client_portrait(explored: Explored, asked: AskedClient) -> dict[str, Any]:
    """Return the card of a client, with pictures of its most typical samples."""
    card: ClientCard = explored.once(
        ("portrait", asked.client), lambda: client_card_within(explored.thorough, asked.client)
    )
    pictures = [] if card.pictures is None else [picture_uri(image) for image in card.pictures]
    return {"card": card.as_json(), "pictures": pictures}


@dataclass(frozen=True, slots=True)
class _Judged:
    """A client's test samples with its answers and those of the reference."""

    own: Tensor
    reference: Tensor
    compared_with: str
    is_unlike: NDArray[np.bool_]
    is_wrong: NDArray[np.bool_]


def grid(explored: Explored, asked: AskedGrid) -> dict[str, Any]:
    """Return a page of a client's test samples."""
    data = explored.test_samples(asked.client)
    client = explored.thorough.client(asked.client)
    judged = explored.once(("judged", asked.client), lambda: _judged(explored, asked.client))
    every = np.arange(len(judged.own))
    chosen = {
        "all": every,
        "unlike": every[judged.is_unlike],
        "wrong": every[judged.is_wrong],
    }[asked.only]
    rows = chosen[asked.start : asked.start + MOST_TILES]
    said, other = (shown_answers(scores[rows], client) for scores in (judged.own, judged.reference))
    pictures = shown_samples(data.x[rows], data.info)
    return {
        "total": len(chosen),
        "counts": {
            "all": len(every),
            "unlike": int(judged.is_unlike.sum()),
            "wrong": int(judged.is_wrong.sum()),
        },
        "start": asked.start,
        "compared_with": judged.compared_with,
        "samples": [
            {
                "sample": int(row),
                "picture": picture,
                "label": shown_label(data.labels[row], client),
                "answer": mine["answer"],
                "reference": theirs["answer"],
                "is_unlike": bool(judged.is_unlike[row]),
                "is_wrong": bool(judged.is_wrong[row]),
            }
            for row, picture, mine, theirs in zip(rows, pictures, said, other, strict=True)
        ],
    }


def _judged(explored: Explored, name: str) -> _Judged:
    federation = explored.thorough
    client = federation.client(name)
    data = explored.test_samples(name).first(_LOOKED_AT)
    own = client.scores_from(data.x)
    try:
        reference, words = federation.shared_model.scores_from(data.x), "the shared model"
    except DuotoneError:  # the shared part alone answers nothing
        others = federation.others(client, _REFEREES)
        told = [other.scores_from(data.x) for other in others] or [own]
        if data.info.task == "classes":
            told = [scores.log_softmax(dim=1).exp() for scores in told]
        reference = sum(told[1:], told[0]) / len(told)
        reference = reference.clamp_min(1e-12).log() if data.info.task == "classes" else reference
        words = "the other members' mean"
    if data.info.task == "classes":
        mine, theirs = own.argmax(dim=1), reference.argmax(dim=1)
        unlike, wrong = mine != theirs, mine != data.labels
    else:  # a tenth of the spread of what is true counts as another answer
        close = 0.1 * data.labels.double().std()
        unlike = (own[:, 0] - reference[:, 0]).abs() > close
        wrong = (own[:, 0] - data.labels.double().view(len(own), -1)[:, 0]).abs() > close
    return _Judged(own, reference, words, unlike.numpy(), wrong.numpy())
