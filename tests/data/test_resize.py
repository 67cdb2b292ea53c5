from __future__ import annotations

import numpy as np

from duotone.data.resize import resized


def test_same_size_changes_nothing() -> None:
    images = np.random.default_rng(0).integers(0, 256, (3, 5, 7), np.uint8)
    np.testing.assert_array_equal(resized(images, 5, 7), images)


def test_doubling_a_row_interpolates_between_pixel_centres() -> None:
    # New centres lie at -0.25, 0.25, 0.75, 1.25 of the old ones: 0, 25, 75 and 100 %.
    images = np.array([[[0, 200]]], np.uint8)
    assert resized(images, 1, 4).tolist() == [[[0, 50, 150, 200]]]


def test_shrinking_smooths_instead_of_dropping_pixels() -> None:
    # The new centres lie between two zeros; only smoothing sees the values beside them.
    stripes = np.tile(np.array([200, 0, 0, 200], np.uint8), 8)[np.newaxis, np.newaxis]
    assert resized(stripes, 1, 8)[0, 0, 1:-1].tolist() == [100] * 6


def test_channels_stay_apart_and_many_images_stay_in_order() -> None:
    values = np.random.default_rng(0).integers(0, 256, (5000, 1, 1, 3), np.uint8)
    new = resized(np.tile(values, (1, 4, 4, 1)), 2, 3)
    assert new.shape == (5000, 2, 3, 3)
    np.testing.assert_array_equal(new, np.tile(values, (1, 2, 3, 1)))
