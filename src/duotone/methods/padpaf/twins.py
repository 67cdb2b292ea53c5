"""Twins: two pictures drawn from one common latent should have the same features of it.

The latent-contrastive term of Almansoori et al., *PaDPaF*, TMLR 2024, over the loss of Barlow Twins
(Zbontar et al., ICML 2021).
"""

from __future__ import annotations

from torch import Tensor

from duotone.types import Draws

REDUNDANCY = 0.005
"""λ_BT: weight of a correlation between two features against that of one with itself."""


def barlow_twins(first: Tensor, second: Tensor, redundancy: float = REDUNDANCY) -> Tensor:
    """Return Σ(1 − C_ii)² + λ_BT ΣC_ij², C being the correlations of two batches: Eq. (7), (8).

    Args:
        first: Projected features, one row per sample.
        second: Those of the samples' twins.
        redundancy: λ_BT.
    """
    correlation = standardised(first).T @ standardised(second) / len(first)
    own = correlation.diagonal()
    others = correlation.square().sum() - own.square().sum()
    return (1 - own).square().sum() + redundancy * others


def standardised(features: Tensor) -> Tensor:
    """Return features with mean 0 and variance 1 over the batch; a constant one becomes 0."""
    centred = features - features.mean(dim=0)
    return centred / (centred.square().mean(dim=0) + 1e-5).sqrt()


def chained(draws: Draws) -> Draws:
    """Repeat latents so that neighbours have one in common: (c0, s0), (c0, s1), (c1, s1), ….

    Samples 2i and 2i + 1 show the same content, samples 2i + 1 and 2i + 2 the same style. One batch
    thus has all the pairs that Eq. (14) compares. The last sample goes with the first.
    """
    content = draws.content.repeat_interleave(2, dim=0)
    style = draws.style.repeat_interleave(2, dim=0).roll(-1, dims=0)
    return Draws(content, style)


def contrast_term(content: Tensor, style: Tensor) -> Tensor:
    """Return Γ: features of the same content should be twins, so those of one style. Eq. (14).

    Args:
        content: Projected content features of chained samples.
        style: Projected style features of the same.
    """
    same_content = barlow_twins(content[0::2], content[1::2])
    same_style = barlow_twins(style[1::2], style.roll(-1, dims=0)[1::2])
    return same_content + same_style
