"""What methods with a GAN have in common: how its players train on one client's images.

The GAN is that of Almansoori et al., *PaDPaF*, TMLR 2024: a generator with a style vectorizer, a
content and a style discriminator, and a linear head that labels train and nothing else. What of it
is shared is for each method to say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

import torch
from pydantic import Field
from torch import Tensor, nn

from duotone.errors import ConfigError
from duotone.federation.local_training import (
    cosine_decay,
    is_labelled,
    labels_of,
    run_epochs,
    task_loss,
)
from duotone.federation.method import Method
from duotone.federation.optimizers import Optimizer
from duotone.federation.settings import GenerativeSettings
from duotone.methods.padpaf.players import Players
from duotone.methods.padpaf.residual import WIDTH
from duotone.methods.padpaf.style_gan import ContentStyleGAN
from duotone.methods.padpaf.twins import chained, contrast_term
from duotone.types import (
    ClientData,
    DataInfo,
    Draws,
    Latents,
    Params,
    RoundInfo,
)

Pull: TypeAlias = Callable[[], Tensor]
"""A term that the losses of both players have in common."""

NOISE = 0.01
"""Standard deviation of what is added to every pixel a discriminator sees."""


class GANSettings(GenerativeSettings):
    """Settings of every method with such a GAN."""

    variant: Literal["duotone", "paper"] = "duotone"
    """The method made to work, or as published."""
    lens: Literal["fitted", "plain", "none"] = "fitted"
    """Whether a client's lens starts from its images, as it is, or is missing (duotone only)."""
    contrast: float = Field(0.1, ge=0)
    """Weight λ of the latent-contrastive term; 0 turns it off."""
    conditional: bool = False
    """Whether pictures are asked for by their label."""
    asked: Literal["own", "all"] = "own"
    """Labels of drawn pictures in training: as often as the client has them, or all alike."""
    blocks: Literal["plain", "residual"] = "plain"
    """Of what generator and discriminators are made: convolutions, or residual blocks as published
    (no lens)."""
    width: int = Field(WIDTH, ge=1, le=512)
    """Channels of residual blocks; 64 as published for MNIST, 128 for CelebA."""
    turns: int | None = Field(None, ge=1)
    """Steps of the discriminators for each of the generator; by default the variant's: 1 or 3."""
    content_dim: int = Field(64, ge=1, le=65_536)
    """Dimensions of the content latent."""
    style_dim: int = Field(32, ge=1, le=65_536)
    """Dimensions of the style latent."""
    optimizer: Literal["adam"] = "adam"
    """Local optimiser; it starts afresh in every round."""
    lr: float = Field(5e-4, gt=0)
    """Learning rate of the generator in the first round; that of the discriminators is twice it."""
    lr_end: float = Field(0.1, ge=0, le=1)
    """Share of the learning rate that is left in the last round; it falls along a cosine."""


# -- terms


def discriminator_loss(real: Tensor, drawn: Tensor) -> Tensor:
    """Return the hinge loss: real images should score above 1, drawn ones below −1. Eq. (9)."""
    return (1 - real).relu().mean() + (1 + drawn).relu().mean()


def generator_loss(drawn: Tensor) -> Tensor:
    """Return what the generator minimises: minus the score of what it draws. Eq. (9)."""
    return -drawn.mean()


# -- the players


