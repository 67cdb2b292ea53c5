"""PaDPaF: a GAN whose content is everybody's and whose style is each client's own.

Abdulla Jasem Almansoori, Samuel Horváth, Martin Takáč: *PaDPaF: Partial Disentanglement with
Partially-Federated GANs*, TMLR 2024.

**Shared:** the generator of content, the content discriminator and a linear head on its features.
**Local:** what turns a style latent into a style vector, the lens that the vector sets, and the
style discriminator. **Explains:** the same content latent drawn by two clients shows what each
makes of it; a new style latent shows how a client varies; content features say what is in an image.

================  ==========================================
paper             code
================  ==========================================
θ_fed, θ_pvt      ``ServerState.shared``, ``ClientState.local``
G^c, G^s          ``ContentStyleGAN.generator``, ``.vectorizer``
D^c, D^s          ``ContentStyleGAN.content``, ``.style``: :meth:`Discriminator.judge`
φ^c, φ^s          ``ContentStyleGAN.content_features``, ``.style``: ``Latents.shared``, ``.local``
g                 ``Discriminator.projector``
z^c, z^s          ``Draws.content``, ``Draws.style``
L_BT, λ_BT        :func:`barlow_twins`, ``REDUNDANCY``
Γ, λ              :func:`contrast_term`, ``contrast``
T_D               ``turns``
================  ==========================================

*Generative.* Nothing here is trained to classify. Labels train a linear head on content features,
which they do not change; its accuracy is what tables show. With ``conditional`` labels reach
generator and content discriminator as well, so that pictures can be asked for by their label.

*Members* use the server's generator and content discriminator with their own style. *Newcomers*
get the shared part at once (zero-shot), and a lens from their images (label-free); without a fitted
lens they train their local part, while the shared one stays as it is.

*Buffers.* The vectors of spectral normalisation stay local always. The statistics of content
features, by which the head is given them at one scale, are shared like the head, and a client that
is served takes those of its own images. The generator keeps none: training uses a batch's own,
drawing those of latents that are always the same.

*Variants.* ``paper``: style modulates every normalisation of the generator, T_D = 3 with twice the
learning rate for discriminators, the term of Eq. (14) for content and style. Repairs: Eq. (9)
prints log-losses of scores that are no probabilities, the hinge loss of the authors' code is meant;
λ_BT is not given, 0.005 is that code's. ``duotone`` keeps the two discriminators, the split and the
losses, and changes what style can do. Modulating features cannot turn, resize or invert a picture,
so in the paper's network content must do it, and the same z^c is another digit at every client.
Here content alone makes a canvas; style only touches strokes and sets a *lens*: two tones, a frame,
a focus. A client's lens starts from its images (:func:`~duotone.models.style_gan.lens_of`),
and T_D is 1. A lens can be taken off real images as well: content features and the head are given
what is left, and another client's lens on top is a re-styled image (:meth:`PaDPaF.show`);
without a lens content latents are found by Algorithm 2, with what the source itself draws.

*Deviations* in both variants: networks are a few times smaller; discriminators see places (a linear
layer on all features instead of their mean), without which digits take longer; the label's vector
goes into the content latent and through a linear map into every normalisation, where a table per
label is not learnt in hundreds of steps; Adam starts afresh in every round; the server averages
(``server_optimizer=adam`` is the paper's).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from duotone.errors import ConfigError
from duotone.federation.local import refresh_statistics, run_epochs, task_loss
from duotone.federation.method import Method, MethodSettings, stored
from duotone.models.latent_finder import found_latents
from duotone.models.style_gan import ContentStyleGAN, Lens
from duotone.types import (
    NO_LABEL,
    ClientData,
    ClientState,
    ClientUpdate,
    DataInfo,
    Draws,
    Latents,
    NewcomerRule,
    RoundInfo,
    ServerState,
)

BETAS = (0.5, 0.9)
"""Decay of Adam's moments, as in the paper."""
REDUNDANCY = 0.005
"""λ_BT: weight of a correlation between two features against that of one with itself."""
NOISE = 0.01
"""Standard deviation of what is added to every pixel a discriminator sees."""

