"""A control for content–style FL: pixels, not styles, are pushed to where the classifier errs."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from duotone.federation.local_training import task_loss
from duotone.methods.content_style.content_networks import ContentStyle
from duotone.methods.content_style.content_style import ContentStyleConfig, ContentStyleFL


class PushedPixelsConfig(ContentStyleConfig):
    """Settings of the control; those of drawing have no effect."""

    push: float = 0.05
    """How far pixels move, in the root mean square over an image and the mean over images."""
    style_epochs: int = 0
    """No style is learnt."""


class PushedPixels(ContentStyleFL):
    """Classify restyled images and, with the weight of swaps, the same with pixels pushed."""

    name = "pushed-pixels"
    title = "a control for content-style: adversarial pixels in place of adversarial styles"
    Config = PushedPixelsConfig
    config: PushedPixelsConfig

    def _loss(self, model: ContentStyle, x: Tensor, y: Tensor) -> Tensor:
        x = self._restyled(x).requires_grad_()
        (gradient,) = torch.autograd.grad(task_loss(model, x, y), x)
        x = x.detach()
        step = normalize(gradient.flatten(1), dim=1).view_as(x) * x[0].numel() ** 0.5
        far = 2 * self.config.push * torch.rand(len(x), 1, 1, 1)
        harder = (x + far * step).clamp(0, 1)
        return task_loss(model, x, y) + float(self._option("swap")) * task_loss(model, harder, y)
