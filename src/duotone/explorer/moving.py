"""Sliders: the directions in which codes are moved, and the code that their places stand for.

A code of few dimensions has a slider for each. A wide one, such as a map of features, has sliders
for the directions in which samples differ most; the rest of the code stays as the sample has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from torch import Tensor

from duotone.errors import ConfigError, DuotoneError
from duotone.explorer.explored import Explored
from duotone.federation.method import Part
from duotone.types import ClientData

MOST_SLIDERS = 12
_DIRECTIONS = 8
_ROWS = 400
_REACH = 3.0  # standard deviations that a random draw is moved by
FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Axes:
    """The sliders of one part.

    Attributes:
        directions: ``(sliders, dimensions)``, of length 1 and at right angles.
        low: Where each slider begins.
        high: Where it ends.
        are_dimensions: Whether sliders are dimensions of the code, not directions through it.
    """

    directions: FloatArray
    low: FloatArray
    high: FloatArray
    are_dimensions: bool

    @classmethod
    def of(cls, codes: FloatArray) -> Axes:
        """Return the sliders for codes like these; ranges hold 98 % of them."""
        width = codes.shape[1]
        if not width or not len(codes):
            return cls(np.zeros((0, width)), np.zeros(0), np.zeros(0), True)
        if width <= MOST_SLIDERS:
            directions = np.eye(width)
        else:
            count = min(_DIRECTIONS, len(codes), width)
            directions = PCA(count, random_state=0).fit(codes).components_.astype(np.float64)
        places = codes @ directions.T
        low, high = np.quantile(places, [0.01, 0.99], axis=0)
        room = np.maximum(0.1 * (high - low), 1e-3)
        low, high = low - room, high + room
        if width <= MOST_SLIDERS and codes.min() >= 0 and codes.max() <= 1:  # shares stay shares
            low, high = np.maximum(low, 0), np.minimum(high, 1)
        return cls(directions, low, high, width <= MOST_SLIDERS)

    @classmethod
    def normal(cls, width: int) -> Axes:
        """Return the sliders for draws from a standard normal distribution; of many, the first."""
        count = min(width, MOST_SLIDERS)
        reach = np.full(count, _REACH)
        return cls(np.eye(count, width), -reach, reach, True)

    def places(self, code: FloatArray) -> FloatArray:
        """Return where the sliders stand for a code."""
        return np.asarray(self.directions @ code)

    def moved(self, code: FloatArray, places: tuple[float, ...] | None) -> FloatArray:
        """Return a code with its sliders put elsewhere; ``None`` leaves them.

        Raises:
            ConfigError: These are not as many places as there are sliders.
        """
        if places is None:
            return code
        if len(places) != len(self.directions):
            raise ConfigError(
                f"There are {len(self.directions)} sliders. Got places for {len(places)}."
            )
        step = np.array(places) - self.places(code)
        return np.asarray(code + step @ self.directions)

    def as_json(self, code: FloatArray) -> list[dict[str, Any]]:
        """Return the sliders as a page needs them."""
        word = "dimension" if self.are_dimensions else "direction"
        return [
            {
                "name": f"{word} {number}",
                "low": round(float(low), 4),
                "high": round(float(high), 4),
                "place": round(float(place), 4),
            }
            for number, (low, high, place) in enumerate(
                zip(self.low, self.high, self.places(code), strict=True)
            )
        ]


def own_codes(explored: Explored, name: str, part: Part) -> FloatArray:
    """Return codes of a client's samples by its own encoder, ``(samples, dimensions)``.

    Raises:
        DuotoneError: None are kept, and its samples are not at hand to be encoded.
    """
    return explored.once(("codes", name, part), lambda: _own_codes(explored, name, part))


def _own_codes(explored: Explored, name: str, part: Part) -> FloatArray:
    run = explored.run
    if (run.path / "latents.npz").exists():
        rows = run.latents["client"] == name
        if rows.any():
            return np.asarray(run.latents[part][rows], np.float64).reshape(int(rows.sum()), -1)
    data: ClientData = explored.test_samples(name).first(_ROWS)
    codes = explored.client(name).encode_from(data.x)
    return np.asarray(getattr(codes, part).flatten(1).double().numpy())


def code_axes(explored: Explored, name: str, part: Part) -> Axes:
    """Return the sliders of one part: over all clients where their codes can be compared."""

    def make() -> Axes:
        run = explored.run
        if (run.path / "latents.npz").exists() and f"common_{part}" not in run.latents:
            every = np.asarray(run.latents[part], np.float64)
            return Axes.of(every.reshape(len(every), -1))
        return Axes.of(own_codes(explored, name, part))

    return explored.once(("axes", name, part), make)


def typical_code(explored: Explored, name: str, part: Part) -> FloatArray:
    """Return the code of a client's sample that lies nearest to its mean code.

    Raises:
        DuotoneError: The client has no codes.
    """

    def make() -> FloatArray:
        codes = own_codes(explored, name, part)
        if not len(codes):
            raise ConfigError(f"Client {name!r} has no samples.")
        apart = np.linalg.norm(codes - codes.mean(axis=0), axis=1)
        return np.asarray(codes[int(apart.argmin())])

    return explored.once(("typical", name, part), make)


def as_batch(codes: list[FloatArray]) -> Tensor:
    """Return codes as a batch that a network decodes."""
    return torch.from_numpy(np.stack(codes)).float()


def can_encode(explored: Explored, name: str) -> bool:
    """Say whether codes of a client are known."""
    try:
        return len(own_codes(explored, name, "local")) > 0
    except DuotoneError:
        return False
