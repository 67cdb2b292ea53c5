"""PaDPaF's linear GAN: a line for every client, drawn by a shared and a local part.

Almansoori, Horváth, Takáč: *PaDPaF: Partial Disentanglement with Partially-Federated GANs*, TMLR
2024, section 5 and appendices B and C.1, *Linear Regression* (Figs. 3 and 9).

A sample is a point (x, y). **Shared:** the direction of the line, the content discriminator, and
with ``form=additive`` a part of the offset. **Local:** where a client's line lies, the style
discriminator, and with ``form=additive`` a direction. **Explains:** the shared direction is the
trend inside clients, the local offset is how far a client lies from the others.

==============================  ==============================================
paper                           code
==============================  ==============================================
w, w^c, b^c                     ``LinearGAN.weight``, ``.offset``
b_i, b_i^s, w_i^s               ``LinearGAN.style_offset``, ``.style_weight``
D^c, D^s                        ``LinearGAN.content``, ``.style``
x = w z^c + b_i                 ``form=offset``
x = w^c z^c + w_i^s z^s + b^c   ``form=additive``
+ b_i^s
p(y | x, i)                     :func:`line_of`
p(x | i)                        :meth:`LinearGAN.log_density`
i' = argmax p(x | i)            :func:`most_confident`
E p(y | x, i)                   :func:`weighted`
==============================  ==============================================

What a generator draws is normal, so its regression of y on x is known exactly (:func:`line_of`):
that is what a client predicts with. No label of a sample is used to predict it.

*Members* use the shared direction with their own offset. *Newcomers* learn their local part from
labelled samples (few-shot), beside the fixed shared one.

*Deviations.* The paper has no step sizes, passes, T_D and λ; passes and λ are those of its authors'
code, whose SGD at 0.1 with T_D = 3 moves points further than clients are wide. Eq. (9) becomes the
hinge loss, as in :mod:`~duotone.methods.padpaf.adversarial`. With ``centred`` a local offset starts
at the mean of a client's points, and the content discriminator sees points around that offset. As
published it sees where a client lies as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm

from duotone.errors import ConfigError
from duotone.federation.local_training import make_optimizer, run_epochs
from duotone.federation.method import Method
from duotone.federation.settings import MethodSettings
from duotone.methods.padpaf.adversarial import discriminator_loss, generator_loss
from duotone.methods.padpaf.twins import chained, contrast_term
from duotone.types import (
    ClientData,
    ClientState,
    ClientUpdate,
    DataInfo,
    Draws,
    Latents,
    RoundInfo,
    ServerState,
)

_LEAST = 1e-3
"""Smallest spread of x that a line is read off; below it the prediction is a constant."""


class LinearGANConfig(MethodSettings):
    """Settings of the linear GAN."""

    form: Literal["offset", "additive"] = "additive"
    """What is local: the offset alone, or a direction and an offset beside shared ones."""
    centred: bool = True
    """Whether content is judged around a client's offset, or where it is, as published."""
    contrast: float = Field(0.5, ge=0)
    """Weight λ of the latent-contrastive term; 0 turns it off."""
    turns: int = Field(1, ge=1)
    """T_D: steps of the discriminators for each of the generator; 3 in the authors' code."""
    content_width: int = Field(16, ge=1, le=65_536)
    """Hidden units of the content discriminator."""
    style_width: int = Field(2, ge=1, le=65_536)
    """Hidden units of the style discriminator."""
    batch_size: int = Field(10, ge=1)
    """Samples per local step."""
    optimizer: Literal["sgd", "adam"] = "adam"
    """Local optimiser; it starts afresh in every round."""
    lr: float = Field(0.005, gt=0)
    """Learning rate of the generator in the first round; that of the discriminators is twice it."""
    lr_decay: float = Field(0.96, gt=0, le=1)
    """Factor on the learning rate every `lr_decay_every` rounds; 1 keeps it constant."""
    lr_decay_every: int = Field(1, ge=1)
    """Rounds between two decays of the learning rate."""


# -- what a line predicts, and who is asked


def line_of(x: Tensor, mean: Tensor, covariance: Tensor) -> Tensor:
    """Return E[y | x] of a normal distribution of points: the line that a generator draws.

    Args:
        x: Where to predict, ``(samples, 1)``.
        mean: Of the points, ``(2,)``.
        covariance: Of the points, ``(2, 2)``.
    """
    slope = covariance[0, 1] / covariance[0, 0].clamp(min=_LEAST**2)
    return mean[1] + slope * (x - mean[0])


