"""Digits drawn from fonts: colour images that stand in for SynthDigits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from duotone.data.dataset import Dataset
from duotone.errors import DataError
from duotone.seeding import stream

if TYPE_CHECKING:
    from PIL import Image

# Upright digits that read well at 28 pixels. The monospaced faces are left out: the dot in their
# zero makes it an eight.
FONTS = (
    "DejaVuSans",
    "DejaVuSans-Bold",
    "DejaVuSans-Oblique",
    "DejaVuSans-BoldOblique",
    "DejaVuSerif",
    "DejaVuSerif-Bold",
    "DejaVuSerif-Italic",
    "DejaVuSerif-BoldItalic",
    "STIXGeneral",
    "STIXGeneralBol",
    "STIXGeneralItalic",
    "STIXGeneralBolIta",
    "cmr10",
    "cmb10",
    "cmss10",
    "cmtt10",
)
"""The faces in use; the factor ``font`` is a position in this list."""

_TRAIN, _TEST = 8_000, 2_000
_SIZE = 28
_FINE = 3  # digits are drawn at this multiple of the final size, then averaged
_GLYPH = 72  # side of the square in which a glyph is kept before it is turned and scaled
_LUMINANCE = np.array([0.299, 0.587, 0.114], np.float32)
_BLOCK = 1_000


def rendered_digits() -> Dataset:
    """Draw 10,000 digits in colour, 8,000 of them for training, always the same ones.

    The fonts are those that matplotlib carries. Every digit has a random face, size, place and
    turn; its colour and that of the ground are random but at least 90 of 255 steps of brightness
    apart; the ground is a gradient, a cloud or stripes, and fine noise lies over everything.

    Factors: ``font`` (position in :data:`FONTS`), ``polarity`` (0 dark on light, 1 light on dark),
    ``rotation`` (degrees, anticlockwise) and ``hue`` (of the digit, 0 to 1 around the colour
    circle from red). All are independent of the class and of one another.
    """
    rng = stream(0, "rendered-digits")
    count = _TRAIN + _TEST
    label = rng.permutation(np.arange(count) % 10)
    font = rng.integers(len(FONTS), size=count)
    polarity = rng.integers(2, size=count)
    rotation = rng.uniform(-20, 20, count)
    hue = rng.random(count)
    ink, ground = _colours(polarity, hue, rng)
    cover = _covers(label, font, rotation, rng)
    images = np.empty((count, _SIZE, _SIZE, 3), np.uint8)
    for start in range(0, count, _BLOCK):
        block = slice(start, start + _BLOCK)
        share = cover[block, :, :, np.newaxis].astype(np.float32) / 255
        ground_pixels = ground[block, np.newaxis, np.newaxis] + _textures(len(share), rng)
        pixels = ground_pixels + share * (ink[block, np.newaxis, np.newaxis] - ground_pixels)
        pixels += 5 * rng.standard_normal(pixels.shape, np.float32)
        images[block] = np.clip(np.rint(pixels), 0, 255)
    factors = {"font": font, "polarity": polarity, "rotation": rotation, "hue": hue}
    return Dataset.from_arrays(
        "rendered-digits",
        images[:_TRAIN],
        label[:_TRAIN],
        images[_TRAIN:],
        label[_TRAIN:],
        factors={name: (values[:_TRAIN], values[_TRAIN:]) for name, values in factors.items()},
        origin=(
            "Digits drawn by duotone from the DejaVu, STIX and Computer Modern fonts in "
            "matplotlib, a stand-in for SynthDigits (Ganin et al. 2016), not SynthDigits itself."
        ),
    )


def _covers(
    label: NDArray[np.int64],
    font: NDArray[np.int64],
    rotation: NDArray[np.float64],
    rng: np.random.Generator,
) -> NDArray[np.uint8]:
    """Draw each digit in white on black: how much of a pixel is ink, 0 to 255."""
    from PIL import Image

    glyphs = _glyphs()
    fine = _SIZE * _FINE
    height = rng.uniform(0.62, 0.9, len(label))  # of the image
    shift = rng.uniform(-1, 1, (len(label), 2)) * (1 - height[:, np.newaxis]) / 2
    angle = np.radians(rotation)
    step = _GLYPH / (height * fine)  # glyph pixels per fine pixel
    cos, sin = step * np.cos(angle), step * np.sin(angle)
    centre = fine * (0.5 + shift)
    middle = _GLYPH / 2
    # Pillow asks where in the glyph each pixel comes from: a turn about the centre of the image.
    matrices = np.stack(
        [
            *(cos, -sin, middle - cos * centre[:, 0] + sin * centre[:, 1]),
            *(sin, cos, middle - sin * centre[:, 0] - cos * centre[:, 1]),
        ],
        axis=1,
    )
    covers = np.empty((len(label), _SIZE, _SIZE), np.uint8)
    for row, matrix in enumerate(matrices.tolist()):
        glyph = glyphs[font[row]][label[row]]
        drawn = glyph.transform(
            (fine, fine), Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR
        )
        covers[row] = drawn.reduce(_FINE)
    return covers


def _glyphs() -> list[list[Image.Image]]:
    """Draw every digit of every font once, as high as its square and in the middle of it."""
    import matplotlib
    from PIL import Image, ImageDraw, ImageFont

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    glyphs = []
    for name in FONTS:
        path = folder / f"{name}.ttf"
        try:
            font = ImageFont.truetype(str(path), 2 * _GLYPH)
        except OSError as error:
            raise DataError(
                f"{path}: the font cannot be read ({error}); install matplotlib with its fonts."
            ) from error
        top, bottom = (font.getbbox("8", anchor="ls")[side] for side in (1, 3))
        font = ImageFont.truetype(str(path), 2 * _GLYPH * _GLYPH / (bottom - top))
        of_font = []
        for digit in "0123456789":
            image = Image.new("L", (_GLYPH, _GLYPH))
            left, upper, right, lower = font.getbbox(digit)
            place = ((_GLYPH - left - right) / 2, (_GLYPH - upper - lower) / 2)
            ImageDraw.Draw(image).text(place, digit, fill=255, font=font)
            of_font.append(image)
        glyphs.append(of_font)
    return glyphs


def _colours(
    polarity: NDArray[np.int64], hue: NDArray[np.float64], rng: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the colours of digit and ground, far enough apart in brightness."""
    count = len(polarity)
    gap = rng.uniform(90, 200, count)
    dark = rng.uniform(5, 250 - gap)
    light = dark + gap
    is_light = polarity == 1
    ink = _coloured(np.where(is_light, light, dark), hue, rng)
    ground = _coloured(np.where(is_light, dark, light), rng.random(count), rng)
    return ink, ground


