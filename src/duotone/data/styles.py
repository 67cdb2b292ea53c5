"""Styles: changes of images, whose true factors are recorded.

A style set is what the setting ``style`` names; it holds the styles that clients get. ``marks`` are
the marks of FedDVA: a sinusoid across the columns or across the rows, or an ellipse, drawn over the
image. The others are transforms of PaDPaF. ``padpaf8`` has those of its clients with MNIST,
``padpaf4`` the first four, with a blur that can always be seen. ``padpaf-new`` has the same eight
for members, and for newcomers the three that the paper adapts to later. ``padpaf10`` has those of
its clients with CIFAR. Sizes scale with the image.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from duotone.data import marks, transforms
from duotone.data.dataset import Array, Dataset
from duotone.data.transforms import Images
from duotone.errors import DataError, UnknownNameError
from duotone.registry import did_you_mean
from duotone.seeding import stream

if TYPE_CHECKING:  # what loads torch
    from duotone.types import Role

STYLE_SETS = ("none", "marks", "padpaf4", "padpaf8", "padpaf-new", "padpaf10")
"""The known style sets."""

_SMALLEST = 8
_BLOCK = 2048


def styles_of(style_set: str) -> tuple[str, ...]:
    """Return the styles of a set, in the order of their numbers.

    Raises:
        UnknownNameError: There is no such style set.
    """
    if style_set not in STYLE_SETS:
        raise UnknownNameError(
            f"Unknown style {style_set!r}.{did_you_mean(style_set, list(STYLE_SETS))} "
            f"The styles are: {', '.join(STYLE_SETS)}."
        )
    return () if style_set == "none" else tuple(_DEFINITIONS[style_set].styles)


def styles_of_role(style_set: str, role: Role) -> tuple[str, ...]:
    """Return the styles that the clients of a role get, in turn.

    Newcomers begin with the second one, so that a single newcomer does not get the plain one. Where
    a set has styles for newcomers alone, they get just these.

    Raises:
        UnknownNameError: There is no such style set.
    """
    styles = styles_of(style_set)
    own = _DEFINITIONS[style_set].for_newcomers if styles else ()
    if role == "member":
        return tuple(style for style in styles if style not in own)
    return own or styles[1:] + styles[:1]


def checked_style_set(style_set: str, dataset: Dataset | None) -> str:
    """Return the name of a style set, if it is known and the samples, if given, can have it.

    Raises:
        UnknownNameError: There is no such style set.
        DataError: The samples are a table, too small, grey, or have factors of these names.
    """
    if not styles_of(style_set) or dataset is None:
        return style_set
    definition = _DEFINITIONS[style_set]
    if dataset.x.dtype != np.uint8:
        kind = "text" if dataset.alphabet else "a table"
        has = "images with more than 8 bits" if dataset.is_image else kind
        raise DataError(
            f"The style {style_set!r} is for images of 8 bits, but {dataset.name!r} is {has}; "
            "use the style 'none'."
        )
    height, width = dataset.x.shape[1:3]
    if min(height, width) < _SMALLEST:
        raise DataError(
            f"The style {style_set!r} needs images of at least {_SMALLEST}×{_SMALLEST} pixels; "
            f"those of {dataset.name!r} are {width}×{height}."
        )
    if definition.in_colour and dataset.x.shape[3:] != (3,):
        raise DataError(
            f"The style {style_set!r} changes colours, but the images of {dataset.name!r} are "
            "grey; use another style."
        )
    for factor in (definition.style_factor, *definition.recorded):
        if factor in dataset.factors:
            raise DataError(
                f"The style {style_set!r} records a factor {factor!r}, but {dataset.name!r} has "
                "one of this name already; use another style or other data."
            )
    return style_set


def apply_styles(
    dataset: Dataset, style_set: str, style_of_row: NDArray[np.int64], *, seed: int
) -> Dataset:
    """Return the data set with a style on each of its images.

    What is random about a row's style depends on the seed, the style set and the number of the
    row, never on who holds it. The number of the style is kept as a categorical factor, ``mark``
    for marks and ``style`` for the others; it is -1 in rows that are left alone. The amounts of a
    style are kept as continuous factors, which are NaN in rows that do not have them:

    * ``phase``: of a sinusoid its phase, of an ellipse twice its rotation; radians in [0, 2π), and
      values near both ends look alike;
    * ``blur``: standard deviation in pixels;
    * ``rotation``: degrees counter-clockwise;
    * ``brightness``, ``scale``: factors;
    * ``erased``: share of the image that is covered;
    * ``red``, ``green``, ``blue``: what a tint multiplies each colour by.

    Args:
        dataset: Images of at least 8×8 pixels.
        style_set: A name in :data:`STYLE_SETS`.
        style_of_row: For each row a position in ``styles_of(style_set)``, or -1 to leave it alone.
        seed: The seed of the run.

    Raises:
        UnknownNameError: There is no such style set.
        DataError: The samples cannot have it, or the numbers do not fit.
    """
    if checked_style_set(style_set, dataset) == "none":
        return dataset
    _check_numbers(style_of_row, style_set, dataset)
    definition = _DEFINITIONS[style_set]
    rng = stream(seed, "style", style_set)
    drawn = {name: rng.random(len(dataset)) for name in definition.amounts}
    x: Images = dataset.x.copy()
    pixels = x.reshape(*x.shape[:3], -1)
    recorded: dict[str, Array] = {
        definition.style_factor: style_of_row.astype(np.int64),
        **{name: np.full(len(dataset), np.nan) for name in definition.recorded},
    }
    for number, style in enumerate(definition.styles.values()):
        rows = np.flatnonzero(style_of_row == number)
        amounts = {
            name: low + (high - low) * drawn[name][rows]
            for name, (low, high) in style.between.items()
        }
        for name in amounts.keys() & recorded:
            recorded[name][rows] = amounts[name]
        # In blocks, so that only the new images themselves need much memory.
        for start in range(0, len(rows), _BLOCK):
            block = slice(start, start + _BLOCK)
            given = (values[block] for values in amounts.values())
            pixels[rows[block]] = style.change(pixels[rows[block]], *given)
    return replace(dataset, x=x, factors={**dataset.factors, **recorded})


def _check_numbers(style_of_row: Array, style_set: str, dataset: Dataset) -> None:
    last = len(styles_of(style_set)) - 1
    known = np.isin(style_of_row, range(-1, last + 1))
    if style_of_row.shape != (len(dataset),) or not known.all():
        raise DataError(
            f"The style {style_set!r} needs a kind from -1 to {last} for each of the "
            f"{len(dataset)} rows of {dataset.name!r}."
        )


@dataclass(frozen=True, slots=True)
class _Style:
    """One style.

    Attributes:
        change: A function from images ``(rows, height, width, channels)`` and amounts to images.
        between: For each amount it takes, in order, the range it is drawn from. One whose name
            begins with an underscore is not recorded.
    """

    change: Callable[..., Images]
    between: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _StyleSet:
    """What a style set holds.

    Attributes:
        styles: Its styles by name.
        style_factor: The factor that records which of them a sample has.
        for_newcomers: The styles that only newcomers get.
        in_colour: Whether it is for images in colour only.
    """

    styles: Mapping[str, _Style]
    style_factor: str = "style"
    for_newcomers: tuple[str, ...] = ()
    in_colour: bool = False

    @property
    def amounts(self) -> tuple[str, ...]:
        """The names of all amounts."""
        between = (style.between for style in self.styles.values())
        return tuple(dict.fromkeys(chain.from_iterable(between)))

    @property
    def recorded(self) -> tuple[str, ...]:
        """The amounts that are kept as factors: those whose names begin with no underscore."""
        return tuple(name for name in self.amounts if not name.startswith("_"))


_PHASE = {"phase": (0, 2 * np.pi)}
_TINT = {
    **dict.fromkeys(("red", "green", "blue"), (0, 1)),
    **dict.fromkeys(("_red", "_green", "_blue"), (0, 1)),
}

_ZOOMS = {
    "zoom-in": _Style(partial(transforms.zoom_in, keep=22, of=28)),
    "zoom-out": _Style(transforms.zoom_out),
}
_INVERT = {"invert": _Style(transforms.invert)}
_BLUR = {"blur": _Style(transforms.blur, {"blur": (0.1, 2)})}
_UPSIDE_DOWN = {"upside-down": _Style(transforms.flip_upside_down)}
_BRIGHTNESS = {"brightness": _Style(transforms.brighten, {"brightness": (0.2, 1.8)})}
_SOLARIZE = {"solarize": _Style(transforms.solarize)}

_EIGHT = {
    **_ZOOMS,
    **_INVERT,
    **_BLUR,
    "left-right": _Style(transforms.flip_left_right),
    **_UPSIDE_DOWN,
    "rotation": _Style(transforms.rotate, {"rotation": (-40, 40)}),
    **_BRIGHTNESS,
}
_NEW = {
    "affine": _Style(
        transforms.affine,
        # The paper's library counts these degrees clockwise.
        {"rotation": (-70, -30), "scale": (0.5, 0.75), "_x": (-0.1, 0.1), "_y": (-0.3, 0.3)},
    ),
    **_SOLARIZE,
    "erase": _Style(
        transforms.erase,
        {
            "erased": (0.02, 0.1),
            "_ratio": (np.log(0.3), np.log(3.3)),
            "_across": (0, 1),
            "_down": (0, 1),
        },
    ),
}

_DEFINITIONS = {
    "marks": _StyleSet(
        {
            "none": _Style(transforms.as_it_is),
            "sine-columns": _Style(marks.sine_columns, _PHASE),
            "sine-rows": _Style(marks.sine_rows, _PHASE),
            "ellipse": _Style(marks.ellipse, _PHASE),
        },
        style_factor="mark",
    ),
    "padpaf4": _StyleSet(
        {**_ZOOMS, **_INVERT, "blur": _Style(transforms.blur, {"blur": (1, 2)})},
    ),
    "padpaf8": _StyleSet(_EIGHT),
    "padpaf-new": _StyleSet({**_EIGHT, **_NEW}, for_newcomers=tuple(_NEW)),
    "padpaf10": _StyleSet(
        {
            "zoom-in": _Style(partial(transforms.zoom_in, keep=22, of=32)),
            **_INVERT,
            **_BLUR,
            "grey": _Style(transforms.grey),
            **_UPSIDE_DOWN,
            **_BRIGHTNESS,
            "perspective": _Style(
                transforms.perspective, {f"_corner{n}": (0, 0.4) for n in range(8)}
            ),
            **_SOLARIZE,
            "tint": _Style(transforms.tint, _TINT),
            "harsh-tint": _Style(transforms.harsh_tint, _TINT),
        },
        in_colour=True,
    ),
}

STYLE_FACTORS = tuple(
    dict.fromkeys(
        factor
        for definition in _DEFINITIONS.values()
        for factor in (definition.style_factor, *definition.recorded)
    )
)
"""The factors that styles record."""