def most_confident(confidence: Tensor, predictions: Tensor) -> Tensor:
    """Return for each sample what the client predicts that is surest of it.

    Args:
        confidence: By client and sample, larger is surer.
        predictions: By client and sample.
    """
    surest = confidence.argmax(dim=0, keepdim=True)
    return predictions.gather(0, surest).squeeze(0)


def weighted(confidence: Tensor, predictions: Tensor) -> Tensor:
    """Return the mean of all clients' predictions, weighted by the softmax of how sure they are.

    A client's confidence is the logarithm of its weight, up to a constant.
    """
    return (confidence.softmax(dim=0) * predictions).sum(dim=0)


# -- the network


class PointJudge(nn.Module):
    """A discriminator of points with one hidden layer.

    Args:
        width: Hidden units, which are the features.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = spectral_norm(nn.Linear(2, width))
        self.score = spectral_norm(nn.Linear(width, 1))
        self.projector = nn.Linear(width, width)

    def forward(self, points: Tensor) -> Tensor:
        """Return the features of points."""
        features: Tensor = self.layer(points).relu()
        return features

    def judge(self, features: Tensor) -> Tensor:
        """Return how real points with these features look."""
        score: Tensor = self.score(features).squeeze(1)
        return score


class LinearGAN(nn.Module):
    """A generator that is linear in its latents, and two discriminators of points.

    Args:
        additive: Whether there is a shared offset and a local direction as well.
        content: Hidden units of the content discriminator.
        style: Hidden units of the style discriminator.
    """

    def __init__(self, additive: bool, content: int, style: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2) / 2)
        self.offset = nn.Parameter(torch.zeros(2), requires_grad=additive)
        self.style_weight = nn.Parameter(torch.zeros(2), requires_grad=additive)
        self.style_offset = nn.Parameter(torch.zeros(2))
        if additive:
            nn.init.normal_(self.style_weight, std=0.1)
        self.content = PointJudge(content)
        self.style = PointJudge(style)

    def draw(self, draws: Draws) -> Tensor:
        """Return the points of some latents."""
        points: Tensor = (
            self.weight * draws.content
            + self.style_weight * draws.style
            + self.offset
            + self.style_offset
        )
        return points

    def seen(self, points: Tensor, centred: bool) -> Tensor:
        """Return points as the content discriminator sees them."""
        return points - self.style_offset.detach() if centred else points

    def moments(self) -> tuple[Tensor, Tensor]:
        """Return mean and covariance of what is drawn."""
        covariance = torch.outer(self.weight, self.weight)
        covariance = covariance + torch.outer(self.style_weight, self.style_weight)
        return self.offset + self.style_offset, covariance

    def forward(self, x: Tensor) -> Tensor:
        """Return the y that goes with some x on this client's line."""
        return line_of(x, *self.moments())

    def log_density(self, x: Tensor) -> Tensor:
        """Return log p(x | i), by what the generator draws."""
        mean, covariance = self.moments()
        std = covariance[0, 0].clamp(min=_LEAST**2).sqrt()
        distance = (x.squeeze(1) - mean[0]) / std
        return -0.5 * distance.square() - std.log() - 0.5 * math.log(2 * math.pi)

    def confidence(self, x: Tensor) -> Tensor:
        """Return the score of the style discriminator for x with the y predicted for it."""
        return self.style.judge(self.style(torch.cat([x, self(x)], dim=1)))


# -- the method


