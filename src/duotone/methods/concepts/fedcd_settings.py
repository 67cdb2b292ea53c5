"""The settings of FedCD."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from duotone.federation.settings import MethodSettings
from duotone.methods.concepts.aligned_layer import MOST


class FedCDConfig(MethodSettings):
    """Settings of FedCD; the page of the method says more."""

    variant: Literal["duotone", "paper"] = "duotone"
    """An exact solution that keeps the function, or the thesis' rule and P as printed."""
    layer: str | None = None
    """The layer that is read, the last one too; by default the first linear one before it."""
    rank: int | None = Field(None, ge=1, le=MOST)
    """Dimensions of the local code; by default those that stand out, none if all may be chance."""
    complement: Literal["oblique", "orthogonal", "bottleneck"] = "oblique"
    """The shared code: without the differences of means, at right angles to P, or learnt."""
    bottleneck_weight: float = Field(0.03, ge=0)
    """Weight of each nat that a learnt shared code holds beyond the label."""
    align_every: int = Field(5, ge=1)
    """Rounds between two alignments; the last round always has one."""
    aligning: Literal["members", "sampled"] | None = None
    """Who is asked at an alignment: all, or who trained; by default all, for `paper` the latter."""
    epsilon: float | None = Field(None, gt=0)
    """Privacy ε of a sample in all statistics of a run together, at δ = 1e-5; none by default."""
    clip: float = Field(10.0, gt=0)
    """Length to which hidden vectors are cut before noise is added to their statistics."""
    rate: float = Field(0.001, gt=0)
    """Step of the incremental rule, both for Ψ and for Φ."""
    rule_steps: int = Field(1, ge=1)
    """Steps of the incremental rule, as `rule_per` says."""
    rule_per: Literal["alignment", "batch"] = "alignment"
    """When these are taken: once with all statistics, or by clients on each of their batches."""
    orthonormal: bool = False
    """Whether P of `paper` is made orthonormal; that of `duotone` always is."""

    @model_validator(mode="after")
    def _noise_is_for_pooled_statistics(self) -> Self:
        if self.epsilon is not None and self.rule_per == "batch":
            raise ValueError(
                "epsilon puts noise on statistics, and with rule_per 'batch' clients send steps "
                "instead; drop one of them"
            )
        return self
