"""Scores: what was measured, and a name that knows what it is made of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from duotone.errors import RunError
from duotone.measures.metrics import Direction
from duotone.types import Role, Unit

if TYPE_CHECKING:
    from duotone.federation.method import Part

Aim: TypeAlias = Direction | Literal["reference"]
"""Which way is better; "reference" for what stands beside a score to judge it by."""

LearntOn: TypeAlias = Literal["held-out samples", "training samples"]
"""What a probe learnt from: samples that the encoder was not trained on, or those that it was."""

_FIELDS = ("measure", "question", "part", "variant", "role")


class Key(str):
    """The name of a score, with the facts that it is made of; nobody takes a name apart.

    Attributes:
        measure: What measured it: "accuracy", "probe", "swap" …
        question: What was asked: "f1", "client", "label" …
        part: The part that was asked about, if it is one of the two.
        variant: Which form or control of the score: "linear", "chance", "selected" …
        role: Whether members or newcomers were scored.
    """

    __slots__ = _FIELDS

    measure: str
    question: str
    part: Part | Literal["both"]
    variant: str
    role: Role

    def __new__(
        cls,
        measure: str,
        question: str,
        *,
        part: Part | Literal["both"] = "both",
        variant: str = "",
        role: Role = "member",
    ) -> Key:
        """Make a key; its text is the name that run folders use."""
        if measure == "accuracy":
            words = [role, question, variant]
        elif measure == "curve":
            words = [role, f"{question}@{variant}"]
        else:
            asked = question if part == "both" else f"{question}_from_{part}"
            words = [measure, asked, variant, "newcomers" if role == "newcomer" else ""]
        key = super().__new__(cls, ".".join(filter(None, words)))
        key.measure, key.question, key.part = measure, question, part
        key.variant, key.role = variant, role
        return key

    def __getnewargs_ex__(self) -> tuple[tuple[str, str], dict[str, str]]:
        """Let a key be copied."""
        others = {name: getattr(self, name) for name in ("part", "variant", "role")}
        return (self.measure, self.question), others

    def beside(self, variant: str) -> Key:
        """Return the key of another variant of the same score: its chance, its control."""
        return Key(self.measure, self.question, part=self.part, variant=variant, role=self.role)

    def facts(self) -> dict[str, str]:
        """Return what the name is made of, by name."""
        return {name: getattr(self, name) for name in _FIELDS}


@dataclass(frozen=True, slots=True)
class Score:
    """A metric over clients, or one that is measured on samples of many of them.

    Attributes:
        value: Mean over clients, or the measured value.
        std: Standard deviation over clients (population), 0 for a single one; of a measured value
            its bootstrap standard error.
        direction: Which way is better.
        n: Number of clients, or of samples.
        unit: What the value counts in.
        low: Lower end of the 95 % bootstrap interval of a measured value.
        high: Upper end of it.
        learnt_on: Of a probe, what it learnt from.
    """

    value: float
    std: float
    direction: Aim
    n: int
    unit: Unit
    low: float | None = None
    high: float | None = None
    learnt_on: LearntOn | None = None

    @classmethod
    def over(cls, values: Sequence[float], direction: Aim, unit: Unit) -> Score:
        """Return the mean of some values with their standard deviation."""
        mean = math.fsum(values) / len(values)
        spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
        return cls(mean, spread, direction, len(values), unit)

    def is_above(self, other: Score) -> bool:
        """Say whether a score lies above another, beyond both their intervals."""
        low = self.value if self.low is None else self.low
        return low > (other.value if other.high is None else other.high)


Scores: TypeAlias = Mapping[Key, Score]


def scores_json(scores: Scores) -> dict[str, dict[str, Any]]:
    """Return scores as a summary holds them; ends of an interval only where there is one."""
    return {
        str(key): {
            **{name: value for name, value in asdict(score).items() if value is not None},
            **key.facts(),
        }
        for key, score in scores.items()
    }


def read_scores(content: Mapping[str, Mapping[str, Any]]) -> dict[Key, Score]:
    """Return the scores of a summary.

    Raises:
        RunError: They are of a run that was made before scores had keys, or damaged.
    """
    found: dict[Key, Score] = {}
    for name, own in content.items():
        if "measure" not in own:
            raise RunError(
                f"the score {name} does not say what it measures; an earlier version of duotone "
                "made this run. Repeat it with: duotone run --config CONFIG.TOML"
            )
        values = dict(own)
        try:
            facts = {fact: values.pop(fact) for fact in _FIELDS}
            found[Key(facts.pop("measure"), facts.pop("question"), **facts)] = Score(**values)
        except (KeyError, TypeError) as error:
            raise RunError(f"{name} is incomplete ({error})") from error
    return found
