from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import label as connected

from duotone.data.dataset import Dataset
from duotone.data.styles import (
    _DEFINITIONS,
    STYLE_FACTORS,
    STYLE_SETS,
    apply_styles,
    styles_of,
    styles_of_role,
)
from duotone.errors import DataError, UnknownNameError


def blank(rows: int, *form: int, value: int = 0) -> Dataset:
    x = np.full((rows, *form), value, np.uint8)
    y = np.zeros(rows, np.int64)
    return Dataset.from_arrays("blank", x[1:], y[1:], x[:1], y[:1])


def noise(rows: int, *form: int) -> Dataset:
    x = np.random.default_rng(0).integers(0, 256, (rows, *form), np.uint8)
    y = np.zeros(rows, np.int64)
    return Dataset.from_arrays("noise", x[1:], y[1:], x[:1], y[:1])


def styled(dataset: Dataset, style_set: str, style: str, seed: int = 0) -> Dataset:
    numbers = np.full(len(dataset), styles_of(style_set).index(style))
    return apply_styles(dataset, style_set, numbers, seed=seed)


def test_styles_are_numbered_in_this_order() -> None:
    assert styles_of("none") == ()
    assert styles_of("marks") == ("none", "sine-columns", "sine-rows", "ellipse")
    assert styles_of("padpaf4") == ("zoom-in", "zoom-out", "invert", "blur")
    eight = (*styles_of("padpaf4"), "left-right", "upside-down", "rotation", "brightness")
    assert styles_of("padpaf8") == eight
    assert styles_of("padpaf-new") == (*eight, "affine", "solarize", "erase")
    assert len(styles_of("padpaf10")) == 10


def test_newcomers_begin_with_the_second_style_or_have_styles_of_their_own() -> None:
    assert styles_of_role("padpaf4", "member") == styles_of("padpaf4")
    assert styles_of_role("padpaf4", "newcomer") == ("zoom-out", "invert", "blur", "zoom-in")
    assert styles_of_role("padpaf-new", "member") == styles_of("padpaf8")
    assert styles_of_role("padpaf-new", "newcomer") == ("affine", "solarize", "erase")
    assert styles_of_role("none", "newcomer") == ()


def test_every_style_set_is_defined() -> None:
    assert ("none", *_DEFINITIONS) == STYLE_SETS


def test_an_unknown_style_set_is_met_with_the_nearest_one() -> None:
    with pytest.raises(UnknownNameError, match=r"'mark'\. Did you mean 'marks'\?"):
        styles_of("mark")


def test_no_style_leaves_the_data_as_it_is() -> None:
    dataset = blank(3, 8, 8)
    assert apply_styles(dataset, "none", np.full(3, -1), seed=0) is dataset


def test_given_data_is_not_changed() -> None:
    dataset = noise(6, 28, 28)
    before = dataset.fingerprint()
    for style_set in ("marks", "padpaf4", "padpaf8", "padpaf-new"):
        apply_styles(dataset, style_set, np.arange(6) % 4, seed=0)
    assert dataset.fingerprint() == before
    assert not dataset.factors


def test_sinusoid_passes_every_column_once_per_phase() -> None:
    dataset = styled(blank(50, 28, 28), "marks", "sine-columns")
    for image, phase in zip(dataset.x, dataset.factors["phase"], strict=True):
        rows, columns = np.nonzero(image)
        assert set(columns) == set(range(1, 27))
        assert (rows.min(), rows.max()) == (1, 26)
        # A column stands for an angle; the curve passes it at the height of the sine.
        for column in range(1, 27):
            height = 13.5 + 12.5 * np.sin(2 * np.pi * (column - 1) / 25 + phase)
            assert np.abs(rows[columns == column] - height).min() <= 1.1


def test_sinusoid_across_the_rows_is_the_other_one_with_axes_swapped() -> None:
    numbers = np.full(5, 1)
    columns = apply_styles(blank(5, 28, 20), "marks", numbers, seed=3)
    rows = apply_styles(blank(5, 20, 28), "marks", numbers + 1, seed=3)
    np.testing.assert_array_equal(rows.x, columns.x.swapaxes(1, 2))


