"""What a page may ask: every parameter has a form, and nothing else is taken."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from starlette.datastructures import QueryParams

from duotone.errors import ConfigError
from duotone.federation.method import Part

MOST_TILES = 60
"""Samples that one grid shows."""


def _pieces(text: Any) -> Any:
    return [piece for piece in text.split(",") if piece] if isinstance(text, str) else text


Number = Annotated[float, Field(allow_inf_nan=False, ge=-1e6, le=1e6)]
Numbers = Annotated[tuple[Number, ...], BeforeValidator(_pieces), Field(max_length=64)]
Place = Annotated[int, Field(ge=0, le=2**31)]
Places = Annotated[tuple[Place, ...], BeforeValidator(_pieces), Field(max_length=MOST_TILES)]
Name = Annotated[str, Field(min_length=1, max_length=200)]


class Asked(BaseModel):
    """No parameter at all."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class AskedClient(Asked):
    """A client."""

    client: Name


class AskedGrid(AskedClient):
    """Some test samples of a client: all, or those whose answer is unlike the reference's."""

    start: Place = 0
    only: Literal["all", "unlike", "wrong"] = "all"


class AskedSample(AskedClient):
    """A client, and a test sample of its own or of another client, or an image of the user's."""

    sample: Place = 0
    of: Name | None = None
    upload: Name | None = None

    @property
    def owner(self) -> str:
        """Whose test sample it is."""
        return self.of or self.client


class AskedCard(AskedSample):
    """Why a client answers so, perhaps beside another."""

    against: Name | None = None


class AskedPolicy(AskedSample):
    """An answer with the local layers moved towards the members' mean."""

    amount: Annotated[float, Field(ge=0, le=1)]


class AskedCodes(AskedSample):
    """The codes of a sample, or a random draw, and shares of the classes, moved by sliders."""

    seed: Place = 0
    label: Place = 0
    shared: Numbers | None = None
    local: Numbers | None = None
    classes: Numbers | None = None


class AskedBetween(AskedSample):
    """Two samples, and the way between them."""

    seed: Place = 0
    label: Place = 0
    other: Name
    other_sample: Place = 0


class AskedMap(Asked):
    """A map of one part of the codes."""

    part: Part


class AskedRows(Asked):
    """Some of the samples whose codes are kept."""

    rows: Places


Form = TypeVar("Form", bound=Asked)


def read_query(form: type[Form], query: QueryParams) -> Form:
    """Return what a page asks.

    Raises:
        ConfigError: A parameter is unknown, missing, given twice or of the wrong form.
    """
    names = [name for name, _ in query.multi_items()]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"The parameter {twice[0][:40]!r} is given twice; give it once.")
    try:
        return form.model_validate(dict(query))
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))[:40]
        given = "" if first["type"] == "missing" else f" Got {str(first['input'])[:40]!r}."
        raise ConfigError(f"The parameter {name!r}: {first['msg'].lower()}.{given}") from error
