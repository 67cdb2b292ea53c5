"""PaDPaF's VAE: a shared code of content, and a local code of style.

Abdulla Jasem Almansoori, Samuel Horváth, Martin Takáč: *PaDPaF: Partial Disentanglement with
Partially-Federated GANs*, TMLR 2024, appendix C.2.4.

**Shared:** the content encoder, the generator as decoder, and a linear head on content codes.
**Local:** the style encoder, what turns a style latent into a style vector, and the lens that the
vector sets. **Explains:** what is in an image and how this client shows it, as two codes; decoding
the content of one client with the style of another swaps just that; both can be drawn anew.

================  ==========================================
paper             code
================  ==========================================
θ_fed, θ_pvt      ``ServerState.shared``, ``ClientState.local``
p_θD(z|x)         ``ContentStyleVAE.content``, ``.style``: ``Latents.shared``, ``.local``
p_θG(x|z)         ``ContentStyleVAE.generator``, ``.vectorizer``; :func:`reconstruction`
z^c, z^s          ``Draws.content``, ``Draws.style``
D_KL, β           :func:`divergence`, ``beta``
Γ, λ              ``padpaf/twins.py``: ``contrast_term``, ``contrast``
================  ==========================================

*Unsupervised.* Labels train a linear head on the means of content codes and do not change these;
its accuracy is what tables show. Samples without a label still count as images.

*Members* use the server's content encoder and generator with their own style. *Newcomers* get the
shared part at once (zero-shot); from their images they fit a lens and train the local part beside
the fixed shared one (label-free). There are no buffers.

*Deviations.* The paper has Eq. (16) and a sheet of samples; the rest is from the authors' code:
pixels are compared by their squared error, both divergences have the weight β w with w = content
dimensions over pixels, and the contrastive term is on means and log-variances that the encoders
give to drawn pictures. In that code the style latent that reconstructs is noise (``style =
"drawn"``), so the style encoder never learns what helps to reconstruct; here it comes from the
encoder (``"inferred"``), as Eq. (16) says. No encoder has spectral normalisation; in that code the
style encoder has it. The style vectorizer uses a latent's length, because a mean is shorter than a
draw around it. As in ``padpaf`` there is a lens, which is fitted to a client's images and taken off
before content is encoded (``lens = "none"`` is the paper's generator), networks are smaller, Adam
starts afresh in every round, and the server averages. The longest run had 16 rounds, the paper's
100.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from duotone.federation.local_training import cosine_decay, is_labelled, labels_of, task_loss, train
from duotone.federation.method import Method, Part
from duotone.federation.settings import GenerativeSettings
from duotone.methods.padpaf.generator import STYLE
from duotone.methods.padpaf.style_vae import ContentStyleVAE
from duotone.methods.padpaf.twins import chained, contrast_term
from duotone.networks.gaussian import Gaussian, kl_to_standard
from duotone.types import (
    ClientData,
    ClientState,
    ClientUpdate,
    DataInfo,
    Draws,
    Latents,
    Params,
    RoundInfo,
    ServerState,
)


class PaDPaFVAEConfig(GenerativeSettings):
    """Settings of PaDPaF's VAE."""

    variant: Literal["duotone", "paper"] = "duotone"
    """With a lens and settings of its own, or the paper's generator with the printed settings."""
    style: Literal["inferred", "drawn"] = "inferred"
    """Where the style that reconstructs comes from: its encoder, or noise (the authors' code)."""
    lens: Literal["fitted", "none"] = "fitted"
    """Whether a client has a lens, which starts from its images (duotone only)."""
    beta: float = Field(0.002, ge=0)
    """Weight β of the divergences, beside squared errors; 0 makes an autoencoder."""
    contrast: float = Field(0.0001, ge=0)
    """Weight λ of the latent-contrastive term; 0 turns it off."""
    content_dim: int = Field(32, ge=1, le=65_536)
    """Dimensions of the content latent."""
    style_dim: int = Field(8, ge=1, le=65_536)
    """Dimensions of the style latent."""
    newcomer_epochs: int = Field(3, ge=0)
    """Passes over its images in which a newcomer trains its local part."""
    lr: float = Field(2e-3, gt=0)
    """Local learning rate in the first round."""
    lr_end: float = Field(0.1, ge=0, le=1)
    """Share of the learning rate that is left in the last round; it falls along a cosine."""


# -- terms


def reconstruction(drawn: Tensor, x: Tensor) -> Tensor:
    """Return −log p(x|z) up to scale and constant: the mean squared error of a pixel. Eq. (16)."""
    return functional.mse_loss(drawn, x)


def divergence(content: Gaussian, style: Gaussian, pixels: int) -> Tensor:
    """Return w (KL_c + KL_s), each the mean over samples, with w = content dimensions / pixels.

    Args:
        content: Posteriors of content latents.
        style: Posteriors of style latents.
        pixels: Numbers in an image, all channels counted.
    """
    kl = kl_to_standard(content).mean() + kl_to_standard(style).mean()
    return content.mean.shape[1] / pixels * kl


# -- the method