class GANMethod(Method):
    """A method that trains a GAN with content and style."""

    config: GANSettings
    own_model = "style-gan"
    uses_unlabelled = True

    def build(self, data: DataInfo) -> ContentStyleGAN:
        """Build generator, discriminators and head."""
        config = self.config
        if config.conditional and data.task == "regression":
            raise ConfigError(
                "Pictures can be asked for by a class, but the labels of these samples are real "
                "numbers; leave out conditional."
            )
        is_plain = config.blocks == "plain"
        has_lens = config.variant == "duotone" and config.lens != "none" and is_plain
        return ContentStyleGAN(
            data,
            config.content_dim,
            config.style_dim,
            "lens" if has_lens else "plain",
            config.conditional,
            None if is_plain else config.width,
        )

    def encode(self, model: nn.Module, x: Tensor) -> Latents:
        """Return the features of both discriminators, those of content without the lens."""
        assert isinstance(model, ContentStyleGAN)
        return Latents(model.content_features(x), model.style(x))

    @property
    def draws_labels(self) -> bool:
        """True if the GAN is conditional."""
        return self.config.conditional

    def draw(self, model: nn.Module, count: int, generator: torch.Generator) -> Draws:
        """Draw latents."""
        assert isinstance(model, ContentStyleGAN)
        return model.prior(count, generator)

    @torch.no_grad()
    def generate(self, model: nn.Module, draws: Draws, label: Tensor | None = None) -> Tensor:
        """Return the pictures of some latents; a conditional GAN also needs their labels."""
        assert isinstance(model, ContentStyleGAN)
        if self.config.conditional != (label is not None):
            raise ValueError(
                "a conditional GAN is asked for labels, one for each picture; got none"
                if label is None
                else "labels were given, but this GAN was not trained with conditional = true"
            )
        return model.sample(draws.content, draws.style, label).clamp(0, 1)

    def load(self, params: Params, data: DataInfo) -> ContentStyleGAN:
        """Put parameters into this process's network and return it."""
        model = super().load(params, data)
        assert isinstance(model, ContentStyleGAN)
        return model

    def _fit_lens(self, model: ContentStyleGAN, x: Tensor) -> None:
        """Start a client's own lens from its images."""
        if self.config.lens == "fitted":
            model.fit_lens(x)

    def _play(
        self,
        model: ContentStyleGAN,
        data: ClientData,
        info: RoundInfo,
        *,
        trained: set[int] | None = None,
        epochs: int | None = None,
        phase: str = "train",
        pull: Pull | None = None,
    ) -> float:
        """Step discriminators and generator in turn; return the former's mean loss.

        Args:
            model: The client's model.
            data: Its images, with labels or without.
            info: Where in the run we are.
            trained: Identities of the parameters that may change; all if not given.
            epochs: Passes over the images, if not those of the settings.
            phase: Names the random streams.
            pull: What both players minimise besides.
        """
        config = self.config
        labels = labels_of(data)
        known = labels[is_labelled(labels)]
        generator = info.generator("client", data.client, f"{phase}-draws")
        lr = config.lr_at(info.round) * cosine_decay(info, config.lr_end)
        players = Players(model, trained, lr)
        turns = config.turns or {"duotone": 1, "paper": 3}[config.variant]
        turn = 0

        def ask(count: int) -> Tensor | None:
            return self._asked(count, known, info.data.outputs, generator)

        def step(x: Tensor, y: Tensor) -> Tensor:
            nonlocal turn
            pairs = max(2, math.ceil(len(x) / 2))
            loss = self._judging_loss(model, x, y, pairs, ask(pairs), generator)
            if players.reading:
                model.scale.train(len(x) > 1)  # one sample has no variance
                loss = loss + self._reading_loss(model, x, y)
            if pull is not None:
                loss = loss + pull()
            _descend(players.critic, [*players.judging, *players.reading], loss)
            turn += 1
            if turn % turns == 0:
                alone = players.is_content_fixed
                drawn = self._drawing_loss(
                    model, len(x), ask(len(x)), generator, by_style_alone=alone
                )
                drawn = drawn if pull is None else drawn + pull()
                _descend(players.artist, players.drawing, drawn)
            return loss

        model.train()
        model.scale.eval()
        return run_epochs(step, replace(data, y=labels), config, info, epochs=epochs, phase=phase)

    def _asked(
        self, count: int, known: Tensor, classes: int, generator: torch.Generator
    ) -> Tensor | None:
        """Draw the labels of pictures to be drawn, if there are any; ``known`` are the client's."""
        if not self.config.conditional:
            return None
        if self.config.asked == "all" or not len(known):
            return torch.randint(classes, (count,), generator=generator).to(self.device)
        return known[torch.randint(len(known), (count,), generator=generator)]

    def _judging_loss(
        self,
        model: ContentStyleGAN,
        x: Tensor,
        y: Tensor,
        pairs: int,
        asked: Tensor | None,
        generator: torch.Generator,
    ) -> Tensor:
        """Return what the discriminators minimise; the generator learns nothing from it."""
        draws = chained(self.draw(model, pairs, generator))
        fake = None if asked is None else asked.repeat_interleave(2)
        with torch.no_grad():
            drawn = model.draw(draws.content, draws.style, fake)
        seen = _noisy(torch.cat([x, drawn]), generator)
        content, style = model.content(seen), model.style(seen)
        said = None if fake is None else torch.cat([y, fake])
        real = len(x)
        loss = torch.zeros(())
        for score in (model.content.judge(content, said), model.style.judge(style)):
            loss = loss + discriminator_loss(score[:real], score[real:])
        if self.config.contrast:
            term = contrast_term(
                model.content.projector(content[real:]), model.style.projector(style[real:])
            )
            loss = loss + self.config.contrast * term
        return loss

    def _reading_loss(self, model: ContentStyleGAN, x: Tensor, y: Tensor) -> Tensor:
        """Return what the head minimises; labels do not change the features."""
        with torch.no_grad():
            features = model.scale(model.content_features(x))
        known = is_labelled(y)
        if not bool(known.any()):
            return model.head.weight.sum() * 0
        return task_loss(model.head, features[known], y[known])

    def _drawing_loss(
        self,
        model: ContentStyleGAN,
        count: int,
        asked: Tensor | None,
        generator: torch.Generator,
        *,
        by_style_alone: bool = False,
    ) -> Tensor:
        """Return what generator and vectorizer minimise.

        A content discriminator that is not trained has not seen these images and cannot learn to
        know them; it would ask for those it has seen.
        """
        draws = self.draw(model, count, generator)
        drawn = _noisy(model.draw(draws.content, draws.style, asked), generator)
        style = generator_loss(model.style.judge(model.style(drawn)))
        if by_style_alone:
            return style
        return generator_loss(model.content.judge(model.content(drawn), asked)) + style


def _descend(optimizer: Optimizer, parameters: Sequence[nn.Parameter], loss: Tensor) -> None:
    """Take one step; no other parameter gets a gradient, nor is one computed for it."""
    optimizer.zero_grad()
    loss.backward(inputs=parameters)  # type: ignore[no-untyped-call]
    optimizer.step()


def _noisy(x: Tensor, generator: torch.Generator) -> Tensor:
    return x + NOISE * torch.randn(x.shape, generator=generator).to(x.device)
