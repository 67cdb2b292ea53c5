"""Settings that methods have in common."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from duotone.config import Settings
from duotone.federation.robust import Rule


class MethodSettings(Settings):
    """Settings every method has; a method's own come on top."""

    optimizer: Literal["sgd", "adam"] = "sgd"
    """Local optimiser; it starts afresh in every round."""
    lr: float = Field(0.1, gt=0)
    """Local learning rate in the first round."""
    lr_decay: float = Field(0.8, gt=0, le=1)
    """Factor on the learning rate every `lr_decay_every` rounds; 1 keeps it constant."""
    lr_decay_every: int = Field(10, ge=1)
    """Rounds between two decays of the learning rate."""
    momentum: float = Field(0.0, ge=0, lt=1)
    """Momentum of local SGD."""
    weight_decay: float = Field(0.0, ge=0)
    """L2 penalty of the local optimiser."""
    batch_size: int = Field(32, ge=1)
    """Samples per local step."""
    epochs: int = Field(2, ge=1)
    """Passes over a client's training samples in a round."""
    server_optimizer: Literal["average", "adam"] = "average"
    """What the server does with the mean of the updates: take it, or step towards it by Adam."""
    server_lr: float = Field(0.01, gt=0)
    """Learning rate of the server's Adam."""
    aggregate: Rule = "mean"
    """How updates become one: the weighted mean, or a rule that bears hostile clients."""
    hostile: float = Field(0.2, ge=0, lt=0.5)
    """Share of hostile clients that a robust rule assumes; the mean bears none."""
    head: str | None = None
    """Name of the model's last layer, whose input counts as the features; found if not given."""

    def lr_at(self, round: int) -> float:
        """Return the local learning rate of a round (rounds count from 1)."""
        return self.lr * self.lr_decay ** (max(round - 1, 0) // self.lr_decay_every)


class GenerativeSettings(MethodSettings):
    """Settings of methods that learn to draw samples: Adam, and one pass in a round."""

    optimizer: Literal["sgd", "adam"] = "adam"
    """Local optimiser; it starts afresh in every round."""
    lr_decay: float = Field(1.0, gt=0, le=1)
    """Factor on the learning rate every `lr_decay_every` rounds; 1 keeps it constant."""
    epochs: int = Field(1, ge=1)
    """Passes over a client's training samples in a round."""