def test_ellipse_has_the_right_axes_and_turn() -> None:
    dataset = styled(blank(50, 28, 28), "marks", "ellipse")
    for image, phase in zip(dataset.x, dataset.factors["phase"], strict=True):
        rows, columns = np.nonzero(image)
        rotation = phase / 2
        x, y = columns - 13.5, rows - 13.5
        along = x * np.cos(rotation) + y * np.sin(rotation)
        across = -x * np.sin(rotation) + y * np.cos(rotation)
        assert np.abs(along).max() == pytest.approx(12.5, abs=0.8)
        # The minor axis is 12.5 · √(1 - 0.9²) ≈ 5.45.
        assert np.abs(across).max() == pytest.approx(5.45, abs=0.8)


@settings(deadline=None, max_examples=40)
@given(
    height=st.integers(8, 70),
    width=st.integers(8, 70),
    style=st.sampled_from(["sine-columns", "sine-rows", "ellipse"]),
    seed=st.integers(0, 1000),
)
def test_marks_are_one_unbroken_line_inside_images_of_any_size(
    height: int, width: int, style: str, seed: int
) -> None:
    dataset = styled(blank(3, height, width, 3), "marks", style, seed)
    assert set(np.unique(dataset.x)) == {0, 255}
    np.testing.assert_array_equal(dataset.x[..., 0], dataset.x[..., 2])
    for image in dataset.x[..., 0]:
        _, pieces = connected(image, np.ones((3, 3)))
        assert pieces == 1
        # A thick line or a filled shape would have far more pixels.
        assert (image > 0).sum() <= 4 * (height + width)


def test_marks_are_the_maximum_of_image_and_line() -> None:
    dataset = noise(8, 28, 28)
    marked = styled(dataset, "marks", "ellipse")
    line = styled(blank(8, 28, 28), "marks", "ellipse").x
    np.testing.assert_array_equal(marked.x, np.maximum(dataset.x, line))


def test_phases_are_uniform_over_the_circle() -> None:
    phase = styled(blank(4000, 8, 8), "marks", "ellipse").factors["phase"]
    assert (phase.min() >= 0) & (phase.max() < 2 * np.pi)
    # 1,000 expected in each quarter, with a standard deviation of 27.
    assert np.abs(np.histogram(phase, 4, (0, 2 * np.pi))[0] - 1000).max() < 5 * 27


def test_factors_of_marks_record_the_style_and_have_a_phase_only_with_a_mark() -> None:
    dataset = apply_styles(blank(5, 8, 8), "marks", np.array([0, 1, 2, 3, -1]), seed=0)
    assert dataset.factors["mark"].tolist() == [0, 1, 2, 3, -1]
    assert np.isnan(dataset.factors["phase"]).tolist() == [True, False, False, False, True]
    assert dataset.x[[0, 4]].max() == 0


def test_factors_of_transforms_record_the_style_and_have_a_width_only_with_blur() -> None:
    dataset = apply_styles(noise(5, 8, 8), "padpaf4", np.array([0, 1, 2, 3, -1]), seed=0)
    assert dataset.factors["style"].tolist() == [0, 1, 2, 3, -1]
    assert np.isnan(dataset.factors["blur"]).tolist() == [True, True, True, False, True]
    assert 1 <= dataset.factors["blur"][3] <= 2
    np.testing.assert_array_equal(dataset.x[4], noise(5, 8, 8).x[4])


@pytest.mark.parametrize("style_set", STYLE_SETS[1:])
def test_the_style_of_a_row_depends_on_seed_and_row_alone(
    style_set: str,
) -> None:
    dataset = noise(40, 28, 28, 3)
    everybody = np.arange(40) % len(styles_of(style_set))
    alone = np.where(np.arange(40) == 7, everybody, -1)
    one = apply_styles(dataset, style_set, everybody, seed=1)
    other = apply_styles(dataset, style_set, alone, seed=1)
    np.testing.assert_array_equal(one.x[7], other.x[7])
    np.testing.assert_array_equal(other.x[8], dataset.x[8])
    assert apply_styles(dataset, style_set, everybody, seed=2).fingerprint() != one.fingerprint()
    assert apply_styles(dataset, style_set, everybody, seed=1).fingerprint() == one.fingerprint()


