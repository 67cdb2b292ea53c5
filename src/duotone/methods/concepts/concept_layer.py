"""Concepts: places in a space of features, and how samples are spread over them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

FLOOR = 1e-4
"""The least weight of a concept: one that has none could never get any back."""
_STEPS = 100
_STILL = 1e-5


def responsibilities(
    places: Tensor, centres: Tensor, sharpness: Tensor | float, weights: Tensor
) -> Tensor:
    """Return how much of each sample belongs to each concept: Eq. (6.1) of FedVC.

    This is a mixture of Gaussians around the centres, of variance 1 / (2 ``sharpness``). Concepts
    of weight zero are not there.

    Args:
        places: ẑ, ``(samples, dimensions)``.
        centres: ``(concepts, dimensions)``.
        sharpness: ι.
        weights: v, the concepts' weights before a sample is seen.
    """
    return (weights.log() + nearness(places, centres, sharpness)).softmax(dim=1)


def nearness(places: Tensor, centres: Tensor, sharpness: Tensor | float) -> Tensor:
    """Return −ι‖ẑ − c‖² of each sample and concept: logarithms of densities, but a constant."""
    # Not by torch.cdist: its gradient is not finite where a sample lies on a centre.
    return -sharpness * (places.unsqueeze(1) - centres).square().sum(dim=2)


def floored(weights: Tensor) -> Tensor:
    """Return weights that sum to one, none of a concept that is there below the floor."""
    raised = torch.where(weights > 0, weights.clamp_min(FLOOR), 0.0)
    return raised / raised.sum()


def fitted_weights(
    places: Tensor, centres: Tensor, sharpness: Tensor | float, start: Tensor
) -> Tensor:
    """Return the weights under which some samples are likeliest, by EM with fixed concepts.

    Args:
        places: ẑ, ``(samples, dimensions)``.
        centres: ``(concepts, dimensions)``.
        sharpness: ι.
        start: Weights to start from; concepts of weight zero stay out.
    """
    weights = floored(start)
    for _ in range(_STEPS):
        new = floored(responsibilities(places, centres, sharpness, weights).mean(dim=0))
        if (new - weights).abs().max() < _STILL:
            return new
        weights = new
    return weights


class ConceptHeads(nn.Module):
    """What each concept adds to a classifier's last layer.

    Args:
        layer: The last layer.
        concepts: How many there can be.
    """

    def __init__(self, layer: nn.Linear, concepts: int) -> None:
        super().__init__()
        given = layer.weight
        self.weight = nn.Parameter(given.new_zeros(concepts, *given.shape))
        self.bias = nn.Parameter(given.new_zeros(concepts, len(given)))
        self.register_buffer("on", given.new_zeros(()))
        self.on: Tensor
        """1 where the heads are used, 0 where they are not."""

    def forward(self, z: Tensor, shares: Tensor) -> Tensor:
        """Return Σ s (A z + a): what to add to the scores of inputs.

        Args:
            z: What the last layer is given, ``(samples, width)``.
            shares: How much of each sample belongs to each concept.
        """
        per_concept = torch.einsum("mcw,nw->nmc", self.weight, z) + self.bias
        return torch.einsum("nm,nmc->nc", shares, per_concept)


class ConceptLinear(nn.Linear):
    """A linear layer whose inputs are also placed among concepts.

    Args:
        layer: The layer it takes the place of; it computes the same.
        dimensions: Of the space that concepts lie in.
        concepts: How many there can be.
        learns_projection: Whether the way into that space is a parameter or set from outside.
        learns_centres: The same of the concepts.
        feeds: Whether the layer is also given the concepts a sample belongs to, p̂ = Σ s c.
    """

    def __init__(
        self,
        layer: nn.Linear,
        dimensions: int,
        concepts: int,
        *,
        learns_projection: bool = False,
        learns_centres: bool = False,
        feeds: bool = False,
    ) -> None:
        width, height, given = layer.in_features, layer.out_features, layer.weight
        wide = width + dimensions if feeds else width
        super().__init__(wide, height, layer.bias is not None, given.device, given.dtype)
        with torch.no_grad():
            self.weight[:, :width] = given
            if layer.bias is not None:
                self.bias.copy_(layer.bias)
        self.feeds = feeds
        self._given: Tensor | None = None
        self.heads: ConceptHeads | None = None
        """What concepts add to the network's last layer, if that is learnt."""
        start = nn.Linear(width, dimensions).to(given)  # PyTorch's usual initial scale
        centres = torch.randn(concepts, dimensions).to(given)
        self._own("projection", start.weight, learns=learns_projection)
        self._own("projection_bias", start.bias, learns=learns_projection)
        self._own("centres", centres, learns=learns_centres)
        uniform = torch.full((concepts,), 1 / concepts).to(given)
        self.register_buffer("sharpness", torch.tensor(0.5).to(given))
        self.register_buffer("shares", uniform)
        self.register_buffer("weights", uniform.clone())
        self.projection: Tensor
        self.projection_bias: Tensor
        self.centres: Tensor
        self.sharpness: Tensor
        self.shares: Tensor
        """Of each concept among all samples; zero for those that are not there."""
        self.weights: Tensor
        """Of each concept among the samples of the model's client."""

    def _own(self, name: str, value: Tensor, *, learns: bool) -> None:
        if learns:
            self.register_parameter(name, nn.Parameter(value.detach().clone()))
        else:
            self.register_buffer(name, value.detach().clone())

    @torch.no_grad()
    def clear(self) -> None:
        """Take all concepts away."""
        for name in ("projection", "projection_bias", "centres", "shares", "weights"):
            getattr(self, name).zero_()

    def forward(self, z: Tensor) -> Tensor:
        """Return W z + b, or W [z; p̂] + b."""
        if self.feeds:
            z = torch.cat([z, self.preference(self.shares_of(z))], dim=1)
        return super().forward(z)

    def places(self, z: Tensor) -> Tensor:
        """Return ẑ: where inputs lie among the concepts."""
        return nn.functional.linear(z, self.projection, self.projection_bias)

    def shares_of(self, z: Tensor) -> Tensor:
        """Return how much of each input belongs to each concept, for the model's client."""
        if self._given is not None:
            return self._given
        return responsibilities(self.places(z), self.centres, self.sharpness, self.weights)

    @contextmanager
    def belonging(self, unprejudiced: Tensor) -> Iterator[None]:
        """Within it, inputs belong to concepts as given, see :meth:`unprejudiced`, not by place.

        The client's own weights are applied to what is given.
        """
        there = self.shares > 0
        given = unprejudiced.new_zeros(len(unprejudiced), len(there))
        given[:, there] = unprejudiced * self.weights[there]
        self._given = given / given.sum(dim=1, keepdim=True).clamp_min(1e-12)
        try:
            yield
        finally:
            self._given = None

    def preference(self, shares: Tensor) -> Tensor:
        """Return p̂ = Σ s c of samples."""
        return shares @ self.centres

    @torch.no_grad()
    def fit(self, z: Tensor) -> None:
        """Set the weights to those that suit some inputs."""
        start = (self.shares > 0).to(z)
        self.weights.copy_(fitted_weights(self.places(z), self.centres, self.sharpness, start))

    def unprejudiced(self, z: Tensor) -> Tensor:
        """Return how much of each input belongs to each concept if all are equally likely.

        With a client's own weights the code would reveal the client.
        """
        there = (self.shares > 0).to(self.shares)
        found = responsibilities(self.places(z), self.centres, self.sharpness, there)
        return found[:, self.shares > 0]