def _coloured(
    brightness: NDArray[np.float64], hue: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float32]:
    """Return a colour of exactly this brightness and hue, more or less saturated."""
    pure = np.clip(np.abs((6 * hue[:, np.newaxis] + [0, 4, 2]) % 6 - 3) - 1, 0, 1)
    # Adding a direction without brightness leaves the brightness as it is; go some of the way to
    # the point where a channel would leave 0 to 255.
    direction = pure - (pure @ _LUMINANCE)[:, np.newaxis]
    level = brightness[:, np.newaxis]
    room = np.where(direction > 0, 255 - level, level) / np.maximum(np.abs(direction), 1e-6)
    way = room.min(axis=1) * rng.uniform(0.2, 1, len(brightness))
    colour: NDArray[np.float64] = level + way[:, np.newaxis] * direction
    return colour.astype(np.float32)


def _textures(count: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Return what a ground adds to its colour: a gradient, a cloud or stripes."""
    y, x = (np.mgrid[:_SIZE, :_SIZE].astype(np.float32) / (_SIZE - 1)) - 0.5
    kind = rng.integers(3, size=count)
    angle = rng.uniform(0, 2 * np.pi, (count, 1, 1)).astype(np.float32)
    along = np.cos(angle) * x + np.sin(angle) * y
    period = rng.uniform(0.12, 0.4, (count, 1, 1)).astype(np.float32)
    stripes = np.sin(2 * np.pi * along / period)
    clouds = _clouds(count, rng)
    pattern = np.choose(kind[:, np.newaxis, np.newaxis], [2 * along, clouds, stripes])
    # Per channel, so that the hue of the ground varies as well.
    strength = rng.uniform(5, 28, (count, 1, 1, 1)) * rng.uniform(0.4, 1, (count, 1, 1, 3))
    return pattern[..., np.newaxis] * strength.astype(np.float32)


def _clouds(count: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Return smooth noise between about -1 and 1: a coarse grid of values, interpolated."""
    grid = rng.uniform(-1, 1, (count, 6, 6)).astype(np.float32)
    position = np.linspace(0, 5, _SIZE, dtype=np.float32)
    distance = np.abs(position[:, np.newaxis] - np.arange(6))
    weights = np.maximum(1 - distance, 0).astype(np.float32)
    clouds: NDArray[np.float32] = weights @ grid @ weights.T
    return clouds
