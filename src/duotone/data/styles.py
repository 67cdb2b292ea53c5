"""Styles: a look on top of any images, whose true factors are recorded.

``marks`` are the marks of FedDVA: a sinusoid across the columns or across the rows, or an ellipse,
drawn over the image. ``padpaf4`` are four transforms of PaDPaF: zoom in, zoom out, invert, blur.
Sizes are those of the papers' images of 28×28 pixels and scale with the image.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from duotone.data.dataset import Array, Dataset
from duotone.data.resize import resized
from duotone.errors import DataError, UnknownNameError
from duotone.registry import did_you_mean
from duotone.seeding import stream

Images: TypeAlias = NDArray[np.uint8]
Amounts: TypeAlias = NDArray[np.float64]

STYLES = ("none", "marks", "padpaf4")
"""The known styles."""

_PAPER_SIZE = 28
_SMALLEST = 8
_BLOCK = 2048


def style_kinds(style: str) -> tuple[str, ...]:
    """Return the kinds of look that a style has, in the order of their numbers.

    Raises:
        UnknownNameError: There is no such style.
    """
    if style not in STYLES:
        raise UnknownNameError(
            f"Unknown style {style!r}.{did_you_mean(style, list(STYLES))} "
            f"The styles are: {', '.join(STYLES)}."
        )
    return () if style == "none" else tuple(_DEFINITIONS[style].looks)


def apply_style(
    dataset: Dataset, style: str, kind_of_row: NDArray[np.int64], *, seed: int
) -> Dataset:
    """Return the data set with a look on its images.

    What is random about a row's look depends on the seed, the style and the number of the row, and
    so never on who holds it.

    ``marks`` adds the factors ``mark`` (number of the kind) and ``phase``: of a sinusoid its phase,
    of an ellipse twice its rotation. Both are radians in [0, 2π), and values near both ends look
    alike; without a mark the phase is NaN. ``padpaf4`` adds ``style`` (number of the kind) and
    ``blur`` (standard deviation of the blur in pixels, NaN for other kinds). In rows that are left
    alone the number of the kind is -1.

    Args:
        dataset: Images of at least 8×8 pixels.
        style: A name in :data:`STYLES`.
        kind_of_row: For each row a position in ``style_kinds(style)``, or -1 to leave it alone.
        seed: The seed of the run.

    Raises:
        UnknownNameError: There is no such style.
        DataError: The samples cannot wear it.
    """
    kinds = style_kinds(style)
    if not kinds:
        return dataset
    _check(dataset, style, kind_of_row)
    definition = _DEFINITIONS[style]
    amount = stream(seed, "style", style).uniform(*definition.between, len(dataset))
    x: Images = dataset.x.copy()
    pixels = x.reshape(*x.shape[:3], -1)
    varied = np.zeros(len(dataset), bool)
    for number, (kind, look) in enumerate(definition.looks.items()):
        rows = np.flatnonzero(kind_of_row == number)
        varied[rows] = kind in definition.varied
        # In blocks, so that only the new images themselves need much memory.
        for start in range(0, len(rows), _BLOCK):
            block = rows[start : start + _BLOCK]
            pixels[block] = look(pixels[block], amount[block])
    recorded: dict[str, Array] = {
        definition.kind_factor: kind_of_row.astype(np.int64),
        definition.amount_factor: np.where(varied, amount, np.nan),
    }
    return replace(dataset, x=x, factors={**dataset.factors, **recorded})


def _check(dataset: Dataset, style: str, kind_of_row: Array) -> None:
    definition = _DEFINITIONS[style]
    if dataset.x.dtype != np.uint8:
        raise DataError(
            f"The style {style!r} is for images, but {dataset.name!r} is a table; "
            "use the style 'none'."
        )
    height, width = dataset.x.shape[1:3]
    if min(height, width) < _SMALLEST:
        raise DataError(
            f"The style {style!r} needs images of at least {_SMALLEST}×{_SMALLEST} pixels; "
            f"those of {dataset.name!r} are {width}×{height}."
        )
    last = len(definition.looks) - 1
    if kind_of_row.shape != (len(dataset),) or not np.isin(kind_of_row, range(-1, last + 1)).all():
        raise DataError(
            f"The style {style!r} needs a kind from -1 to {last} for each of the "
            f"{len(dataset)} rows of {dataset.name!r}."
        )
    for factor in (definition.kind_factor, definition.amount_factor):
        if factor in dataset.factors:
            raise DataError(
                f"The style {style!r} records a factor {factor!r}, but {dataset.name!r} has one "
                "of this name already; use another style or other data."
            )


def _as_it_is(images: Images, _: Amounts) -> Images:
    return images


def _sine_columns(images: Images, phase: Amounts) -> Images:
    height, width = images.shape[1:3]
    angle = _angles(images)
    # One period from edge to edge, and the wave as high as the image, less the padding.
    column = (width - 1) / 2 + _scaled(25, width) * (angle / (2 * np.pi) - 0.5)
    row = (height - 1) / 2 + _scaled(12.5, height) * np.sin(angle + phase[:, np.newaxis])
    return _draw(images, row, column)


def _sine_rows(images: Images, phase: Amounts) -> Images:
    swapped = _sine_columns(images.swapaxes(1, 2), phase)
    return swapped.swapaxes(1, 2)


def _ellipse(images: Images, phase: Amounts) -> Images:
    height, width = images.shape[1:3]
    angle, rotation = _angles(images), phase[:, np.newaxis] / 2
    major = _scaled(12.5, min(height, width))
    along = major * np.cos(angle)
    across = major * np.sqrt(1 - 0.9**2) * np.sin(angle)  # eccentricity 0.9
    column = (width - 1) / 2 + along * np.cos(rotation) - across * np.sin(rotation)
    row = (height - 1) / 2 + along * np.sin(rotation) + across * np.cos(rotation)
    return _draw(images, row, column)


def _angles(images: Images) -> Amounts:
    """Return the points of a curve in radians, so near to each other that a line has no gaps."""
    step = 0.05 * min(1, _PAPER_SIZE / max(images.shape[1:3]))
    return np.arange(0, 2 * np.pi, step)


def _draw(images: Images, row: Amounts, column: Amounts) -> Images:
    """Draw points in white, which is the maximum of image and mark."""
    image = np.arange(len(images))[:, np.newaxis]
    images[image, np.rint(row).astype(np.intp), np.rint(column).astype(np.intp)] = 255
    return images


def _zoom_in(images: Images, _: Amounts) -> Images:
    height, width = images.shape[1:3]
    inner_height, inner_width = round(_scaled(22, height)), round(_scaled(22, width))
    top, left = (height - inner_height) // 2, (width - inner_width) // 2
    inner = images[:, top : top + inner_height, left : left + inner_width]
    return resized(inner, height, width)


def _zoom_out(images: Images, _: Amounts) -> Images:
    height, width = images.shape[1:3]
    rows, columns = round(_scaled(14, height)), round(_scaled(14, width))
    padded = np.pad(images, ((0, 0), (rows, rows), (columns, columns), (0, 0)))
    return resized(padded, height, width)


def _invert(images: Images, _: Amounts) -> Images:
    return 255 - images


def _blur(images: Images, sigma: Amounts) -> Images:
    """Blur with a Gaussian of 5×5 pixels, the image mirrored at its borders."""
    weights = np.exp(-0.5 * (np.arange(-2, 3) / sigma[:, np.newaxis]) ** 2)
    weights = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
    weights = weights[..., np.newaxis, np.newaxis, np.newaxis]
    height, width = images.shape[1:3]
    padded = np.pad(images, ((0, 0), (2, 2), (2, 2), (0, 0)), mode="reflect")
    down = sum(weights[:, k] * padded[:, k : k + height] for k in range(5))
    both: Array = sum(weights[:, k] * down[:, :, k : k + width] for k in range(5))
    return np.rint(both).astype(np.uint8)


def _scaled(length: float, size: int) -> float:
    """Return what a length in an image of 28 pixels is in one of this size."""
    return length * size / _PAPER_SIZE


@dataclass(frozen=True, slots=True)
class _Definition:
    """What a style is.

    Attributes:
        looks: The kinds of look, each a function from images ``(rows, height, width, channels)``
            and random amounts to new images.
        between: The range of the random amounts.
        varied: The kinds that have an amount.
        kind_factor: The factor that records the kind.
        amount_factor: The factor that records the amount.
    """

    looks: Mapping[str, Callable[[Images, Amounts], Images]]
    between: tuple[float, float]
    varied: tuple[str, ...]
    kind_factor: str
    amount_factor: str


_DEFINITIONS = {
    "marks": _Definition(
        looks={
            "none": _as_it_is,
            "sine-columns": _sine_columns,
            "sine-rows": _sine_rows,
            "ellipse": _ellipse,
        },
        between=(0, 2 * np.pi),
        varied=("sine-columns", "sine-rows", "ellipse"),
        kind_factor="mark",
        amount_factor="phase",
    ),
    "padpaf4": _Definition(
        looks={
            "zoom-in": _zoom_in,
            "zoom-out": _zoom_out,
            "invert": _invert,
            "blur": _blur,
        },
        between=(1, 2),
        varied=("blur",),
        kind_factor="style",
        amount_factor="blur",
    ),
}

STYLE_FACTORS = tuple(
    factor
    for definition in _DEFINITIONS.values()
    for factor in (definition.kind_factor, definition.amount_factor)
)
"""The factors that styles record."""
