"""Content–style FL: classify what an image shows, whatever the style it shows it in.

Le Peng, Gaoxiang Luo, Andrew Walker: *Feature Disentanglement for Covariate Shift Adaptation in
Federated Learning*; the networks are those of MUNIT (Huang et al. 2018), made smaller.

**Shared:** the content encoder, the classifier, which is given content alone, and the decoder.
**Local:** the style encoder, and in ``duotone`` what makes a picture of its codes: the map to the
decoder's AdaIN layers, and the decoder's last layer. **Explains:** what an image would look like
from another client, and that a prediction rests on content alone.

=====================  ==============================================================
paper                  code
=====================  ==============================================================
content encoder        ``ContentStyle.content``: InstanceNorm, no parameters in it
style encoder          ``ContentStyle.style``: GroupNorm, mean over all places, a code
decoder, MLP           ``ContentStyle.decoder``, ``ContentStyle.mapping``
classifier             ``ContentStyle.hidden``, ``ContentStyle.head``
AdaIN, Eq. (1)         :func:`~duotone.methods.content_style.content_networks.adain`
L_recon, α, Eq. (2)    :func:`reconstruction`, ``alpha``
=====================  ==============================================================

*Members* use the shared networks with their own style encoder. *Newcomers* are classified at once
(zero-shot). When training is over, they fit their style to the shared decoder by reconstruction,
without labels (label-free), which changes no prediction. There are no buffers.

*Variants.* ``paper`` is Eq. (2) alone: nothing keeps style out of the content, and the paper says
so. ``duotone`` enforces the split by four things, each a setting that ``paper`` has off:

* ``restyle``: the content encoder gets half of the images in random colours and textures; the style
  encoder sees the originals, and the decoder must draw them. What random colours hide (polarity,
  which InstanceNorm leaves in the content) can only come from the style.
* ``swap``: images are drawn in the style of another image of the same client, and must still be
  classified as what they show. No style leaves a client for that. The decoder learns nothing from
  it, because it could make its own task easy.
* ``push``: the styles of these images are first moved to where the classifier errs, by a step along
  the gradient (:func:`pushed`). A client has seen few styles; its decoder can draw many more.
* ``noise``: content that is handed out as a code gets noise. InstanceNorm limits how strong content
  can be, so what it says in few places is lost. The decoder learns to draw from content with noise
  of any strength up to that; a client's own predictions and swaps have none. The noise of a code
  depends on the image: the same image always has the same code.

Besides, members keep what turns a style into a picture (the map that reads its code, the last layer
that mixes the pixels), and fit it to the averaged decoder at the end, by absolute errors as MUNIT
does: squared ones make strokes soft.

*Deviations*, where the paper is silent: widths, a style of 8 dimensions, α, one residual block,
clients count by their samples, Adam starts afresh in every round. Scales of AdaIN are 1 plus what
the map gives, and variances have an ε: with MUNIT's formula a constant image gives NaN. AdaIN also
follows the convolutions that enlarge, where MUNIT has LayerNorm. Runs have 20 epochs, the paper's
up to 300. Settings were selected on the test images that results are reported on.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import replace
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from duotone.data.colours import half_changed, random_levels, random_textures
from duotone.federation.local_training import task_loss, train
from duotone.federation.method import Method
from duotone.federation.settings import GenerativeSettings
from duotone.methods.content_style.content_networks import ContentStyle
from duotone.types import (
    ClientData,
    ClientState,
    ClientUpdate,
    DataInfo,
    Latents,
    Params,
    RoundInfo,
    ServerState,
)


class ContentStyleConfig(GenerativeSettings):
    """Settings of content–style FL."""

    variant: Literal["duotone", "paper"] = "duotone"
    """The split enforced by restyling, swaps and noise, or Eq. (2) alone as published."""
    alpha: float | None = Field(None, ge=0)
    """Weight of reconstruction; by default the variant's, 0 leaves the classifier alone."""
    restyle: Literal["none", "polarity", "colour", "texture"] | None = None
    """How half of the images for the content encoder are changed; by default the variant's."""
    swap: float | None = Field(None, ge=0)
    """Weight of classifying images drawn in another style; by default the variant's."""
    push: float | None = Field(None, ge=0)
    """How far such a style is pushed to where the classifier errs; by default the variant's."""
    noise: float | None = Field(None, ge=0)
    """Deviation of the noise on content that is handed out; by default the variant's."""
    palette: Literal["shared", "local"] | None = None
    """Whether what makes a picture of a style is shared, as published, or local, as in duotone."""
    style_dim: int = Field(8, ge=1, le=65_536)
    """Dimensions of the style."""
    style_epochs: int = Field(10, ge=0)
    """Passes over its images in which a client fits its style to the decoder at the end."""
    lr: float = Field(1e-3, gt=0)
    """Local learning rate in the first round."""
    lr_decay: float = Field(0.3, gt=0, le=1)
    """Factor on the learning rate every `lr_decay_every` rounds; 1 keeps it constant."""
    lr_decay_every: int = Field(14, ge=1)
    """Rounds between two decays of the learning rate."""
    batch_size: int = Field(50, ge=1)
    """Samples per local step."""