@pytest.mark.parametrize(
    ("style_set", "style", "ranges"),
    [
        ("padpaf8", "blur", {"blur": (0.1, 2)}),
        ("padpaf8", "rotation", {"rotation": (-40, 40)}),
        ("padpaf8", "brightness", {"brightness": (0.2, 1.8)}),
        ("padpaf8", "left-right", {}),
        ("padpaf-new", "affine", {"rotation": (-70, -30), "scale": (0.5, 0.75)}),
        ("padpaf-new", "erase", {"erased": (0.02, 0.1)}),
        ("padpaf10", "tint", {"red": (0, 1), "green": (0, 1), "blue": (0, 1)}),
    ],
)
def test_true_amounts_of_a_style_are_recorded_and_no_others(
    style_set: str, style: str, ranges: dict[str, tuple[float, float]]
) -> None:
    factors = dict(styled(noise(400, 8, 8, 3), style_set, style).factors)
    assert set(factors.pop("style")) == {styles_of(style_set).index(style)}
    for name, values in factors.items():
        if name not in ranges:
            assert np.isnan(values).all()
            continue
        low, high = ranges[name]
        # With 400 draws the ends are missed by 5 % of the range once in 10⁹ times.
        assert low <= values.min() < low + 0.05 * (high - low)
        assert high >= values.max() > high - 0.05 * (high - low)
    assert ranges.keys() <= factors.keys() <= set(STYLE_FACTORS)


def test_a_recorded_rotation_is_the_one_that_was_made() -> None:
    dataset = blank(20, 29, 29)
    dataset.x[:, 13:16, 14:27] = 255  # a bar from the middle to the right
    turned = styled(dataset, "padpaf8", "rotation")
    for image, degrees in zip(turned.x, turned.factors["rotation"], strict=True):
        rows, columns = np.nonzero(image > 127)
        found = np.rad2deg(np.arctan2(14 - rows.mean(), columns.mean() - 14))
        assert found == pytest.approx(degrees, abs=2)


def test_zoom_in_of_small_photographs_keeps_22_of_32_pixels() -> None:
    dataset = blank(2, 32, 32, 3)
    dataset.x[:, 5:27, 5:27] = 200
    assert styled(dataset, "padpaf10", "zoom-in").x.min() == 200
    dataset.x[:, 5] = 0
    assert styled(dataset, "padpaf10", "zoom-in").x.min() == 0


def test_grey_images_get_no_style_that_changes_colours() -> None:
    with pytest.raises(DataError, match="changes colours, but the images of 'blank' are grey"):
        apply_styles(blank(2, 8, 8), "padpaf10", np.zeros(2, np.int64), seed=0)


@settings(deadline=None, max_examples=30)
@given(
    style_set=st.sampled_from(["padpaf4", "padpaf8", "padpaf-new", "padpaf10"]),
    height=st.integers(8, 40),
    width=st.integers(8, 40),
    channels=st.sampled_from([(), (1,), (3,)]),
)
def test_transforms_keep_the_form_of_the_images(
    style_set: str, height: int, width: int, channels: tuple[int, ...]
) -> None:
    if style_set == "padpaf10":
        channels = (3,)
    numbers = np.arange(len(styles_of(style_set)))
    dataset = noise(len(numbers), height, width, *channels)
    new = apply_styles(dataset, style_set, numbers, seed=0)
    assert new.x.shape == dataset.x.shape
    assert new.x.dtype == np.uint8


def test_a_table_gets_no_style() -> None:
    x, y = np.zeros((2, 9), np.float32), np.zeros(2, np.int64)
    table = Dataset.from_arrays("table", x, y, x, y)
    with pytest.raises(DataError, match="'table' is a table"):
        apply_styles(table, "marks", np.zeros(4, np.int64), seed=0)


def test_tiny_images_get_no_style() -> None:
    with pytest.raises(DataError, match="at least 8×8"):
        apply_styles(blank(2, 8, 7), "marks", np.zeros(2, np.int64), seed=0)


@pytest.mark.parametrize("numbers", [[0, 4], [-2, 0], [0], [[0, 1]]])
def test_numbers_that_do_not_exist_or_fit_are_refused(numbers: list[int]) -> None:
    with pytest.raises(DataError, match="a kind from -1 to 3 for each of the 2 rows"):
        apply_styles(blank(2, 8, 8), "marks", np.array(numbers), seed=0)


def test_a_style_is_not_put_over_itself() -> None:
    once = styled(blank(2, 8, 8), "marks", "ellipse")
    with pytest.raises(DataError, match="factor 'mark'"):
        styled(once, "marks", "ellipse")