HEAD_LR = 20
"""How much faster the head learns than the generator: the features it reads do not stand still."""

SCALED_BY = 500
"""Images by which a client scales the features that the head is given."""


class PaDPaFConfig(MethodSettings):
    """Settings of PaDPaF."""

    variant: Literal["duotone", "paper"] = "duotone"
    """The method made to work, or as printed."""
    share: Literal["partial", "all", "none"] = "partial"
    """What leaves a client: the content, everything (one GAN for all), or nothing (a GAN each)."""
    norms: Literal["shared", "local"] = "shared"
    """Where the maps from style to normalisation layers are: the authors' code shares them."""
    lens: Literal["fitted", "plain", "none"] = "fitted"
    """Whether a client's lens starts from its images, as it is, or is missing (duotone only)."""
    contrast: float = Field(0.1, ge=0)
    """Weight λ of the latent-contrastive term; 0 turns it off."""
    conditional: bool = False
    """Whether pictures are asked for by their label."""
    asked: Literal["own", "all"] = "own"
    """Labels of drawn pictures in training: as often as the client has them, or all alike."""
    turns: int | None = Field(None, ge=1)
    """Steps of the discriminators for each of the generator; by default the variant's: 1 or 3."""
    content_dim: int = Field(64, ge=1)
    """Dimensions of the content latent."""
    style_dim: int = Field(32, ge=1)
    """Dimensions of the style latent."""
    newcomer_epochs: int | None = Field(None, ge=0)
    """Passes in which a newcomer trains its local part; by default 0 if a lens is fitted, or 3."""
    optimizer: Literal["adam"] = "adam"
    """Local optimiser; it starts afresh in every round."""
    lr: float = Field(5e-4, gt=0)
    """Learning rate of the generator in the first round; that of the discriminators is twice it."""
    lr_end: float = Field(0.1, ge=0, le=1)
    """Share of the learning rate that is left in the last round; it falls along a cosine."""
    lr_decay: float = Field(1.0, gt=0, le=1)
    """Factor on the learning rate every `lr_decay_every` rounds; 1 keeps it constant."""
    batch_size: int = Field(32, ge=1)
    """Samples per local step."""
    epochs: int = Field(1, ge=1)
    """Passes over a client's training samples in a round."""


# -- terms


def discriminator_loss(real: Tensor, drawn: Tensor) -> Tensor:
    """Return the hinge loss: real images should score above 1, drawn ones below −1. Eq. (9)."""
    return (1 - real).relu().mean() + (1 + drawn).relu().mean()


def generator_loss(drawn: Tensor) -> Tensor:
    """Return what the generator minimises: minus the score of what it draws. Eq. (9)."""
    return -drawn.mean()


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


# -- the method

LOCAL = ("vectorizer.", "generator.lens.", "style.")