# -- terms


def reconstruction(drawn: Tensor, x: Tensor) -> Tensor:
    """Return L_recon: the mean squared error of pixels in [−1, 1], for Eq. (2)."""
    return functional.mse_loss(2 * drawn, 2 * x)


def sharp_reconstruction(drawn: Tensor, x: Tensor) -> Tensor:
    """Return the mean absolute error of pixels in [−1, 1], which leaves strokes their edges."""
    return functional.l1_loss(2 * drawn, 2 * x)


def own_noise(x: Tensor, content: Tensor) -> Tensor:
    """Draw noise of the form of some images' content; the same image always draws the same."""
    seeds = [zlib.crc32(image.numpy().tobytes()) for image in x.cpu()]
    drawn = [
        torch.randn(content.shape[1:], generator=torch.Generator().manual_seed(seed))
        for seed in seeds
    ]
    return torch.stack(drawn).to(content)


def pushed(manner: Tensor, gradient: Tensor, far: Tensor) -> Tensor:
    """Move each sample's manner to where a loss grows fastest.

    What counts as near is what is common: every number is measured in its deviation over the batch,
    and a number that is the same for all samples stays as it is.

    Args:
        manner: Scales and shifts of the decoder, ``(samples, numbers)``.
        gradient: That of the loss, of the same form; only its direction matters.
        far: By how many deviations, in the root mean square over a sample's numbers, to move each,
            ``(samples, 1)``.
    """
    deviation = manner.std(dim=0, correction=0)
    steepest = functional.normalize(gradient * deviation, dim=1) * math.sqrt(manner.shape[1])
    return manner + far * deviation * steepest


# -- the method

STYLE = ("style.",)
PALETTE = ("mapping.", "decoder.pixels.")
"""The map from a style's code to AdaIN, and the layer that mixes the pixels."""