class LinearPaDPaF(Method):
    """Average what says how points lie inside a client; keep what says where the client lies."""

    name = "padpaf-linear"
    title = "a GAN of points on lines: the trend is common, the place is not"
    paper = "Almansoori et al., PaDPaF, TMLR 2024 (its linear form)"
    Config = LinearGANConfig
    config: LinearGANConfig
    own_model = "linear-gan"
    rounds = 60
    newcomer_rules = ("few-shot",)

    def build(self, data: DataInfo) -> LinearGAN:
        """Build the generator and both discriminators."""
        if data.task != "regression" or data.shape != (1,) or data.outputs != 1:
            raise ConfigError(
                f"padpaf-linear draws points (x, y), but samples have the shape {data.shape} and "
                f"{data.task} as labels; use data with one feature and one number as label."
            )
        config = self.config
        return LinearGAN(config.form == "additive", config.content_width, config.style_width)

    def is_shared(self, name: str, owner: nn.Module) -> bool:
        """Share all but what is named after style."""
        return super().is_shared(name, owner) and not name.startswith("style")

    def encode(self, model: nn.Module, x: Tensor) -> Latents:
        """Return nothing: without its y a point has no place."""
        nothing = torch.empty(len(x), 0)
        return Latents(nothing, nothing)

    def client_update(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> tuple[ClientUpdate, ClientState]:
        """Let generator and discriminators play for some epochs."""
        model = self.load(self.personal(server, client), info.data)
        assert isinstance(model, LinearGAN)
        if "started" not in client.extra:
            self._start(model, data)
        loss = self._play(model, data, info, [*model.parameters()])
        return self.trained(model, data, loss, kept={"started": torch.tensor(info.round)})

    def join(self, server: ServerState, data: ClientData, info: RoundInfo) -> ClientState:
        """Fit a newcomer's local part beside the fixed shared one, as long as members have."""
        model = self.load(self.personal(server, self.first_state(server, info)), info.data)
        assert isinstance(model, LinearGAN)
        self._start(model, data)
        own = self.parameters_of(model, "local")
        for _ in range(info.rounds):
            self._play(model, data, info, own)
        return ClientState(self.split(model)[1])

    @torch.no_grad()
    def _start(self, model: LinearGAN, data: ClientData) -> None:
        if self.config.centred:
            model.style_offset.copy_(points_of(data.x, data.labels).mean(dim=0) - model.offset)

    def _play(
        self,
        model: LinearGAN,
        data: ClientData,
        info: RoundInfo,
        trained: Sequence[nn.Parameter],
    ) -> float:
        """Step discriminators and generator in turn; return the former's mean loss."""
        config = self.config
        generator = info.generator("client", data.client, "draws")
        lr = config.lr_at(info.round)
        judges = {id(p) for net in (model.content, model.style) for p in net.parameters()}
        may_change = [p for p in trained if p.requires_grad]
        critic = make_optimizer([p for p in may_change if id(p) in judges], config, 2 * lr)
        artist = make_optimizer([p for p in may_change if id(p) not in judges], config, lr)
        turn = 0

        def step(x: Tensor, y: Tensor) -> Tensor:
            nonlocal turn
            loss = judging_loss(model, points_of(x, y), generator, config)
            critic.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            critic.step()
            turn += 1
            if turn % config.turns == 0:
                drawn = drawing_loss(model, len(x), generator, config)
                artist.zero_grad()
                drawn.backward()  # type: ignore[no-untyped-call]
                artist.step()
            return loss

        model.train()
        return run_epochs(step, data, config, info)


def points_of(x: Tensor, y: Tensor) -> Tensor:
    """Return samples and their labels as points."""
    return torch.cat([x, y[:, None]], dim=1)


def judging_loss(
    model: LinearGAN, real: Tensor, generator: torch.Generator, config: LinearGANConfig
) -> Tensor:
    """Return what the discriminators minimise; the generator learns nothing from it. Eq. (15)."""
    draws = chained(_latents(max(2, (len(real) + 1) // 2), generator))
    with torch.no_grad():
        drawn = model.draw(draws)
    seen = torch.cat([real, drawn])
    content, style = model.content(model.seen(seen, config.centred)), model.style(seen)
    loss = torch.zeros(())
    for score in (model.content.judge(content), model.style.judge(style)):
        loss = loss + discriminator_loss(score[: len(real)], score[len(real) :])
    if config.contrast:
        term = contrast_term(
            model.content.projector(content[len(real) :]), model.style.projector(style[len(real) :])
        )
        loss = loss + config.contrast * term
    return loss


def drawing_loss(
    model: LinearGAN, count: int, generator: torch.Generator, config: LinearGANConfig
) -> Tensor:
    """Return what the generator minimises. Eq. (9)."""
    drawn = model.draw(_latents(count, generator))
    content = model.content(model.seen(drawn, config.centred))
    by_content, by_style = model.content.judge(content), model.style.judge(model.style(drawn))
    return generator_loss(by_content) + generator_loss(by_style)


def _latents(count: int, generator: torch.Generator) -> Draws:
    content, style = torch.randn(2, count, 1, generator=generator)
    return Draws(content, style)
