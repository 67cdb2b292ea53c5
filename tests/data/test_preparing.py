from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from duotone.data.dataset import Dataset
from duotone.data.preparing import Preparation, prepared
from duotone.data.tables import dataset_from_frame, table_settings
from duotone.errors import DataError

FRAME = pl.DataFrame(
    {
        "age": [10.0, 20.0, None, 30.0, 1000.0],
        "job": ["nurse", None, "clerk", "nurse", "pilot"],
        "label": [0, 1, 0, 1, 0],
        "split": ["train", "train", "train", "train", "test"],
    }
)


def table(frame: pl.DataFrame = FRAME) -> Dataset:
    return dataset_from_frame("toy", frame, table_settings(None))


def rows(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def test_features_by_hand() -> None:
    dataset = prepared(table(), [rows(0, 1), rows(2, 3)])
    # Ages 10, 20 and 30: mean 20, variance (100 + 0 + 100) / 3.
    one = 10 / np.sqrt(200 / 3)
    assert dataset.preparation is not None
    assert dataset.preparation.features == ("age", "job=(missing)", "job=clerk", "job=nurse")
    np.testing.assert_allclose(
        dataset.x,
        [
            [-one, 0, 0, 1],
            [0, 1, 0, 0],
            [0, 0, 1, 0],
            [one, 0, 0, 1],
            [98 * one, 0, 0, 0],
        ],
        rtol=1e-6,
    )
    assert dataset.x.dtype == np.float32
    assert dataset.columns is None


def test_nothing_is_learnt_from_rows_that_nobody_trains_on() -> None:
    trained_on = [rows(0, 1), rows(3)]
    dataset = prepared(table(), trained_on)
    changed = FRAME.with_columns(
        pl.Series("age", [10.0, 20.0, 77.0, 30.0, -5.0]),
        pl.Series("job", ["nurse", None, "judge", "nurse", "judge"]),
    )
    other = prepared(table(changed), trained_on)
    assert other.preparation is not None
    assert dataset.preparation is not None
    assert other.preparation.columns == dataset.preparation.columns
    np.testing.assert_array_equal(other.x[[0, 1, 3]], dataset.x[[0, 1, 3]])


def test_a_category_that_no_member_has_is_zeros_and_said() -> None:
    dataset = prepared(table(), [rows(0, 1, 3)])
    assert dataset.preparation is not None
    assert dataset.preparation.unknown == {"job": 2}
    assert "job (2 rows)" in dataset.preparation.remark
    assert dataset.x[4, 1:].tolist() == [0, 0]
    everything = prepared(table(), [rows(0, 1, 2, 3, 4)])
    assert everything.preparation is not None
    assert everything.preparation.remark == ""


def test_moments_of_single_members_give_what_scikit_learn_gives_for_all_rows() -> None:
    rng = np.random.default_rng(0)
    values = np.where(rng.uniform(size=300) < 0.2, np.nan, rng.normal(1e4, 3, 300))
    jobs = rng.choice(["a", "b", "c"], 300)
    frame = pl.DataFrame(
        {
            "v": pl.Series(values, nan_to_null=True),
            "j": jobs,
            "label": [0, 1] * 150,
            "split": ["train"] * 300,
        }
    )
    dataset = prepared(table(frame), np.split(np.arange(300), [17, 90, 100]))
    peer = ColumnTransformer(
        [
            ("v", make_pipeline(StandardScaler(), SimpleImputer()), [0]),
            ("j", OneHotEncoder(sparse_output=False), [1]),
        ]
    )
    both = pd.DataFrame({"v": values, "j": jobs})
    np.testing.assert_allclose(dataset.x, peer.fit_transform(both), atol=1e-5)


def test_the_preparation_survives_as_json_and_serves_new_rows() -> None:
    dataset = prepared(table(), [rows(0, 1), rows(2, 3)])
    assert dataset.preparation is not None
    text = json.dumps(dataset.preparation.as_json(), allow_nan=False)
    again = Preparation.from_json(json.loads(text))
    assert again.columns == dataset.preparation.columns
    new = {"job": ["clerk", "dancer", None], "age": [30.0, None, 20.0], "else": [1, 2, 3]}
    for given in (new, pl.DataFrame(new), pd.DataFrame(new)):
        features = again.apply(given)
        np.testing.assert_array_equal(features[:, 1:], [[0, 1, 0], [0, 0, 0], [1, 0, 0]])
        np.testing.assert_allclose(features[:, 0], [10 / np.sqrt(200 / 3), 0, 0], rtol=1e-6)
    with pytest.raises(DataError, match=r"no column 'age'.*trained with: age, job"):
        again.apply({"job": ["clerk"]})
    with pytest.raises(DataError, match="'age' holds String, which is no number"):
        again.apply({"job": ["clerk"], "age": ["old"]})


@pytest.mark.parametrize("column", ["age", "job"])
def test_a_column_without_a_value_in_training_is_refused_by_name(column: str) -> None:
    kind = FRAME.schema[column]
    gone = FRAME.with_columns(pl.Series(column, [None] * 4 + FRAME[column].to_list()[4:], kind))
    with pytest.raises(DataError, match=f"column '{column}' has no value in any row that members"):
        prepared(table(gone), [rows(0, 1, 2, 3)])


def test_a_column_that_never_changes_becomes_zero() -> None:
    frame = FRAME.with_columns(pl.lit(7.0).alias("age"))
    assert prepared(table(frame), [rows(0, 1)]).x[:, 0].tolist() == [0] * 5


def test_other_data_is_returned_as_it_is() -> None:
    images = np.zeros((2, 4, 4), np.uint8)
    dataset = Dataset.from_arrays("toy", images, np.arange(2), images, np.arange(2))
    assert prepared(dataset, [rows(0)]) is dataset
