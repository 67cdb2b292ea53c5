"""PaDPaF: a GAN with shared content and local style.

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
L_BT, λ_BT        ``padpaf/twins.py``: ``barlow_twins``, ``REDUNDANCY``
Γ, λ              ``contrast_term``, ``contrast``
T_D               ``turns``
Eq. (9)           ``padpaf/adversarial.py``
================  ==========================================

*Generative.* Nothing here is trained to classify. Labels train a linear head on content features
and do not change these; its accuracy is what tables show. With ``conditional`` labels reach
generator and content discriminator as well, so that pictures of a class can be asked for.

*Members* use the server's generator and content discriminator with their own style. *Newcomers*
get the shared part at once (zero-shot), and a lens from their images (label-free). Without a fitted
lens, or if asked to, they train their local part beside the fixed shared one. Then only their style
discriminator judges, and the tones of their lens may bend.

*Buffers.* The vectors of spectral normalisation are always local. The statistics that scale content
features for the head are shared like the head, and a client that is served takes those of its own
images. The generator keeps none: it normalises by a batch in training, by fixed latents afterwards.

*Variants.* ``paper``: style modulates every normalisation of the generator, T_D = 3 with twice the
learning rate for discriminators, the term of Eq. (14) for content and style. Repairs: Eq. (9) has
log-losses of scores that are no probabilities, and the hinge loss of the authors' code is meant;
λ_BT is not stated, 0.005 is that code's. ``duotone`` keeps the two discriminators, the split and
the losses, and changes what style can do. Modulated features cannot turn, resize or invert a
picture, so in the paper's network content must do it, and the same z^c is a different digit at
every client. Here content alone makes a canvas; style only touches strokes and sets a *lens*: two
tones, a frame, a focus. A client's lens starts from its images
(:func:`~duotone.methods.padpaf.lens.lens_of`), and T_D is 1. The lens can be taken off real images
too: content features and the head get what is left, and another client's lens on top is a restyled
image (:meth:`PaDPaF.show`). Algorithm 2 serves where no stroke of an image may be left, and where
there is no lens: a network learns from the source's own pictures to find content latents.

*Deviations*: plain networks are a few times smaller than the paper's ResNets, and have a linear
layer on all features instead of their mean, without which digits take longer; ``variant=paper`` of
a run starts from residual blocks and the other printed settings (:mod:`duotone.methods.printed`).
In both variants the label's vector goes into the content latent and by a linear map into every
normalisation, because a table per label is not learnt in hundreds of steps, and Adam starts afresh
in every round. Algorithm 2 with both of its maps is in :mod:`~duotone.methods.padpaf.transfer`.
docs/reproduction.md says how far runs came: ``paper`` had 8 of 300 rounds on plain networks.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from duotone.errors import ConfigError
from duotone.federation.local_training import refresh_statistics
from duotone.federation.method import Part
from duotone.federation.params import stored
from duotone.federation.settings import MethodSettings
from duotone.methods.padpaf.adversarial import GANMethod, GANSettings
from duotone.methods.padpaf.generator import STYLE
from duotone.methods.padpaf.latent_finder import found_latents
from duotone.methods.padpaf.lens import Lens
from duotone.methods.padpaf.style_gan import ContentStyleGAN
from duotone.types import (
    ClientData,
    ClientState,
    ClientUpdate,
    Draws,
    NewcomerRule,
    RoundInfo,
    ServerState,
)

SCALED_BY = 500
"""Images by which a client scales the features that the head is given."""


class PaDPaFConfig(GANSettings):
    """Settings of PaDPaF."""

    share: Literal["partial", "all", "none"] = "partial"
    """What leaves a client: the content, everything (one GAN for all), or nothing (a GAN each)."""
    norms: Literal["shared", "local"] = "shared"
    """Where the maps from style to normalisation layers are: the authors' code shares them."""
    newcomer_epochs: int | None = Field(None, ge=0)
    """Passes in which a newcomer trains its local part; by default 0 if a lens is fitted, or 3."""


# -- the method


