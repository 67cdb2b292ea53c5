"""Algorithm 2 of PaDPaF: find both latents of an image, to draw it again or in another style.

Almansoori, Horváth, Takáč, *PaDPaF*, TMLR 2024, appendix C.2.3. One map Z^c from content features
to content latents is common to all clients, and every client has a map Z^s from its own style
features to its style latents. They are learnt from what clients draw, so without a real image.

======================  ================================
paper                   code
======================  ================================
Z^c, Z^s_i              ``LatentMaps.content``, ``.styles``
line 8, x̃               :meth:`LatentMaps.redrawn`
line 9, L_BT            :func:`transfer_loss`, ``twins``
line 11, a → b          :meth:`LatentMaps.transferred`
======================  ================================

As printed, ``twins``, content features of a picture and of the one drawn from its latents should be
correlated feature by feature. Nothing in that says how long a latent is, and nothing asks for the
style. Of a drawn picture both latents are known, so ``latents`` asks for them directly, and gives
what is found the length of a latent that is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

from duotone.methods.padpaf.style_gan import ContentStyleGAN
from duotone.methods.padpaf.twins import barlow_twins
from duotone.types import Draws

Aim: TypeAlias = Literal["twins", "latents"]
"""What the maps minimise."""

_HIDDEN, _WIDTH, _LR = 3, 128, 1e-3


class LatentMaps(nn.Module):
    """The maps from features to latents, of content for all clients and of style for each.

    Args:
        models: Every client's model.
        aim: What they will be trained for.
    """

    def __init__(self, models: Mapping[str, ContentStyleGAN], aim: Aim) -> None:
        super().__init__()
        self.models = dict(models)
        self.aim = aim
        first = next(iter(models.values()))
        content, style = first.dimensions
        self.content = _layers(first.content.features, content)
        self.numbers = {client: number for number, client in enumerate(models)}
        self.styles = nn.ModuleList(_layers(m.style.features, style) for m in models.values())

    def found(self, client: str, x: Tensor) -> Draws:
        """Return the latents that a client's images seem to be drawn from."""
        model = self.models[client]
        content = self.content(model.content_features(x))
        style = self.styles[self.numbers[client]](model.style(x))
        if self.aim == "latents":
            content, style = (
                functional.normalize(z) * math.sqrt(z.shape[1]) for z in (content, style)
            )
        return Draws(content, style)

    @torch.no_grad()
    def redrawn(self, client: str, x: Tensor, label: Tensor | None = None) -> Tensor:
        """Return a client's images drawn again by it from the latents that are found."""
        draws = self.found(client, x)
        return self.models[client].sample(draws.content, draws.style, label).clamp(0, 1)

    @torch.no_grad()
    def transferred(
        self, source: str, target: str, x: Tensor, style: Tensor, label: Tensor | None = None
    ) -> Tensor:
        """Return the content of one client's images in styles of another."""
        content = self.found(source, x).content
        return self.models[target].sample(content, style, label).clamp(0, 1)


def _layers(inputs: int, outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for width in [inputs, *[_WIDTH] * (_HIDDEN - 1)]:
        layers += [nn.Linear(width, _WIDTH), nn.BatchNorm1d(_WIDTH), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(_WIDTH, outputs))


def transfer_loss(
    maps: LatentMaps, client: str, draws: Draws, label: Tensor | None = None
) -> Tensor:
    """Return what the maps minimise on pictures of some latents: line 9, or the distance to them.

    Args:
        maps: To be trained.
        client: Who draws.
        draws: The latents.
        label: What to show, if the GAN is told.
    """
    model = maps.models[client]
    with torch.no_grad():
        x = model.draw(draws.content, draws.style, label).clamp(0, 1)
    found = maps.found(client, x)
    if maps.aim == "latents":
        content = functional.mse_loss(found.content, draws.content)
        return content + functional.mse_loss(found.style, draws.style)
    again = model.draw(found.content, found.style, label)
    first, second = (model.content.projector(model.content_features(p)) for p in (x, again))
    return barlow_twins(first, second)


def learnt_maps(
    models: Mapping[str, ContentStyleGAN],
    aim: Aim,
    generator: torch.Generator,
    *,
    turns: int = 120,
    batch: int = 64,
) -> LatentMaps:
    """Train the maps on what all clients draw in turn; the models stay as they are.

    Args:
        models: Every client's model, each a module of its own.
        aim: What to minimise.
        generator: Of every random draw.
        turns: Batches that each client draws.
        batch: Pictures in a batch.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(torch.randint(2**31, (), generator=generator)))
        maps = LatentMaps(models, aim)
    trained = [*maps.content.parameters(), *maps.styles.parameters()]
    optimizer = torch.optim.Adam(trained, _LR)
    for turn in range(turns):
        optimizer.param_groups[0]["lr"] = _LR * (1 - turn / turns)
        for client, model in models.items():
            draws = model.prior(batch, generator)
            label = None
            if model.generator.labels is not None:
                classes = model.generator.labels.num_embeddings
                label = torch.randint(classes, (batch,), generator=generator)
            loss = transfer_loss(maps, client, draws, label)
            optimizer.zero_grad()
            loss.backward(inputs=trained)  # type: ignore[no-untyped-call]
            optimizer.step()
    return maps.eval()