class PaDPaF(Method):
    """Average what draws and judges content; keep what gives it a style."""

    name = "padpaf"
    title = "a GAN that draws everybody's content in each client's own style"
    paper = "Almansoori et al., Partial Disentanglement with Partially-Federated GANs, TMLR 2024"
    Config = PaDPaFConfig
    config: PaDPaFConfig
    rounds = 16
    own_model = "style-gan"
    uses_unlabelled = True
    newcomer_rules = ("label-free", "zero-shot")

    def build(self, data: DataInfo) -> ContentStyleGAN:
        """Build generator, discriminators and head."""
        config = self.config
        if config.conditional and data.task == "regression":
            raise ConfigError(
                "Pictures can be asked for by a class, but the labels of these samples are real "
                "numbers; leave out conditional."
            )
        has_lens = config.variant == "duotone" and config.lens != "none"
        return ContentStyleGAN(
            data,
            config.content_dim,
            config.style_dim,
            "lens" if has_lens else "plain",
            config.conditional,
        )

    def is_shared(self, name: str, owner: nn.Module) -> bool:
        """Share content; spectral normalisation's vectors stay even where everything is shared."""
        if self.config.share == "none" or not super().is_shared(name, owner):
            return False
        if self.config.share == "all":
            return True
        is_own_norm = self.config.norms == "local" and ".by_style." in name
        return not (name.startswith(LOCAL) or is_own_norm)

    @classmethod
    def rules(cls, config: MethodSettings) -> tuple[NewcomerRule, ...]:
        """A head of one's own needs labels; everything else is learnt from images alone."""
        assert isinstance(config, PaDPaFConfig)
        return ("few-shot",) if config.share == "none" else cls.newcomer_rules

    def client_update(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> tuple[ClientUpdate, ClientState]:
        """Let generator and discriminators play for some epochs."""
        model = self._load(server, client, info)
        if "started" not in client.extra:
            self._fit_lens(model, data.x)
        loss = self._play(model, data, info)
        shared, local = self.split(model)
        update = ClientUpdate(data.client, shared, len(data), metrics={"train_loss": loss})
        return update, ClientState(local, {"started": torch.tensor(info.round)})

    def adapt(
        self,
        server: ServerState,
        client: ClientState | None,
        data: ClientData | None,
        info: RoundInfo,
    ) -> ClientState:
        """Learn a newcomer's style from its images; scale the features that the head is given."""
        state = super().adapt(server, client, None, info)
        if data is None:
            return state
        model = self._load(server, state, info)
        own = {id(p) for p in self.parameters_of(model, "local")}
        if client is None and own:
            self._fit_lens(model, data.x)
            self._play(
                model,
                data,
                replace(info, round=1),  # with the learning rate of a beginner
                trained=own,
                epochs=self._newcomer_epochs(model),
                phase="newcomer",
            )
        # Statistics from training are those of other weights: every client's, before the average.
        refresh_statistics(model, data.x[:SCALED_BY])
        scale = {name: stored(t) for name, t in model.state_dict().items() if "scale." in name}
        return ClientState({**self.split(model)[1], **scale}, state.extra)

    def encode(self, model: nn.Module, x: Tensor) -> Latents:
        """Return the features of both discriminators, those of content without the lens."""
        assert isinstance(model, ContentStyleGAN)
        return Latents(model.content_features(x), model.style(x))

    @property
    def draws_labels(self) -> bool:
        """Only a conditional GAN can be told labels."""
        return self.config.conditional

    def draw(self, model: nn.Module, count: int, generator: torch.Generator) -> Draws:
        """Draw latents."""
        content = torch.randn(count, self.config.content_dim, generator=generator)
        style = torch.randn(count, self.config.style_dim, generator=generator)
        return Draws(content.to(self.device), style.to(self.device))

    @torch.no_grad()
    def generate(self, model: nn.Module, draws: Draws, label: Tensor | None = None) -> Tensor:
        """Return the pictures of some latents, as this client draws them.

        Args:
            model: The client's model.
            draws: The latents.
            label: What they should show, one class each, if the method is conditional.
        """
        assert isinstance(model, ContentStyleGAN)
        if self.config.conditional != (label is not None):
            raise ValueError(
                "a conditional GAN is asked for labels, one for each picture; got none"
                if label is None
                else "labels were given, but this GAN was not trained with conditional = true"
            )
        return model.sample(draws.content, draws.style, label).clamp(0, 1)

    @torch.no_grad()
    def canvas(self, model: nn.Module, x: Tensor) -> Tensor:
        """Return a client's images with its lens taken off: what is left is content.

        Raises:
            ConfigError: There is no lens.
        """
        assert isinstance(model, ContentStyleGAN)
        self._lens(model)
        return model.canvas(x)

    @torch.no_grad()
    def show(self, model: nn.Module, canvas: Tensor, style: Tensor) -> Tensor:
        """Return what a canvas, of whichever client, looks like through a client's lens.

        Args:
            model: The client's model.
            canvas: From :meth:`canvas`.
            style: Style latents, one for each.

        Raises:
            ConfigError: There is no lens.
        """
        assert isinstance(model, ContentStyleGAN)
        shown: Tensor = self._lens(model)(canvas, model.vectorizer(style))
        return shown.clamp(0, 1)

    @torch.no_grad()
    def take_off(self, model: nn.Module, x: Tensor, generator: torch.Generator) -> Tensor:
        """Return a client's images without its lens, or else content latents of images like them.

        The latents are found by a network that learns from what this client draws (Algorithm 2).
        In a conditional GAN they are followed by the label that the head reads.
        """
        assert isinstance(model, ContentStyleGAN)
        if model.generator.lens is not None:
            return self.canvas(model, x)

        def show(count: int) -> tuple[Tensor, Tensor]:
            draws = self.draw(model, count, generator)
            label = None
            if self.config.conditional:
                label = torch.randint(model.head.out_features, (count,), generator=generator)
            drawn = self.generate(model, draws, label)
            return model.content(drawn), draws.content

        content = found_latents(show, model.content(x), generator)
        if not self.config.conditional:
            return content
        return torch.cat([content, model(x).argmax(dim=1, keepdim=True)], dim=1)

    @torch.no_grad()
    def put_on(self, model: nn.Module, content: Tensor, generator: torch.Generator) -> Tensor:
        """Return content as this client would draw it, each in another of its styles."""
        assert isinstance(model, ContentStyleGAN)
        style = self.draw(model, len(content), generator).style
        if model.generator.lens is not None:
            return self.show(model, content, style)
        latents, label = content[:, : self.config.content_dim], None
        if self.config.conditional:
            label = content[:, -1].long()
        return self.generate(model, Draws(latents, style), label)

    def _lens(self, model: ContentStyleGAN) -> Lens:
        lens = model.generator.lens
        if lens is None:
            raise ConfigError(
                f"Images are re-styled by a lens, and variant={self.config.variant} with "
                f"lens={self.config.lens} has none; use variant=duotone and lens=fitted."
            )
        return lens

    def _load(self, server: ServerState, state: ClientState, info: RoundInfo) -> ContentStyleGAN:
        model = self.load(self.personal(server, state), info.data)
        assert isinstance(model, ContentStyleGAN)
        return model

    def _newcomer_epochs(self, model: ContentStyleGAN) -> int:
        """Return how long a newcomer trains; after a few epochs a fitted lens alone was better."""
        if self.config.newcomer_epochs is not None:
            return self.config.newcomer_epochs
        has_lens = model.generator.lens is not None and self.config.lens == "fitted"
        return 0 if has_lens and self.config.share == "partial" else 3

    def _fit_lens(self, model: ContentStyleGAN, x: Tensor) -> None:
        """Start a client's own lens from its images."""
        lens = model.generator.lens
        if lens is not None and self.config.lens == "fitted" and self.config.share != "all":
            lens.start(x)

    def _play(
        self,
        model: ContentStyleGAN,
        data: ClientData,
        info: RoundInfo,
        *,
        trained: set[int] | None = None,
        epochs: int | None = None,
        phase: str = "train",
    ) -> float:
        """Step discriminators and generator in turn; return the former's mean loss.

        Args:
            model: The client's model.
            data: Its images, with labels or without.
            info: Where in the run we are.
            trained: Identities of the parameters that may change; all if not given.
            epochs: Passes over the images, if not those of the settings.
            phase: Names the random streams.
        """
        config = self.config
        labels = torch.full((len(data),), NO_LABEL) if data.y is None else data.y
        known = labels[_is_known(labels)]
        generator = info.generator("client", data.client, f"{phase}-draws")
        lr = config.lr_at(info.round) * (
            config.lr_end + (1 - config.lr_end) * _cosine((max(info.round, 1) - 1) / info.rounds)
        )
        drawing = _chosen([model.generator, model.vectorizer], trained)
        judging = _chosen([model.content, model.style], trained)
        reading = _chosen([model.head], trained)
        artist = torch.optim.Adam(drawing, lr, BETAS, fused=True)
        groups: list[dict[str, Any]] = [
            {"params": judging},
            {"params": reading, "lr": HEAD_LR * lr},
        ]
        critic = torch.optim.Adam(groups, 2 * lr, BETAS, fused=True)
        turns = config.turns or {"duotone": 1, "paper": 3}[config.variant]
        turn = 0

        def ask(count: int) -> Tensor | None:
            if not config.conditional:
                return None
            if config.asked == "all" or not len(known):
                classes = torch.randint(info.data.outputs, (count,), generator=generator)
                return classes.to(self.device)
            return known[torch.randint(len(known), (count,), generator=generator)]

        def step(x: Tensor, y: Tensor) -> Tensor:
            nonlocal turn
            pairs = max(2, math.ceil(len(x) / 2))
            loss = self._judging_loss(model, x, y, pairs, ask(pairs), generator)
            if reading:
                model.scale.train(len(x) > 1)  # one sample has no variance
                loss = loss + self._reading_loss(model, x, y)
            _descend(critic, [*judging, *reading], loss)
            turn += 1
            if turn % turns == 0:
                _descend(artist, drawing, self._drawing_loss(model, len(x), ask(len(x)), generator))
            return loss

        model.train()
        model.scale.eval()
        return run_epochs(step, replace(data, y=labels), config, info, epochs=epochs, phase=phase)

    def _judging_loss(
        self,
        model: ContentStyleGAN,
        x: Tensor,
        y: Tensor,
        pairs: int,
        asked: Tensor | None,
        generator: torch.Generator,
    ) -> Tensor:
        """Return what the discriminators minimise; the generator is only looked at."""
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
        """Return what the head minimises: labels read features and do not make them."""
        with torch.no_grad():
            features = model.scale(model.content_features(x))
        is_known = _is_known(y)
        if not bool(is_known.any()):
            return model.head.weight.sum() * 0
        return task_loss(model.head, features[is_known], y[is_known])

    def _drawing_loss(
        self, model: ContentStyleGAN, count: int, asked: Tensor | None, generator: torch.Generator
    ) -> Tensor:
        """Return what generator and vectorizer minimise."""
        draws = self.draw(model, count, generator)
        drawn = _noisy(model.draw(draws.content, draws.style, asked), generator)
        content = model.content.judge(model.content(drawn), asked)
        return generator_loss(content) + generator_loss(model.style.judge(model.style(drawn)))


def _chosen(modules: Sequence[nn.Module], trained: set[int] | None) -> list[nn.Parameter]:
    """Return those parameters of some modules that may change."""
    every = [p for module in modules for p in module.parameters() if p.requires_grad]
    return [p for p in every if trained is None or id(p) in trained]


def _descend(
    optimizer: torch.optim.Optimizer, parameters: Sequence[nn.Parameter], loss: Tensor
) -> None:
    """Take one step; no other parameter gets a gradient, nor is one computed for it."""
    optimizer.zero_grad()
    loss.backward(inputs=parameters)  # type: ignore[no-untyped-call]
    optimizer.step()


def _noisy(x: Tensor, generator: torch.Generator) -> Tensor:
    return x + NOISE * torch.randn(x.shape, generator=generator).to(x.device)


def _is_known(labels: Tensor) -> Tensor:
    return ~labels.isnan() if labels.is_floating_point() else labels != NO_LABEL


def _cosine(progress: float) -> float:
    """Return 1 at the beginning, 0 at the end, flat at both."""
    return 0.5 * (1 + math.cos(math.pi * progress))
