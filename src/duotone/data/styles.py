"""Styles: a look on top of any images, whose true factors are recorded.

``marks`` are the marks of FedDVA: a sinusoid across the columns or across the rows, or an ellipse,
drawn over the image. The others are transforms of PaDPaF. ``padpaf8`` are those of its clients with
MNIST, ``padpaf4`` the first four, blurred so much that it can always be seen. ``padpaf-new`` are
the same eight for members, and the three it adapts to later for newcomers. ``padpaf10`` are those
of its clients with CIFAR. Sizes scale with the image.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from duotone.data import marks, transforms
from duotone.data.dataset import Array, Dataset
from duotone.data.transforms import Images
from duotone.errors import DataError, UnknownNameError
from duotone.registry import did_you_mean
from duotone.seeding import stream

STYLES = ("none", "marks", "padpaf4", "padpaf8", "padpaf-new", "padpaf10")
"""The known styles."""

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


def kinds_worn_by(style: str, who: Literal["member", "newcomer"]) -> tuple[str, ...]:
    """Return the kinds that members or newcomers take turns with.

    Newcomers begin with the second one, so that a single newcomer does not get the plain one; of a
    style that has kinds for newcomers alone they have just these.

    Raises:
        UnknownNameError: There is no such style.
    """
    kinds = style_kinds(style)
    own = _DEFINITIONS[style].for_newcomers if kinds else ()
    if who == "member":
        return tuple(kind for kind in kinds if kind not in own)
    return own or kinds[1:] + kinds[:1]


def apply_style(
    dataset: Dataset, style: str, kind_of_row: NDArray[np.int64], *, seed: int
) -> Dataset:
    """Return the data set with a look on its images.

    What is random about a row's look depends on the seed, the style and the number of the row, and
    so never on who holds it. The number of the kind is kept as a factor, ``mark`` for marks and
    ``style`` for the others; it is -1 in rows that are left alone. So are the amounts that a look
    is made of, which are NaN in rows that do not have them:

    * ``phase``: of a sinusoid its phase, of an ellipse twice its rotation; radians in [0, 2π), and
      values near both ends look alike;
    * ``blur``: standard deviation in pixels;
    * ``rotation``: degrees counter-clockwise;
    * ``brightness``, ``scale``: factors;
    * ``erased``: share of the image that is covered;
    * ``red``, ``green``, ``blue``: what a tint multiplies each colour by.

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
    rng = stream(seed, "style", style)
    drawn = {name: rng.random(len(dataset)) for name in definition.amounts}
    x: Images = dataset.x.copy()
    pixels = x.reshape(*x.shape[:3], -1)
    recorded: dict[str, Array] = {
        definition.kind_factor: kind_of_row.astype(np.int64),
        **{name: np.full(len(dataset), np.nan) for name in definition.recorded},
    }
    for number, look in enumerate(definition.looks.values()):
        rows = np.flatnonzero(kind_of_row == number)
        amounts = {
            name: low + (high - low) * drawn[name][rows]
            for name, (low, high) in look.between.items()
        }
        for name in amounts.keys() & recorded:
            recorded[name][rows] = amounts[name]
        # In blocks, so that only the new images themselves need much memory.
        for start in range(0, len(rows), _BLOCK):
            block = slice(start, start + _BLOCK)
            given = (values[block] for values in amounts.values())
            pixels[rows[block]] = look.change(pixels[rows[block]], *given)
    return replace(dataset, x=x, factors={**dataset.factors, **recorded})


def _check(dataset: Dataset, style: str, kind_of_row: Array) -> None:
    definition = _DEFINITIONS[style]
    if dataset.x.dtype != np.uint8:
        has = "images with more than 8 bits" if dataset.is_image else "a table"
        raise DataError(
            f"The style {style!r} is for images of 8 bits, but {dataset.name!r} is {has}; "
            "use the style 'none'."
        )
    height, width = dataset.x.shape[1:3]
    if min(height, width) < _SMALLEST:
        raise DataError(
            f"The style {style!r} needs images of at least {_SMALLEST}×{_SMALLEST} pixels; "
            f"those of {dataset.name!r} are {width}×{height}."
        )
    if definition.in_colour and dataset.x.shape[3:] != (3,):
        raise DataError(
            f"The style {style!r} changes colours, but the images of {dataset.name!r} are grey; "
            "use another style."
        )
    last = len(definition.looks) - 1
    if kind_of_row.shape != (len(dataset),) or not np.isin(kind_of_row, range(-1, last + 1)).all():
        raise DataError(
            f"The style {style!r} needs a kind from -1 to {last} for each of the "
            f"{len(dataset)} rows of {dataset.name!r}."
        )
    for factor in (definition.kind_factor, *definition.recorded):
        if factor in dataset.factors:
            raise DataError(
                f"The style {style!r} records a factor {factor!r}, but {dataset.name!r} has one "
                "of this name already; use another style or other data."
            )


