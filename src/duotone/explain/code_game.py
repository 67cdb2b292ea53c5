"""What the shared code and the dimensions of the local code add to an answer."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from duotone.explain.card import CodeShares
from duotone.explain.shapley import faithfulness, shapley
from duotone.explain.witnesses import Federation
from duotone.federation.backends.serial import one_thread
from duotone.federation.protocols import ExchangesCodes
from duotone.measures.asked import as_answers
from duotone.measures.decomposition import FloatArray
from duotone.networks.reading import in_batches
from duotone.runs.client import Client
from duotone.types import ClientData

_CODES = 24  # samples whose codes take the place of those of the explained one
_MOST = 7  # local players beside the shared code


def code_shares(
    federation: Federation, client: Client, x: Tensor, output: int, own: ClientData | None
) -> CodeShares | None:
    """Share an answer out among the shared code and the local dimensions or concepts.

    A coalition keeps its players' part of the code; the rest is taken from samples of the
    federation, all encoded by this client's model. ``None`` where the method has no local code that
    could be exchanged, or samples are not at hand.

    Args:
        federation: The run.
        client: Whose answer it is.
        x: The sample, as a network sees it.
        output: The output that is explained.
        own: The client's own training samples.
    """
    method = client.method
    if own is None or not isinstance(method, ExchangesCodes):
        return None
    every = federation.background
    rows = np.linspace(0, len(every) - 1, min(_CODES, len(every))).round().astype(int)
    others = every[torch.from_numpy(rows)]
    code, theirs = (client.encode_from(samples).local for samples in (x, others))
    if not code.shape[1]:
        return None
    network = client.model()

    def worth(samples: Tensor, local: Tensor) -> FloatArray:
        together = torch.cat([samples.flatten(1), local.flatten(1)], dim=1)
        width = samples[0].numel()

        def answer(part: Tensor) -> Tensor:
            inputs = part[:, :width].reshape(-1, *samples.shape[1:]).to(method.device)
            return method.predict_with(network, inputs, part[:, width:].to(method.device))

        with torch.inference_mode(), one_thread():
            scores = in_batches(answer, together)
        found: FloatArray = as_answers(scores, client.facts.info)[:, output]
        return found

    groups = np.array_split(np.arange(code.shape[1]), min(_MOST, code.shape[1]))
    values = np.empty(1 << (len(groups) + 1))
    for place in range(len(values)):
        samples = x.expand(len(others), *x.shape[1:]) if place & 1 else others
        local = theirs.clone()
        for player, dimensions in enumerate(groups, start=1):
            if place >> player & 1:
                local[:, dimensions] = code[:, dimensions]
        values[place] = worth(samples, local).mean()
    same = client.encode_from(own.x[:_CODES]).local
    mine = worth(x.expand(len(same), *x.shape[1:]), same)
    found = shapley(values)
    return CodeShares(
        names=("shared code", *(_name(dimensions) for dimensions in groups)),
        values=tuple(float(value) for value in found),
        total=float(values[-1] - values[0]),
        faithfulness=faithfulness(values, found),
        exchanged=float(values[-1] - values[1]),
        placebo=float(values[-1] - mine.mean()),
    )


def _name(dimensions: np.ndarray[tuple[int], np.dtype[np.int64]]) -> str:
    first, last = int(dimensions[0]), int(dimensions[-1])
    return f"local {first}" if first == last else f"local {first} … {last}"
