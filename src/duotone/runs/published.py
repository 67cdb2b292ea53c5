"""How long a run is beside what its paper prints, in words: said wherever the run is shown."""

from __future__ import annotations

from duotone.config import RunConfig
from duotone.measures.panels import count_text
from duotone.methods.printed import printed_training


def published_share(config: RunConfig) -> float | None:
    """Return rounds × local epochs as a share of those the paper prints.

    Args:
        config: A resolved configuration.

    Returns:
        The share, or ``None`` where the method is not as published, or its paper prints no number
        of rounds for this data.
    """
    printed = printed_training(config.model_dump())
    if printed is None:
        return None
    rounds, epochs = printed
    return config.rounds_made * int(config.method["epochs"]) / (rounds * epochs)


def share_text(share: float) -> str:
    """Return a share of the published training in percent.

    >>> share_text(0.024), share_text(1.0), share_text(0.0004)
    ('2.4 %', '100 %', '0.04 %')
    """
    percent = share * 100
    return f"{percent:.0f} %" if percent >= 10 else f"{percent:.2g} %"


def rounds_text(config: RunConfig) -> str:
    """Return how long a run is: "20 of 200 rounds (scale 0.1), 10 % of the published training"."""
    made = config.rounds_made
    scaled = config.scale < 1
    text = f"{made} of {config.rounds} rounds (scale {config.scale:g})" if scaled else ""
    share = published_share(config)
    published = "" if share is None else f", {share_text(share)} of the published training"
    return (text or count_text(made, "round")) + published
