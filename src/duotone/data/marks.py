"""Marks drawn over images: the sinusoids and ellipses of FedDVA.

Sizes are those of the paper's images of 28×28 pixels and scale with the image.
"""

from __future__ import annotations

import numpy as np

from duotone.data.transforms import Amounts, Images

_PAPER_SIZE = 28


def sine_columns(images: Images, phase: Amounts) -> Images:
    """Draw a sinusoid across the columns."""
    height, width = images.shape[1:3]
    angle = _angles(images)
    # One period from edge to edge, and the wave as high as the image, less the padding.
    column = (width - 1) / 2 + _scaled(25, width) * (angle / (2 * np.pi) - 0.5)
    row = (height - 1) / 2 + _scaled(12.5, height) * np.sin(angle + phase[:, np.newaxis])
    return _draw(images, row, column)


def sine_rows(images: Images, phase: Amounts) -> Images:
    """Draw a sinusoid across the rows."""
    swapped = sine_columns(images.swapaxes(1, 2), phase)
    return swapped.swapaxes(1, 2)


def ellipse(images: Images, phase: Amounts) -> Images:
    """Draw an ellipse that is turned by half the phase."""
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
    """Return images with points in white, which is the maximum of image and mark."""
    drawn = images.copy()
    image = np.arange(len(images))[:, np.newaxis]
    drawn[image, np.rint(row).astype(np.intp), np.rint(column).astype(np.intp)] = 255
    return drawn


def _scaled(length: float, size: int) -> float:
    """Return what a length in an image of 28 pixels is in one of this size."""
    return length * size / _PAPER_SIZE
