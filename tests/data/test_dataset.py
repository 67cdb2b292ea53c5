from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from duotone.data.dataset import Dataset
from duotone.errors import DataError


def arrays(**changes: Any) -> dict[str, Any]:
    given = {
        "x_train": np.zeros((3, 4, 4), np.uint8),
        "y_train": np.array([0, 1, 2]),
        "x_test": np.ones((2, 4, 4), np.uint8),
        "y_test": np.array([1, 0]),
    }
    return given | changes


def test_training_rows_come_first_and_test_rows_after_them() -> None:
    dataset = Dataset.from_arrays("toy", **arrays())
    assert dataset.train_rows.tolist() == [0, 1, 2]
    assert dataset.test_rows.tolist() == [3, 4]
    assert dataset.y.tolist() == [0, 1, 2, 1, 0]
    assert dataset.classes == 3


def test_float_labels_are_regression_targets() -> None:
    dataset = Dataset.from_arrays("toy", **arrays(y_train=np.zeros(3), y_test=np.ones(2)))
    assert dataset.classes == 0
    assert dataset.y.dtype == np.float32


def test_texts_are_classes_in_their_sorted_order() -> None:
    labels = {"y_train": np.array(["cat", "ape", "dog"]), "y_test": np.array(["dog", "ape"])}
    dataset = Dataset.from_arrays("toy", **arrays(**labels))
    assert dataset.class_names == ("ape", "cat", "dog")
    assert dataset.y.tolist() == [1, 0, 2, 2, 0]
    assert dataset.y.dtype == np.int64
    assert dataset.classes == 3
    named = Dataset.from_arrays("toy", **arrays(**labels), class_names=["dog", "cat", "ape"])
    assert named.y.tolist() == [1, 2, 0, 0, 2]


def test_integers_keep_their_numbers_and_get_the_given_names() -> None:
    dataset = Dataset.from_arrays("toy", **arrays(), class_names=("c", "b", "a"))
    assert dataset.y.tolist() == [0, 1, 2, 1, 0]
    assert dataset.class_names == ("c", "b", "a")
    assert dataset.fingerprint() == Dataset.from_arrays("toy", **arrays()).fingerprint()


def test_truth_values_are_two_classes() -> None:
    labels = {"y_train": np.array([True, False, True]), "y_test": np.array([False, True])}
    dataset = Dataset.from_arrays("toy", **arrays(**labels))
    assert dataset.class_names == ("False", "True")
    assert dataset.y.tolist() == [1, 0, 1, 0, 1]


def test_the_fingerprint_of_8_bit_images_is_what_it_always_was() -> None:
    assert Dataset.from_arrays("toy", **arrays()).fingerprint() == "7646a81c5bc32301"


def test_fingerprint_changes_with_one_pixel_and_with_the_split_and_not_with_the_name() -> None:
    one = Dataset.from_arrays("toy", **arrays())
    pixel = arrays()
    pixel["x_test"][0, 0, 0] = 7
    split = {
        key: np.concatenate([arrays()[f"{key}_train"], arrays()[f"{key}_test"]]) for key in "xy"
    }
    other_split = Dataset.from_arrays(
        "toy", split["x"][:2], split["y"][:2], split["x"][2:], split["y"][2:]
    )
    assert Dataset.from_arrays("other", **arrays()).fingerprint() == one.fingerprint()
    assert Dataset.from_arrays("toy", **pixel).fingerprint() != one.fingerprint()
    assert other_split.fingerprint() != one.fingerprint()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x_train": np.zeros((3, 4, 4), np.int64)}, "x_train of 'toy' is int64"),
        ({"x_test": np.zeros((2, 5, 5), np.uint8)}, "differ in form"),
        ({"x_train": np.zeros((3, 4, 4, 2), np.uint8)}, "1 or 3 channels"),
        ({"x_train": np.zeros((0, 4, 4), np.uint8), "y_train": np.zeros(0, int)}, "no training"),
        ({"y_train": np.array([0, 1])}, "y of 'toy' has 2 training"),
        ({"y_train": np.array([0, -1, 2])}, "run from -1 to 2"),
        ({"y_train": np.array([[0], [1], [2]])}, "one label per row"),
        ({"y_train": np.array([0j, 1j, 2j]), "y_test": np.zeros(2)}, "must be integers"),
        ({"y_train": np.array(["a", "", "c"]), "y_test": np.array(["a"] * 2)}, "no label in row 1"),
        (
            {"y_train": np.array(["a", 1, "c"], object), "y_test": np.array(["a"] * 2)},
            "mixes texts and other things: row 1 is 1",
        ),
        (
            {"y_train": np.array(["a", "b", "b"]), "y_test": np.array(["a", "c"])},
            "class 'c' of 'toy' has no training sample",
        ),
        (
            {
                "y_train": np.array(["ape", "cat", "ape"]),
                "y_test": np.array(["ape"] * 2),
                "class_names": ["ape", "bat"],
            },
            "hold 'cat', which is not in class_names. Did you mean 'bat'",
        ),
        ({"class_names": ["a", "b"]}, "must be 0 to 1"),
        ({"class_names": ["a", "b", "c", "d"]}, "class 'd' of 'toy' has no training sample"),
        ({"class_names": ["a", "a", "c"]}, "must differ"),
        (
            {"class_names": ["a"], "y_train": np.zeros(3), "y_test": np.zeros(2)},
            "targets of a regression",
        ),
        ({"x_train": np.full((3, 4, 4), 1.5, np.float32)}, r"from 1.5 to 1.5; .*\[0, 1\]"),
        ({"x_train": np.full((3, 4, 4), np.nan, np.float32)}, r"must lie in \[0, 1\]"),
        ({"y_train": np.array([0.0, np.nan, 1]), "y_test": np.zeros(2)}, "NaN or infinite"),
        ({"y_train": np.array([0, 1, 5000])}, "renumber the classes"),
        ({"classes": 2}, "must be 0 to 1"),
        ({"client": (np.array(["a"]), np.array(["a", "b"]))}, "client of 'toy' has 1 training"),
        ({"factors": {"f": (np.zeros(3), np.zeros(1))}}, "factor_f of 'toy'"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Dataset.from_arrays("toy", **arrays(**changes))


def test_first_row_with_nan_is_named() -> None:
    table = np.zeros((3, 4), np.float32)
    table[2, 1] = np.nan
    with pytest.raises(DataError, match=r"x_train .* row 2"):
        Dataset.from_arrays("toy", **arrays(x_train=table, x_test=np.zeros((2, 4), np.float32)))
