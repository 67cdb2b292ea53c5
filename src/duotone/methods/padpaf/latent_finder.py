"""Find the latents behind images: a small network that learns from what a generator draws.

Of a drawn picture the latent is known, so the way from features back to it can be learnt without a
single real image.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

_DRAWN, _STEPS, _BATCH, _WIDTH, _LR = 4000, 600, 128, 256, 2e-3
_AT_ONCE = 250


def found_latents(
    show: Callable[[int], tuple[Tensor, Tensor]], features: Tensor, generator: torch.Generator
) -> Tensor:
    """Return the latents that some features most likely come from.

    The mean of all latents that would do is shorter than any of them, and a generator draws
    something faint from it. So what is found is given the length of a latent that is drawn.

    Args:
        show: Draws as many pictures as it is asked for; returns their features, and the latents
            they were drawn from, which are standard normal.
        features: Of the images in question, ``(images, features)``.
        generator: Of every random draw.
    """
    parts = [show(_AT_ONCE) for _ in range(_DRAWN // _AT_ONCE)]
    seen, latents = (torch.cat(several) for several in zip(*parts, strict=True))
    mean, scale = seen.mean(dim=0), seen.std(dim=0).clamp(min=1e-6)
    network = _fitted((seen - mean) / scale, latents, generator)
    with torch.no_grad():
        # Features of real images can lie far from all that were drawn.
        found = network(((features - mean) / scale).clamp(-4, 4))
    return functional.normalize(found) * math.sqrt(latents.shape[1])


@torch.enable_grad()
def _fitted(inputs: Tensor, targets: Tensor, generator: torch.Generator) -> nn.Module:
    """Return a network that predicts targets from inputs, fitted by least squares."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(torch.randint(2**31, (), generator=generator)))
        network = nn.Sequential(
            nn.Linear(inputs.shape[1], _WIDTH),
            nn.ReLU(),
            nn.Linear(_WIDTH, _WIDTH),
            nn.ReLU(),
            nn.Linear(_WIDTH, targets.shape[1]),
        ).to(inputs.device)
    optimizer = torch.optim.Adam(network.parameters(), _LR)
    for step in range(_STEPS):
        optimizer.param_groups[0]["lr"] = _LR * (1 - step / _STEPS)
        rows = torch.randint(len(inputs), (_BATCH,), generator=generator).to(inputs.device)
        loss = functional.mse_loss(network(inputs[rows]), targets[rows])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return network.eval()
