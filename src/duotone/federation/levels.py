"""How much a server may learn from its clients: three named levels, each with all of those before.

``scores``
    Updates of the shared part, declared statistics, counts, and scores. The default of a
    deployment.
``codes``
    Also representations of single samples, with what is known of them.
``simulation``
    Everything: models of single clients and samples too. All clients are of one trust domain, as
    in a simulation on one machine.

Every job says at which level its answers are; what a job does not say is ``simulation``.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from duotone.errors import DisclosureError

Level: TypeAlias = Literal["scores", "codes", "simulation"]
LEVELS: tuple[Level, ...] = get_args(Level)


def level_of(asked: object) -> Level:
    """Return the level of a job or a measure."""
    level: Level = getattr(asked, "level", "simulation")
    return level


def is_within(asked: object, level: Level) -> bool:
    """Say whether a job or a measure asks for no more than a level allows."""
    return LEVELS.index(level_of(asked)) <= LEVELS.index(level)


def check_level(asked: object, level: Level) -> None:
    """Refuse a job whose answers say more than a level allows.

    Raises:
        DisclosureError: It does.
    """
    if not is_within(asked, level):
        name = type(asked).__name__
        raise DisclosureError(
            f"{name} asks for what only the level {level_of(asked)!r} allows, and this is {level!r}"
        )
