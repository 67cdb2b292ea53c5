from __future__ import annotations

import math

import torch
from torch.nn import functional

from duotone.methods.padpaf.latent_finder import found_latents

MIX = torch.linalg.qr(torch.randn(6, 6, generator=torch.Generator().manual_seed(3))).Q


def find(latents, seed=0):
    """Find latents again from features that are a turn of them, with an offset."""
    generator = torch.Generator().manual_seed(seed)

    def show(count):
        drawn = torch.randn(count, 6, generator=generator)
        return 0.1 * drawn @ MIX + 2, drawn

    return found_latents(show, 0.1 * latents @ MIX + 2, generator)


def test_latents_are_found_from_features_that_determine_them():
    latents = torch.randn(50, 6, generator=torch.Generator().manual_seed(1))
    found = find(latents)
    assert functional.cosine_similarity(found, latents).mean() > 0.97
    assert torch.allclose(found.norm(dim=1), torch.full((50,), math.sqrt(6)))


def test_what_is_found_follows_the_generator_alone():
    latents = torch.randn(5, 6, generator=torch.Generator().manual_seed(1))
    torch.manual_seed(7)
    before = torch.get_rng_state()
    first = find(latents)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(8)
    assert torch.equal(find(latents), first)
    assert not torch.equal(find(latents, seed=1), first)


def test_features_unlike_all_that_were_drawn_give_latents_still():
    assert find(torch.full((2, 6), 1e6)).isfinite().all()