class PaDPaF(GANMethod):
    """Average what draws and judges content; keep what gives it a style."""

    name = "padpaf"
    title = "a GAN that draws everybody's content in each client's own style"
    paper = "Almansoori et al., Partial Disentanglement with Partially-Federated GANs, TMLR 2024"
    Config = PaDPaFConfig
    config: PaDPaFConfig
    rounds = 16
    newcomer_rules = ("label-free", "zero-shot")

    def is_shared(self, name: str, owner: nn.Module) -> bool:
        """Share content; spectral normalisation's vectors stay even where everything is shared."""
        if self.config.share == "none" or not super().is_shared(name, owner):
            return False
        if self.config.share == "all":
            return True
        is_own_norm = self.config.norms == "local" and ".by_style." in name
        return not (name.startswith(STYLE) or is_own_norm)

    def has_common_axes(self, part: Part) -> bool:
        """True for shared content: the local lens only preprocesses the discriminator's input."""
        return part == "shared" and self.config.share == "partial"

    @classmethod
    def rules(cls, config: MethodSettings) -> tuple[NewcomerRule, ...]:
        """A head of one's own needs labels; everything else is learnt from images alone."""
        assert isinstance(config, PaDPaFConfig)
        return ("few-shot",) if config.share == "none" else cls.newcomer_rules

    def client_update(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> tuple[ClientUpdate, ClientState]:
        """Let generator and discriminators play for some epochs."""
        model = self.load(self.personal(server, client), info.data)
        if "started" not in client.extra:
            self._fit_lens(model, data.x)
        loss = self._play(model, data, info)
        return self.trained(model, data, loss, kept={"started": torch.tensor(info.round)})

    def before_use(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> ClientState:
        """Scale the features that the head is given."""
        return self._scaled(self.load(self.personal(server, client), info.data), data, client)

    def join(self, server: ServerState, data: ClientData, info: RoundInfo) -> ClientState:
        """Learn a newcomer's style from its images; scale the features that the head is given."""
        state = self.first_state(server, info)
        model = self.load(self.personal(server, state), info.data)
        own = {id(p) for p in self.parameters_of(model, "local")}
        if own:
            self._fit_lens(model, data.x)
            self._learn_style(model, data, info, own)
        return self._scaled(model, data, state)

    def _scaled(self, model: ContentStyleGAN, data: ClientData, state: ClientState) -> ClientState:
        # Statistics from training are those of other weights: every client's, before the average.
        refresh_statistics(model, data.x[:SCALED_BY])
        scale = {name: stored(t) for name, t in model.state_dict().items() if "scale." in name}
        return ClientState({**self.split(model)[1], **scale}, state.extra)

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
        """Return any client's canvas as a client's lens shows it.

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
    def take_off(
        self, model: nn.Module, x: Tensor, generator: torch.Generator, *, redrawn: bool
    ) -> Tensor:
        """Return a client's images without its lens, or else content latents of images like them.

        The latents are found by a network that learns from what this client draws (Algorithm 2).
        In a conditional GAN they are followed by the label that the head reads.
        """
        assert isinstance(model, ContentStyleGAN)
        if model.generator.lens is not None and not redrawn:
            return self.canvas(model, x)

        def show(count: int) -> tuple[Tensor, Tensor]:
            draws = self.draw(model, count, generator)
            label = None
            if self.config.conditional:
                label = torch.randint(model.head.out_features, (count,), generator=generator)
            drawn = self.generate(model, draws, label)
            return model.content_features(drawn), draws.content

        content = found_latents(show, model.content_features(x), generator)
        if not self.config.conditional:
            return content
        return torch.cat([content, model(x).argmax(dim=1, keepdim=True)], dim=1)

    @torch.no_grad()
    def put_on(self, model: nn.Module, content: Tensor, generator: torch.Generator) -> Tensor:
        """Return content as this client would draw it, each in another of its styles."""
        assert isinstance(model, ContentStyleGAN)
        style = self.draw(model, len(content), generator).style
        if content.ndim > 2:  # a canvas
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

    def _learn_style(
        self, model: ContentStyleGAN, data: ClientData, info: RoundInfo, own: set[int]
    ) -> None:
        """Train a newcomer's own parameters; an epoch is to it what a round is to a member."""
        lens, epochs = model.generator.lens, self._newcomer_epochs(model)
        bends = self.config.share == "partial"  # else its canvas learns as well
        with nullcontext() if lens is None or not bends else lens.bending():
            for epoch in range(1, epochs + 1):
                turn = replace(info, round=epoch, rounds=epochs)
                self._play(model, data, turn, trained=own, epochs=1, phase="newcomer")

    def _newcomer_epochs(self, model: ContentStyleGAN) -> int:
        """Return how long a newcomer trains; after a few epochs a fitted lens alone was better."""
        if self.config.newcomer_epochs is not None:
            return self.config.newcomer_epochs
        has_lens = model.generator.lens is not None and self.config.lens == "fitted"
        return 0 if has_lens and self.config.share == "partial" else 3

    def _fit_lens(self, model: ContentStyleGAN, x: Tensor) -> None:
        """Start a client's lens from its images, unless the lens is shared."""
        if self.config.share != "all":
            super()._fit_lens(model, x)
