from __future__ import annotations

import numpy as np
import pytest

from duotone.data import transforms
from duotone.data.transforms import Images


def blank(*form: int, value: int = 0) -> Images:
    return np.full((1, *form), value, np.uint8)


def noise(*form: int) -> Images:
    return np.random.default_rng(0).integers(0, 256, form, np.uint8)


def one(value: float) -> np.ndarray:
    return np.array([value], float)


def rows_of(*rows: str) -> Images:
    """Return a grey image drawn with digits, 9 being white."""
    values = np.array([[int(pixel) for pixel in row] for row in rows])
    return np.rint(values * 255 / 9).astype(np.uint8)[np.newaxis, ..., np.newaxis]


def test_zoom_in_enlarges_the_middle_22_of_28_pixels() -> None:
    images = blank(28, 28, 1)
    images[:, 3:25, 3:25] = 200
    assert transforms.zoom_in(images, keep=22, of=28).min() == 200
    images[:, 3] = 0
    assert transforms.zoom_in(images, keep=22, of=28).min() == 0


def test_zoom_out_puts_the_image_at_half_size_in_black() -> None:
    (small,) = transforms.zoom_out(blank(28, 28, 3, value=200))
    assert small[8:20, 8:20].min() == 200
    assert small.sum() == pytest.approx(200 * 14 * 14 * 3, rel=0.01)
    assert small[:6].max() == small[22:].max() == small[:, :6].max() == small[:, 22:].max() == 0


def test_invert_turns_every_value_around() -> None:
    images = noise(3, 9, 8, 3)
    np.testing.assert_array_equal(transforms.invert(images), 255 - images)


def test_blur_of_a_point_is_a_gaussian_of_five_by_five_pixels() -> None:
    images = np.repeat(blank(11, 11, 1), 3, axis=0)
    images[:, 5, 5] = 255
    sigmas = np.array([0.1, 1, 2])
    for image, sigma in zip(transforms.blur(images, sigmas)[..., 0], sigmas, strict=True):
        taps = np.exp(-np.array([4, 1, 0, 1, 4]) / (2 * sigma**2))
        taps /= taps.sum()
        np.testing.assert_allclose(image[3:8, 3:8], 255 * np.outer(taps, taps), atol=0.51)
        assert image[:3].max() == image[8:].max() == 0


def test_blur_leaves_an_even_image_alone() -> None:
    images = blank(8, 8, 3, value=77)
    np.testing.assert_array_equal(transforms.blur(images, one(1.5)), images)


def test_flips_mirror_a_corner_to_the_neighbouring_one() -> None:
    images = rows_of("900", "000", "000")
    np.testing.assert_array_equal(transforms.flip_left_right(images), rows_of("009", "000", "000"))
    np.testing.assert_array_equal(transforms.flip_upside_down(images), rows_of("000", "000", "900"))


def test_a_quarter_turn_is_counter_clockwise_and_exact() -> None:
    images = rows_of("123", "456", "789")
    np.testing.assert_array_equal(transforms.rotate(images, one(90)), rows_of("369", "258", "147"))
    np.testing.assert_array_equal(transforms.rotate(images, one(0)), images)


def test_what_a_rotation_brings_in_is_black() -> None:
    turned = transforms.rotate(blank(9, 9, 1, value=255), one(45))[0, ..., 0]
    # The corners are 5.7 from the middle; after the turn only 4 are left there.
    assert [turned[0, 0], turned[0, 8], turned[8, 0], turned[8, 8]] == [0, 0, 0, 0]
    assert turned[4].min() == 255


def test_affine_moves_by_shares_of_the_sides() -> None:
    images = rows_of("00000", "00000", "00900", "00000", "00000")
    moved = transforms.affine(images, one(0), one(1), one(0.4), one(-0.2))
    np.testing.assert_array_equal(moved, rows_of("00000", "00009", "00000", "00000", "00000"))


def test_affine_scales_about_the_middle() -> None:
    images = rows_of("90909", "00000", "90909", "00000", "90909")
    small = transforms.affine(images, one(0), one(0.5), one(0), one(0))
    np.testing.assert_array_equal(small, rows_of("00000", "09990", "09990", "09990", "00000"))


def test_affine_turns_then_moves() -> None:
    images = rows_of("00000", "00000", "00009", "00000", "00000")
    moved = transforms.affine(images, one(90), one(1), one(0.2), one(0))
    np.testing.assert_array_equal(moved, rows_of("00090", "00000", "00000", "00000", "00000"))


def test_perspective_that_moves_no_corner_changes_nothing() -> None:
    images = noise(2, 7, 9, 3)
    still = [np.zeros(2)] * 8
    np.testing.assert_array_equal(transforms.perspective(images, *still), images)


def test_perspective_brings_the_corners_where_they_were_pulled() -> None:
    images = blank(9, 9, 1)
    images[0, [0, 0, 8, 8], [0, 8, 8, 0]] = [[50], [100], [150], [200]]
    # Half a side is 4: a pull of one half is 2 pixels, of one quarter 1.
    pulls = [0.5, 0.25, 0, 0, 0.25, 0.5, 0, 0]
    (pulled,) = transforms.perspective(images, *(one(pull) for pull in pulls))
    assert pulled[1, 2, 0] == 50
    assert pulled[0, 8, 0] == 100
    assert pulled[6, 7, 0] == 150
    assert pulled[8, 0, 0] == 200


def test_brightness_multiplies_and_stops_at_white() -> None:
    images = np.array([10, 100, 200], np.uint8).reshape(1, 1, 3, 1)
    assert transforms.brighten(images, one(1.5)).ravel().tolist() == [15, 150, 255]
    assert transforms.brighten(images, one(0.2)).ravel().tolist() == [2, 20, 40]


def test_solarize_inverts_from_192_on() -> None:
    images = np.array([0, 191, 192, 255], np.uint8).reshape(1, 1, 4, 1)
    assert transforms.solarize(images).ravel().tolist() == [0, 191, 63, 0]


def test_erase_covers_a_rectangle_of_the_right_size_and_place() -> None:
    images = blank(10, 10, 1, value=255)
    # 8 of 100 pixels, twice as high as wide: 4 × 2, in the lower left corner.
    (image,) = transforms.erase(images, one(0.08), one(np.log(2)), one(0), one(1))
    rows, columns = np.nonzero(image[..., 0] == 128)
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (6, 9, 0, 1)
    assert (image == 255).sum() == 92


def test_grey_weighs_colours_as_the_eye_does() -> None:
    images = np.array([[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255]], np.uint8)
    light = transforms.grey(images.reshape(1, 1, 4, 3))[0, 0]
    assert light.tolist() == [[76] * 3, [150] * 3, [29] * 3, [255] * 3]


def test_tint_damps_and_shifts_each_colour() -> None:
    images = np.array([255, 255, 0], np.uint8).reshape(1, 1, 1, 3)
    amounts = [one(value) for value in (1, 0.5, 0.5, 0, 0, 1)]
    # Of values from -1 to 1: 1 · 1 = 1; 1 · 0.5 = 0.5; (-1 + 0.5) · 0.5 = -0.25.
    assert transforms.tint(images, *amounts).ravel().tolist() == [255, 191, 96]
    # The same as shares of white, black below 0.
    assert transforms.harsh_tint(images, *amounts).ravel().tolist() == [255, 128, 0]
