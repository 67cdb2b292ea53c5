"""Exposure: what samples of one client give away when they are drawn as another would have them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from duotone.federation.method import Method
from duotone.measures.attackers import (
    Numbers,
    attacker_by_originals,
    attacker_by_restyled,
    guessed_source,
    named_source,
)
from duotone.measures.judges import Judges
from duotone.measures.restyling import read_restyled
from duotone.measures.stylists import Stylist, drawn_as, originals_of
from duotone.partition.partition import Population


class Named(NamedTuple):
    """How often an attacker names one client: of its own samples, and of those of others."""

    own: float
    others: float


@dataclass(frozen=True, slots=True)
class Exposure:
    """What samples of one client give away when they are drawn as another would have them.

    Measured on test samples, which neither attacker has learnt from.

    Attributes:
        source: Whose samples they are.
        target: Whose style they get.
        samples: How many of the source's were judged.
        others: How many of other clients' were.
        clients: How many clients the attackers tell apart.
        label_kept: Share judged to show the label of the original; R² where labels are numbers.
        label_read: The same of the originals.
        original: How often the source is named for originals, by an attacker who learnt from such.
        attacker: The same attacker, for re-styled samples.
        informed: An attacker who learnt from re-styled samples with their true source.
        by_label: How often labels alone name it.
    """

    source: str
    target: str
    samples: int
    others: int
    clients: int
    label_kept: float | None
    label_read: float | None
    original: Named
    attacker: Named
    informed: Named
    by_label: Named

    @property
    def chance(self) -> float:
        """How often a blind guess names the source."""
        return 1 / self.clients

    @property
    def is_found(self) -> bool:
        """Whether one of the attackers names the source more often for its own samples.

        By more than two standard errors of the difference.
        """
        return any(self._differs(named) for named in (self.attacker, self.informed))

    def _differs(self, named: Named) -> bool:
        error = named.own * (1 - named.own) / self.samples
        error += named.others * (1 - named.others) / self.others
        return named.own - named.others > 2 * math.sqrt(error)

    def as_json(self) -> dict[str, object]:
        """Return everything by name, for machines."""
        named = ("original", "attacker", "informed", "by_label")
        plain = ("source", "target", "samples", "clients", "label_kept", "label_read", "chance")
        return {
            **{name: getattr(self, name) for name in plain},
            **{name: getattr(self, name)._asdict() for name in named},
            "is_found": self.is_found,
            "statement": self.statement,
        }

    @property
    def statement(self) -> str:
        """What was measured, in sentences."""

        def said(named: Named) -> str:
            return f"{named.own:.0%} of them ({named.others:.0%} of others' samples)"

        kept = ""
        if self.label_kept is not None and self.label_read is not None:
            kept = (
                f" The label is read from {self.label_kept:.0%} of them, "
                f"from {self.label_read:.0%} of the originals."
            )
        end = (
            "The source can still be told: this is no anonymity."
            if self.is_found
            else "These attackers find no more than others' samples give; a better one may. This "
            "is a measurement, no guarantee."
        )
        return (
            f"{self.samples} held-out samples of client {self.source}, drawn as client "
            f"{self.target} would have them.{kept} Among {self.clients} clients, an attacker who "
            f"knows real samples names client {self.source} for {said(self.attacker)}; of the "
            f"originals it was {self.original.own:.0%}, chance is {self.chance:.0%}. An attacker "
            f"who knows the method as well names it for {said(self.informed)}. Labels alone: "
            f"{said(self.by_label)}. {end}"
        )


def exposure(
    method: Method,
    judges: Judges,
    stylists: Sequence[Stylist],
    source: str,
    target: str,
    population: Population,
    seed: int,
) -> Exposure:
    """Measure what a client's samples give away when they are drawn as another would have them.

    Both attackers know samples of all these clients. The informed one learns from everybody's
    training samples drawn as the target would have them, the target's own among them.
    """
    number = {stylist.client: place for place, stylist in enumerate(stylists)}
    wearer = stylists[number[target]]
    real = attacker_by_originals(list(number), population, seed, turns=2)
    informed = attacker_by_restyled(method, stylists, [wearer], population.info, seed)
    model = method.load(wearer.params, population.info).eval()
    tests = [originals_of(stylist, population, "test") for stylist in stylists]
    redrawn = [drawn_as(method, model, one, wearer, "test", seed) for one in stylists]
    own = number[source]

    def named(answers: Sequence[Numbers]) -> Named:
        hits = [found == own for found in answers]
        rest = np.concatenate([hit for place, hit in enumerate(hits) if place != own])
        return Named(float(hits[own].mean()), float(rest.mean()))

    y, partition = population.dataset.y, population.partition
    by_label = Named(1 / len(stylists), 1 / len(stylists))
    if population.info.task == "classes":
        labels = [y[partition[stylist.client].train] for stylist in stylists]
        asked = [
            y[partition[stylist.client].test[: len(x)]]
            for stylist, x in zip(stylists, tests, strict=True)
        ]
        by_label = named([guessed_source(labels, some) for some in asked])
    pair = (source, target)
    return Exposure(
        source,
        target,
        len(tests[own]),
        sum(len(x) for x in tests) - len(tests[own]),
        len(stylists),
        read_restyled(judges, population, pair, redrawn[own])["label_kept"].value,
        read_restyled(judges, population, pair, tests[own])["label_kept"].value,
        named([named_source(real, x) for x in tests]),
        named([named_source(real, x) for x in redrawn]),
        named([named_source(informed, x) for x in redrawn]),
        by_label,
    )
