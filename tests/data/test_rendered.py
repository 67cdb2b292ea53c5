from __future__ import annotations

import colorsys

import numpy as np
import pytest

from duotone.data import rendered
from duotone.data.dataset import Dataset
from duotone.errors import DataError


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return rendered.rendered_digits()


def brightness(images: np.ndarray) -> np.ndarray:
    return images @ np.array([0.299, 0.587, 0.114])


def test_there_are_8000_training_and_2000_test_images_in_balanced_classes(
    dataset: Dataset,
) -> None:
    assert dataset.x.shape == (10_000, 28, 28, 3)
    assert np.bincount(dataset.y).tolist() == [1000] * 10
    assert len(dataset.test_rows) == 2000
    assert np.bincount(dataset.y[dataset.test_rows]).min() > 150


def test_it_says_that_it_is_a_stand_in(dataset: Dataset) -> None:
    assert "stand-in for SynthDigits" in dataset.origin


def test_polarity_says_whether_the_digit_is_lighter_than_its_ground(dataset: Dataset) -> None:
    grey = brightness(dataset.x)
    border = np.concatenate(
        [grey[:, :2].reshape(len(grey), -1), grey[:, -2:].reshape(len(grey), -1)], 1
    )
    ground = np.median(border, axis=1)
    away = grey.reshape(len(grey), -1) - ground[:, np.newaxis]
    strongest = np.take_along_axis(away, np.abs(away).argmax(axis=1)[:, np.newaxis], 1)[:, 0]
    assert np.mean((strongest > 0) == (dataset.factors["polarity"] == 1)) > 0.98


def test_factors_are_independent_of_the_class(dataset: Dataset) -> None:
    for values in dataset.factors.values():
        means = [values[dataset.y == label].mean() for label in range(10)]
        # Ten means of 1,000 values each: six standard errors are enough room for chance.
        assert np.ptp(means) < 6 * values.std() / np.sqrt(1000)


def test_a_turned_digit_turns_anticlockwise() -> None:
    label, font = np.array([1, 1, 1]), np.zeros(3, np.int64)
    drawn = rendered._covers(label, font, np.array([0.0, 20.0, -20.0]), np.random.default_rng(0))
    rows, columns = np.mgrid[:28, :28]
    lean = [np.cov(columns.ravel(), -rows.ravel(), aweights=image.ravel())[0, 1] for image in drawn]
    # Anticlockwise, the top of a one moves left: columns fall where height rises.
    assert lean[1] < lean[0] < lean[2]


def test_colours_have_exactly_the_brightness_and_hue_asked_for() -> None:
    rng = np.random.default_rng(0)
    level, hue = rng.uniform(5, 250, 200), rng.random(200)
    colours = rendered._coloured(level, hue, rng)
    assert colours.min() > -0.1
    assert colours.max() < 255.1
    np.testing.assert_allclose(brightness(colours), level, atol=0.01)
    found = np.array([colorsys.rgb_to_hsv(*colour)[0] for colour in colours.tolist()])
    distance = np.abs((found - hue + 0.5) % 1 - 0.5)
    assert distance.max() < 0.01


def test_every_face_draws_ten_different_digits_in_full() -> None:
    for glyphs in rendered._glyphs():
        pixels = [np.asarray(glyph) for glyph in glyphs]
        assert len({image.tobytes() for image in pixels}) == 10
        for image in pixels:
            used = np.flatnonzero(image.max(axis=1) > 128)
            assert used[-1] - used[0] > 0.9 * len(image)


def test_missing_fonts_are_an_error_that_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rendered, "FONTS", ("NoSuchFace",))
    with pytest.raises(DataError, match=r"NoSuchFace\.ttf: .*install matplotlib"):
        rendered._glyphs()