@dataclass(frozen=True, slots=True)
class _Look:
    """One kind of look.

    Attributes:
        change: A function from images ``(rows, height, width, channels)`` and amounts to images.
        between: For each amount it takes, in order, the range it is drawn from. One whose name
            begins with an underscore is not recorded.
    """

    change: Callable[..., Images]
    between: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Definition:
    """What a style is.

    Attributes:
        looks: The kinds of look.
        kind_factor: The factor that records the kind.
        for_newcomers: The kinds that only newcomers wear.
        in_colour: Whether only images in colour can wear it.
    """

    looks: Mapping[str, _Look]
    kind_factor: str = "style"
    for_newcomers: tuple[str, ...] = ()
    in_colour: bool = False

    @property
    def amounts(self) -> tuple[str, ...]:
        """The names of all amounts."""
        return tuple(dict.fromkeys(name for look in self.looks.values() for name in look.between))

    @property
    def recorded(self) -> tuple[str, ...]:
        """The amounts that are kept as factors: those that no underscore marks as minor."""
        return tuple(name for name in self.amounts if not name.startswith("_"))


_PHASE = {"phase": (0, 2 * np.pi)}
_TINT = {
    **dict.fromkeys(("red", "green", "blue"), (0, 1)),
    **dict.fromkeys(("_red", "_green", "_blue"), (0, 1)),
}

_ZOOMS = {
    "zoom-in": _Look(partial(transforms.zoom_in, keep=22, of=28)),
    "zoom-out": _Look(transforms.zoom_out),
}
_INVERT = {"invert": _Look(transforms.invert)}
_BLUR = {"blur": _Look(transforms.blur, {"blur": (0.1, 2)})}
_UPSIDE_DOWN = {"upside-down": _Look(transforms.flip_upside_down)}
_BRIGHTNESS = {"brightness": _Look(transforms.brighten, {"brightness": (0.2, 1.8)})}
_SOLARIZE = {"solarize": _Look(transforms.solarize)}

_EIGHT = {
    **_ZOOMS,
    **_INVERT,
    **_BLUR,
    "left-right": _Look(transforms.flip_left_right),
    **_UPSIDE_DOWN,
    "rotation": _Look(transforms.rotate, {"rotation": (-40, 40)}),
    **_BRIGHTNESS,
}
_NEW = {
    "affine": _Look(
        transforms.affine,
        # The paper's library counts these degrees clockwise.
        {"rotation": (-70, -30), "scale": (0.5, 0.75), "_x": (-0.1, 0.1), "_y": (-0.3, 0.3)},
    ),
    **_SOLARIZE,
    "erase": _Look(
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
    "marks": _Definition(
        {
            "none": _Look(transforms.as_it_is),
            "sine-columns": _Look(marks.sine_columns, _PHASE),
            "sine-rows": _Look(marks.sine_rows, _PHASE),
            "ellipse": _Look(marks.ellipse, _PHASE),
        },
        kind_factor="mark",
    ),
    "padpaf4": _Definition(
        {**_ZOOMS, **_INVERT, "blur": _Look(transforms.blur, {"blur": (1, 2)})},
    ),
    "padpaf8": _Definition(_EIGHT),
    "padpaf-new": _Definition({**_EIGHT, **_NEW}, for_newcomers=tuple(_NEW)),
    "padpaf10": _Definition(
        {
            "zoom-in": _Look(partial(transforms.zoom_in, keep=22, of=32)),
            **_INVERT,
            **_BLUR,
            "grey": _Look(transforms.grey),
            **_UPSIDE_DOWN,
            **_BRIGHTNESS,
            "perspective": _Look(
                transforms.perspective, {f"_corner{n}": (0, 0.4) for n in range(8)}
            ),
            **_SOLARIZE,
            "tint": _Look(transforms.tint, _TINT),
            "harsh-tint": _Look(transforms.harsh_tint, _TINT),
        },
        in_colour=True,
    ),
}

STYLE_FACTORS = tuple(
    dict.fromkeys(
        factor
        for definition in _DEFINITIONS.values()
        for factor in (definition.kind_factor, *definition.recorded)
    )
)
"""The factors that styles record."""
