"""The players of PaDPaF's GAN: which parameters each of them trains, and how fast."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from duotone.federation.optimizers import Adam, Group
from duotone.methods.padpaf.style_gan import ContentStyleGAN

BETAS = (0.5, 0.9)
"""Decay of Adam's moments, as in the paper."""
FRAME_LR, TONES_LR = 8, 20
"""How much faster a lens learns, its frame and the rest, where it alone has to fit the content."""
HEAD_LR = 20
"""How much faster the head learns than the generator: the features it reads do not stand still."""


class Players:
    """The generator's and the discriminators' optimiser, with the parameters of each.

    Args:
        model: A client's GAN.
        trained: Identities of the parameters that may change; all if not given.
        lr: Learning rate of the generator; that of the discriminators is twice it.
    """

    def __init__(self, model: ContentStyleGAN, trained: set[int] | None, lr: float) -> None:
        self.drawing = _chosen([model.generator, model.vectorizer], trained)
        self.judging = _chosen([model.content, model.style], trained)
        self.reading = _chosen([model.head], trained)
        self.is_content_fixed = trained is not None and not _chosen([model.content], trained)
        self.artist = Adam(
            _by_speed(model, self.drawing, lr) if self.is_content_fixed else [(self.drawing, lr)],
            BETAS,
        )
        self.critic = Adam([(self.judging, 2 * lr), (self.reading, HEAD_LR * lr)], BETAS)


def _chosen(modules: Sequence[nn.Module], trained: set[int] | None) -> list[nn.Parameter]:
    """Return those parameters of some modules that may change."""
    every = [p for module in modules for p in module.parameters() if p.requires_grad]
    return [p for p in every if trained is None or id(p) in trained]


def _by_speed(model: ContentStyleGAN, parameters: Sequence[nn.Parameter], lr: float) -> list[Group]:
    """Group parameters for an optimiser: those of a lens learn faster."""
    speed: dict[int, int] = {}
    if model.generator.lens is not None:
        for name, parameter in model.generator.lens.named_parameters():
            speed[id(parameter)] = FRAME_LR if name.startswith("frame") else TONES_LR
    return [([p], lr * speed.get(id(p), 1)) for p in parameters]