class ContentStyleFL(Method):
    """Average what is about content; keep what is about style."""

    name = "content-style"
    title = "a shared encoder of content for predictions beside a local encoder of style"
    paper = "Peng, Luo, Walker, Feature Disentanglement for Covariate Shift Adaptation in FL, 2023"
    Config = ContentStyleConfig
    config: ContentStyleConfig
    rounds = 20
    own_model = "content-style"
    newcomer_rules = ("label-free", "zero-shot")

    def build(self, data: DataInfo) -> ContentStyle:
        """Build encoders, decoder and classifier."""
        return ContentStyle(data, self.config.style_dim)

    def is_shared(self, name: str, owner: nn.Module) -> bool:
        """Keep the style encoder, and what makes a picture of its codes unless that is shared."""
        local = STYLE if self._option("palette") == "shared" else (*STYLE, *PALETTE)
        return super().is_shared(name, owner) and not name.startswith(local)

    def client_update(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> tuple[ClientUpdate, ClientState]:
        """Train everything together by Eq. (2), with what enforces the split."""
        model = self.load(self.personal(server, client), info.data)
        loss = train(model, data, self.config, info, loss=lambda _, x, y: self._loss(model, x, y))
        return self.trained(model, data, loss)

    def before_use(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> ClientState:
        """Fit a member's style to the decoder it is given at the end; as published, keep it.

        During training a member fits its style to its own decoder, not to the average.
        """
        if self.config.variant == "paper":
            return client
        return self._with_style(server, client, data, info)

    def join(self, server: ServerState, data: ClientData, info: RoundInfo) -> ClientState:
        """Fit a newcomer's style to the decoder it is given at the end, from images alone."""
        return self._with_style(server, self.first_state(server, info), data, info)

    def _with_style(
        self, server: ServerState, state: ClientState, data: ClientData, info: RoundInfo
    ) -> ClientState:
        if info.round < info.rounds:  # no prediction depends on the style
            return state
        model = self.load(self.personal(server, state), info.data)

        def loss(_: nn.Module, x: Tensor, __: Tensor) -> Tensor:
            drawn = model.draw(self._noisy(model.content(x)), model.style(x))
            return sharp_reconstruction(drawn, x)

        train(
            model,
            replace(data, y=torch.zeros(len(data))),
            self.config,
            replace(info, round=1),  # with the learning rate of a beginner
            loss=loss,
            parameters=self.parameters_of(model, "local"),
            epochs=self.config.style_epochs,
            phase="style",
        )
        return ClientState(self.split(model)[1])

    def encode(self, model: nn.Module, x: Tensor) -> Latents:
        """Return the maps of content as one long code, with each image's noise, and the style."""
        assert isinstance(model, ContentStyle)
        content = model.content(x)
        noise = float(self._option("noise"))
        if noise:
            content = content + noise * own_noise(x, content)
        return Latents(content.flatten(1), model.style(x))

    def decode(self, model: nn.Module, latents: Latents) -> Tensor:
        """Return the images that have some content in some style of this client."""
        assert isinstance(model, ContentStyle)
        return model.draw(model.maps(latents.shared), latents.local)

    def _loss(self, model: ContentStyle, x: Tensor, y: Tensor) -> Tensor:
        """Return Eq. (2) of a batch, with the terms that enforce the split."""
        alpha, swap = float(self._option("alpha")), float(self._option("swap"))
        content = model.content(self._restyled(x))
        value = task_loss(model.classify, content, y)
        if not alpha and not swap:
            return value
        manner = model.mapping(model.style(x))
        # From a little noise up to all of it, for swaps are drawn without.
        noisy = self._noisy(content, torch.rand(len(x), 1, 1, 1).to(x))
        value = value + alpha * reconstruction(model.decoder(noisy, manner), x)
        if not swap:
            return value
        # Batches are shuffled: the next image is any other.
        drawn = self._hard_to_read(model, content.detach(), manner.detach().roll(1, 0), y)
        return value + swap * task_loss(model, drawn, y)

    def _hard_to_read(
        self, model: ContentStyle, content: Tensor, manner: Tensor, y: Tensor
    ) -> Tensor:
        """Draw content in manners that are pushed to where the classifier errs."""
        push = float(self._option("push"))
        if push:
            manner.requires_grad_()
            loss = task_loss(model, model.decoder(content, manner), y)
            (gradient,) = torch.autograd.grad(loss, manner)
            far = 2 * push * torch.rand(len(manner), 1)
            manner = pushed(manner.detach(), gradient, far.to(manner))
        with torch.no_grad():
            drawn: Tensor = model.decoder(content, manner)
        return drawn

    def _noisy(self, content: Tensor, share: Tensor | float = 1.0) -> Tensor:
        """Return content in fresh noise: as much as that of a code, or a share of it."""
        noise = float(self._option("noise"))
        return content + noise * share * torch.randn_like(content) if noise else content

    def _restyled(self, x: Tensor) -> Tensor:
        """Return images of which half are restyled: those as they are must be learnt as well."""
        samples, channels = x.shape[:2]
        restyle = self._option("restyle")
        if restyle == "none":
            return x
        if restyle == "polarity":
            black, white = torch.ones(()), torch.zeros(())
        elif restyle == "colour":
            black, white = random_levels(samples, channels)
        else:
            black, white = random_textures(x.shape)
        return half_changed(x, black, white)

    def _option(self, name: str) -> str | float:
        """Return a setting, or what the variant has where it is not given."""
        given: str | float | None = getattr(self.config, name)
        return _DEFAULTS[self.config.variant][name] if given is None else given

    def load(self, params: Params, data: DataInfo) -> ContentStyle:
        """Put parameters into this process's network and return it."""
        model = super().load(params, data)
        assert isinstance(model, ContentStyle)
        return model


_DEFAULTS: dict[str, dict[str, str | float]] = {
    "paper": {
        "alpha": 1.0,
        "restyle": "none",
        "swap": 0.0,
        "push": 0.0,
        "noise": 0.0,
        "palette": "shared",
    },
    "duotone": {
        "alpha": 10.0,
        "restyle": "texture",
        "swap": 1.0,
        "push": 1.0,
        "noise": 2.0,
        "palette": "local",
    },
}
