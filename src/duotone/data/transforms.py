"""Transforms of images, those of PaDPaF: each a pure function of images and amounts.

Images are ``(rows, height, width, channels)``, amounts one number per row. Where pixels have to be
made up from between others they are interpolated, and what lies outside an image is black.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from duotone.data.resize import resized

Images: TypeAlias = NDArray[np.uint8]
Amounts: TypeAlias = NDArray[np.float64]

_ERASED = 128


def as_it_is(images: Images) -> Images:
    """Change nothing."""
    return images


def zoom_in(images: Images, *, keep: int, of: int) -> Images:
    """Enlarge the middle of each image: of every ``of`` pixels of a side ``keep`` are seen."""
    height, width = images.shape[1:3]
    inner_height, inner_width = round(keep * height / of), round(keep * width / of)
    top, left = (height - inner_height) // 2, (width - inner_width) // 2
    inner = images[:, top : top + inner_height, left : left + inner_width]
    return resized(inner, height, width)


def zoom_out(images: Images) -> Images:
    """Show each image at half its size in black."""
    height, width = images.shape[1:3]
    rows, columns = round(height / 2), round(width / 2)
    padded = np.pad(images, ((0, 0), (rows, rows), (columns, columns), (0, 0)))
    return resized(padded, height, width)


def invert(images: Images) -> Images:
    """Turn bright into dark."""
    return 255 - images


def blur(images: Images, sigma: Amounts) -> Images:
    """Blur with a Gaussian of 5×5 pixels, the image mirrored at its borders."""
    weights = np.exp(-0.5 * (np.arange(-2, 3) / sigma[:, np.newaxis]) ** 2)
    weights = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
    weights = weights[..., np.newaxis, np.newaxis, np.newaxis]
    height, width = images.shape[1:3]
    padded = np.pad(images, ((0, 0), (2, 2), (2, 2), (0, 0)), mode="reflect")
    down = sum(weights[:, k] * padded[:, k : k + height] for k in range(5))
    both: NDArray[np.float32] = sum(weights[:, k] * down[:, :, k : k + width] for k in range(5))
    return np.rint(both).astype(np.uint8)


def flip_left_right(images: Images) -> Images:
    """Mirror each image at its vertical axis."""
    return images[:, :, ::-1]


def flip_upside_down(images: Images) -> Images:
    """Mirror each image at its horizontal axis."""
    return images[:, ::-1]


def rotate(images: Images, degrees: Amounts) -> Images:
    """Turn each image around its middle, counter-clockwise."""
    nothing = np.zeros(len(images))
    return affine(images, degrees, nothing + 1, nothing, nothing)


def affine(
    images: Images, degrees: Amounts, scale: Amounts, right: Amounts, down: Amounts
) -> Images:
    """Turn each image counter-clockwise, scale it and move it.

    Args:
        images: The images.
        degrees: How far to turn them around their middle.
        scale: Their new size as a share of the old one.
        right: How far to move them to the right, as a share of the width.
        down: Likewise downwards, of the height.
    """
    height, width = images.shape[1:3]
    row, column = _from_the_middle(height, width)
    x = column - (width * right)[:, np.newaxis, np.newaxis]
    y = row - (height * down)[:, np.newaxis, np.newaxis]
    angle = np.deg2rad(degrees)[:, np.newaxis, np.newaxis]
    size = scale[:, np.newaxis, np.newaxis]
    # Rows count downwards, so this takes a counter-clockwise turn back.
    source_x = (np.cos(angle) * x - np.sin(angle) * y) / size
    source_y = (np.sin(angle) * x + np.cos(angle) * y) / size
    return _sampled(images, source_y + (height - 1) / 2, source_x + (width - 1) / 2)


def perspective(images: Images, *inwards: Amounts) -> Images:
    """Pull the corners of each image inwards, as if it were seen from aside.

    Args:
        images: The images.
        inwards: Eight amounts: of the upper left, upper right, lower right and lower left corner
            how far it moves horizontally and vertically, as a share of half the side.
    """
    height, width = images.shape[1:3]
    side = np.array([width - 1, height - 1])
    corners = np.array([[0, 0], [1, 0], [1, 1], [0, 1]]) * side
    moved = np.stack(inwards, axis=1).reshape(-1, 4, 2) * side / 2
    new = corners + moved * np.where(corners > 0, -1, 1)
    # Of a homography from new to old places eight numbers are unknown, and four corners are known.
    x, y = new[..., 0], new[..., 1]
    one, none = np.ones_like(x), np.zeros_like(x)
    old_x, old_y = np.broadcast_to(corners[:, 0], x.shape), np.broadcast_to(corners[:, 1], y.shape)
    for_x = np.stack([x, y, one, none, none, none, -x * old_x, -y * old_x], axis=2)
    for_y = np.stack([none, none, none, x, y, one, -x * old_y, -y * old_y], axis=2)
    known = np.concatenate([old_x, old_y], axis=1)[..., np.newaxis]
    found = np.linalg.solve(np.concatenate([for_x, for_y], axis=1), known)
    a, b, c, d, e, f, g, h = found.swapaxes(0, 1)[..., np.newaxis]
    row, column = np.mgrid[:height, :width]
    depth = g * column + h * row + 1
    return _sampled(images, (d * column + e * row + f) / depth, (a * column + b * row + c) / depth)


def brighten(images: Images, factor: Amounts) -> Images:
    """Multiply every value; what becomes brighter than white is white."""
    return _in_bytes(images * factor[:, np.newaxis, np.newaxis, np.newaxis])


def solarize(images: Images) -> Images:
    """Invert what is brighter than three quarters (192 of 255)."""
    return np.where(images >= 192, 255 - images, images)


def erase(images: Images, area: Amounts, ratio: Amounts, across: Amounts, down: Amounts) -> Images:
    """Cover a rectangle of each image with grey.

    Args:
        images: The images.
        area: Of the rectangle, as a share of the image.
        ratio: The logarithm of its height over its width.
        across: Where it lies between the left (0) and the right (1) border.
        down: Where it lies between the upper (0) and the lower (1) border.
    """
    height, width = images.shape[1:3]
    pixels = area * height * width
    tall = np.clip(np.rint(np.sqrt(pixels * np.exp(ratio))), 1, height)
    wide = np.clip(np.rint(np.sqrt(pixels / np.exp(ratio))), 1, width)
    top, left = np.rint(down * (height - tall)), np.rint(across * (width - wide))
    row, column = np.arange(height), np.arange(width)
    in_rows = (row >= top[:, np.newaxis]) & (row < (top + tall)[:, np.newaxis])
    in_columns = (column >= left[:, np.newaxis]) & (column < (left + wide)[:, np.newaxis])
    is_covered = in_rows[:, :, np.newaxis] & in_columns[:, np.newaxis]
    return np.where(is_covered[..., np.newaxis], np.uint8(_ERASED), images)


def grey(images: Images) -> Images:
    """Take the colours away, keeping the brightness the eye sees."""
    light = images @ np.array([0.299, 0.587, 0.114])
    return np.repeat(_in_bytes(light)[..., np.newaxis], 3, axis=3)


def tint(images: Images, *amounts: Amounts) -> Images:
    """Shift and damp each colour: (x + shift / 2) · gain, with values from −1 to 1.

    Args:
        images: Images in colour.
        amounts: Three gains and three shifts, of red, green and blue.
    """
    return _in_bytes(127.5 * (_tinted(images, amounts) + 1))


def harsh_tint(images: Images, *amounts: Amounts) -> Images:
    """Do what :func:`tint` does, then show what is above the middle; what is below is black."""
    return _in_bytes(255 * _tinted(images, amounts))


def _tinted(images: Images, amounts: tuple[Amounts, ...]) -> Amounts:
    both = np.stack(amounts, axis=1)[:, np.newaxis, np.newaxis]
    gain, shift = both[..., :3], both[..., 3:]
    values: Amounts = (images / 127.5 - 1 + 0.5 * shift) * gain
    return values


def _from_the_middle(height: int, width: int) -> tuple[Amounts, Amounts]:
    row, column = np.mgrid[:height, :width]
    return row - (height - 1) / 2, column - (width - 1) / 2


def _sampled(images: Images, row: Amounts, column: Amounts) -> Images:
    """Return images whose pixels are taken from these places of the old ones."""
    import torch
    from torch.nn.functional import grid_sample

    height, width = images.shape[1:3]
    place = np.stack([2 * column / (width - 1) - 1, 2 * row / (height - 1) - 1], axis=3)
    new = grid_sample(
        torch.from_numpy(images.astype(np.float64)).permute(0, 3, 1, 2),
        torch.from_numpy(place),
        align_corners=True,
    )
    return _in_bytes(new.permute(0, 2, 3, 1).numpy())


def _in_bytes(values: Amounts) -> Images:
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)