class PaDPaFVAE(Method):
    """Average what encodes and draws content; keep what encodes and gives a style."""

    name = "padpaf-vae"
    title = "a VAE with a code of everybody's content and one of each client's own style"
    paper = "Almansoori et al., Partial Disentanglement with Partially-Federated GANs, TMLR 2024"
    Config = PaDPaFVAEConfig
    config: PaDPaFVAEConfig
    told = ("train_loss", "kl_shared", "kl_local")
    rounds = 16
    own_model = "style-vae"
    uses_unlabelled = True
    newcomer_rules = ("label-free", "zero-shot")
    draws_labels = False

    def build(self, data: DataInfo) -> ContentStyleVAE:
        """Build encoders, generator and head."""
        config = self.config
        has_lens = config.variant == "duotone" and config.lens != "none"
        design: Literal["lens", "plain"] = "lens" if has_lens else "plain"
        return ContentStyleVAE(data, config.content_dim, config.style_dim, design)

    def is_shared(self, name: str, owner: nn.Module) -> bool:
        """Share content."""
        return super().is_shared(name, owner) and not name.startswith(STYLE)

    def has_common_axes(self, part: Part) -> bool:
        """True for content: the local lens only preprocesses the shared encoder's input."""
        return part == "shared"

    def client_update(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> tuple[ClientUpdate, ClientState]:
        """Minimise Eq. (16) and the contrastive term over everything."""
        model = self.load(self.personal(server, client), info.data)
        if "started" not in client.extra:
            model.fit_lens(data.x)
        loss = self._fit(model, data, info)
        kept = {"started": torch.tensor(info.round)}
        return self.trained(model, data, loss, kept=kept, metrics=_watched(model, data.x[:256]))

    def join(self, server: ServerState, data: ClientData, info: RoundInfo) -> ClientState:
        """Learn a newcomer's style from its images."""
        model = self.load(self.personal(server, self.first_state(server, info)), info.data)
        model.fit_lens(data.x)
        first = replace(info, round=1)  # with the learning rate of a beginner
        self._fit(model, data, first, is_newcomer=True)
        return ClientState(self.split(model)[1])

    def encode(self, model: nn.Module, x: Tensor) -> Latents:
        """Return the means of both codes, with their standard deviations."""
        assert isinstance(model, ContentStyleVAE)
        content, style = model.encode(x)
        return Latents(content.mean, style.mean, content.std, style.std)

    def decode(self, model: nn.Module, latents: Latents) -> Tensor:
        """Return the images that two codes stand for, drawn by this client."""
        assert isinstance(model, ContentStyleVAE)
        return model.sample(latents.shared, latents.local).clamp(0, 1)

    def draw(self, model: nn.Module, count: int, generator: torch.Generator) -> Draws:
        """Draw latents from their priors."""
        assert isinstance(model, ContentStyleVAE)
        return model.prior(count, generator)

    @torch.no_grad()
    def generate(self, model: nn.Module, draws: Draws, label: Tensor | None = None) -> Tensor:
        """Return the pictures of some latents, as this client draws them, always without labels."""
        if label is not None:
            raise ValueError(
                "padpaf-vae draws without labels, but labels were given; leave them out"
            )
        return self.decode(model, Latents(draws.content, draws.style))

    def load(self, params: Params, data: DataInfo) -> ContentStyleVAE:
        """Put parameters into this process's network and return it."""
        model = super().load(params, data)
        assert isinstance(model, ContentStyleVAE)
        return model

    def _fit(
        self,
        model: ContentStyleVAE,
        data: ClientData,
        info: RoundInfo,
        *,
        is_newcomer: bool = False,
    ) -> float:
        """Train a member's whole model or a newcomer's local part; return the mean loss."""
        config = self.config
        phase = "newcomer" if is_newcomer else "train"
        generator = info.generator("client", data.client, f"{phase}-draws")
        settings = config.model_copy(update={"lr": config.lr * cosine_decay(info, config.lr_end)})

        def loss(_: nn.Module, x: Tensor, y: Tensor) -> Tensor:
            value = self._loss(model, x, y)
            if config.contrast:
                value = value + config.contrast * self._contrast(model, len(x), generator)
            return value

        return train(
            model,
            replace(data, y=labels_of(data)),
            settings,
            info,
            loss=loss,
            parameters=self.parameters_of(model, "local") if is_newcomer else None,
            epochs=config.newcomer_epochs if is_newcomer else None,
            phase=phase,
        )

    def _loss(self, model: ContentStyleVAE, x: Tensor, y: Tensor) -> Tensor:
        """Return Eq. (16) of a batch, plus the loss of the head."""
        content, style = model.encode(x)
        is_drawn = self.config.style == "drawn"
        z = torch.randn_like(style.mean) if is_drawn else style.sample()
        value = reconstruction(model.draw(content.sample(), z), x)
        value = value + self.config.beta * divergence(content, style, x[0].numel())
        known = is_labelled(y)
        if bool(known.any()):  # labels read content and do not make it
            value = value + task_loss(model.head, content.mean.detach()[known], y[known])
        return value

    def _contrast(self, model: ContentStyleVAE, count: int, generator: torch.Generator) -> Tensor:
        """Return Γ of drawn pictures, without training what draws them: Eq. (14)."""
        draws = chained(self.draw(model, max(2, math.ceil(count / 2)), generator))
        with torch.no_grad():
            drawn = model.draw(draws.content, draws.style)
        content, style = model.encode(drawn)
        return contrast_term(model.content.projected(content), model.style.projected(style))


@torch.no_grad()
def _watched(model: ContentStyleVAE, x: Tensor) -> dict[str, float]:
    """Return how many nats each code carries; a code with none is unused."""
    model.eval()
    content, style = model.encode(x)
    return {
        "kl_shared": float(kl_to_standard(content).mean()),
        "kl_local": float(kl_to_standard(style).mean()),
    }
