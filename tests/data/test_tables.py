from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from duotone.data import load_dataset, save_dataset
from duotone.data.dataset import Column
from duotone.data.frames import frame_of
from duotone.data.tables import dataset_from_frame, table_settings
from duotone.errors import ConfigError, DataError

CSV = """id,hospital,age,job,dose,sick
1,north,30,nurse,1.5,yes
2,north,?,clerk,2.5,no
3,south,50, nurse ,,yes
4,south,40,NA,0.5,no
"""
SETTINGS = {"label": "sick", "client": "hospital", "id": "id"}


def write(path: Path, text: str = CSV) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_columns_of_a_file_become_labels_clients_and_features(tmp_path: Path) -> None:
    dataset = load_dataset(str(write(tmp_path / "toy.csv")), table=SETTINGS)
    assert dataset.name == "toy"
    assert dataset.class_names == ("no", "yes")
    assert dataset.y.tolist() == [1, 0, 1, 0]
    assert dataset.client is not None
    assert dataset.client.tolist() == ["north", "north", "south", "south"]
    assert dataset.columns == (
        Column("age"),
        Column("job", ("clerk", "nurse")),
        Column("dose"),
    )
    nan = np.nan
    np.testing.assert_array_equal(
        dataset.x, [[30, 1, 1.5], [nan, 0, 2.5], [50, 1, nan], [40, nan, 0.5]]
    )


def test_a_parquet_file_and_frames_hold_the_same_data(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "hospital": ["a", "b", "a", "b"],
            "age": [30, None, 50, 40],
            "job": ["nurse", "clerk", None, "nurse"],
            "label": [0.5, 1.5, 2.5, 3.5],
        }
    )
    frame.write_parquet(tmp_path / "toy.parquet")
    settings = {"client": "hospital"}
    from_file = load_dataset(str(tmp_path / "toy.parquet"), table=settings)
    pandas = pd.DataFrame(frame.to_dict(as_series=False))
    for given in (frame, frame.lazy(), pandas):
        made = dataset_from_frame("toy", frame_of(given), table_settings(settings))
        assert made.fingerprint() == from_file.fingerprint()
        assert made.columns == from_file.columns
    assert from_file.classes == 0
    assert sorted(from_file.y.tolist()) == [0.5, 1.5, 2.5, 3.5]


def test_frames_of_pandas_may_hold_categories_and_their_own_missing_values() -> None:
    given = pd.DataFrame(
        {
            "a": pd.array([1, None, 3], "Int64"),
            "b": pd.Categorical(["x", "y", None]),
            "c": [True, False, True],
            "label": ["p", "q", "p"],
        }
    )
    dataset = dataset_from_frame("toy", frame_of(given), table_settings(None))
    np.testing.assert_array_equal(dataset.x, [[1, 0, 1], [np.nan, 1, 0], [3, np.nan, 1]])


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_values_are_separated_by_what_the_heading_has_most_of(
    tmp_path: Path, separator: str
) -> None:
    text = CSV.replace(",", separator)
    (tmp_path / "toy.csv").write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    dataset = load_dataset(str(tmp_path / "toy.csv"), table=SETTINGS)
    assert [column.name for column in dataset.columns or ()] == ["age", "job", "dose"]
    assert dataset.class_names == ("no", "yes")


def test_the_split_column_says_what_the_test_rows_are(tmp_path: Path) -> None:
    text = "x,split,label\n1,train,0\n2,Test,1\n3,train,1\n"
    dataset = load_dataset(str(write(tmp_path / "toy.csv", text)))
    assert dataset.x[dataset.test_rows].tolist() == [[2]]
    assert dataset.x[dataset.train_rows].tolist() == [[1], [3]]


def test_without_a_split_a_fifth_of_each_clients_rows_of_a_class_is_kept(tmp_path: Path) -> None:
    rows = [f"{client},{label},{n}" for client in "ab" for label in "pq" for n in range(10)]
    path = write(tmp_path / "toy.csv", "client,label,x\n" + "\n".join(rows) + "\n")
    dataset = load_dataset(str(path))
    assert dataset.client is not None
    held = list(zip(dataset.client[dataset.test_rows], dataset.y[dataset.test_rows], strict=True))
    assert {pair: held.count(pair) for pair in held} == {
        (client, label): 2 for client in "ab" for label in (0, 1)
    }
    assert load_dataset(str(path)).fingerprint() == dataset.fingerprint()


@pytest.mark.parametrize(
    ("labels", "task", "y", "names"),
    [
        (["0", "2", "1"], "auto", [0, 2, 1], None),
        (["3", "1", "10"], "auto", [1, 0, 2], ("1", "3", "10")),
        (["3", "1", "10"], "regression", [3, 1, 10], None),
        (["0.5", "1", "10"], "auto", [0.5, 1, 10], None),
        (["1.0", "0.0", "1.0"], "classes", [1, 0, 1], None),
        (["b", "a", "b"], "classes", [1, 0, 1], ("a", "b")),
    ],
)
def test_labels_are_classes_or_targets_as_their_values_and_the_task_say(
    tmp_path: Path, labels: list[str], task: str, y: list[float], names: tuple[str, ...] | None
) -> None:
    text = "x,label\n" + "".join(f"1,{label}\n" for label in labels)
    dataset = load_dataset(str(write(tmp_path / "toy.csv", text)), table={"task": task})
    assert dataset.y.tolist() == y
    assert dataset.class_names == names


def test_columns_can_be_left_out_and_numbers_can_be_categories(tmp_path: Path) -> None:
    text = "postcode,name,label,x\n10,ann,0,1\n20,bob,1,2\n10,cat,0,3\n"
    settings = {"ignore": ["name"], "categories": ["postcode"]}
    dataset = load_dataset(str(write(tmp_path / "toy.csv", text)), table=settings)
    assert dataset.columns == (Column("postcode", ("10", "20")), Column("x"))
    assert dataset.x[:, 0].tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("text", "settings", "message"),
    [
        (CSV, {}, "no column 'label'. .*table.label to one of: id, hospital"),
        (CSV, {"label": "sik"}, "no column 'sik'. Did you mean 'sick'"),
        (CSV, {"label": "sick", "client": "clinic"}, "no column 'clinic'.* table.client"),
        (CSV, {"label": "sick", "ignore": ["jobs"]}, "'jobs'. Did you mean 'job'.*table.ignore"),
        ("x,label\n1,a\n2,\n", {}, "label column 'label' is empty in row 2"),
        ("x,label\n1,0.5\n2,nan\n", {}, "label column 'label' is empty in row 2"),
        ("x,label\n1,a\ntwo,b\n3,a\n4,b\n", {}, "'x' holds numbers and, in row 2, the text 'two'"),
        ("x,label\n1,1\n2,2\n3,oops\n", {}, "'label' holds numbers and, in row 3, the text 'oops'"),
        ("x,label\n1,a\ninf,b\n", {}, "'x' is infinite in row 2"),
        ("x;label\n1,5;a\n2;b\n3,5;a\n", {}, "decimal comma, such as '1,5'; write them with"),
        ("x,client,label\n1,a,0\n2,,1\n", {}, "column 'client' is empty in row 2"),
        ("x,split,label\n1,train,0\n2,dev,1\n", {}, "'split' holds 'dev' in row 2; it must say"),
        ("x,split,label\n1,train,a\n2,test,b\n", {}, "class 'b' of 'toy' has no training sample"),
        ("x,id,label\n1,a,0\n2,b,1\n3,a,0\n", {"id": "id"}, "'id' has 'a' in rows 1 and 3"),
        ("x,label,x\n1,0,1\n", {}, "two columns are called 'x'"),
        ("x,label\n", {}, "no rows"),
        ("", {}, "cannot be read"),
        ("x,label\n1,2,3\n", {}, "cannot be read"),
        ("label\n1\n", {}, "no column left that could be a feature"),
        ("x,label\n1,a\n", {"task": "regression"}, "'label' holds texts, such as 'a'"),
        ("x,label\n1,1.5\n", {"task": "classes"}, "'label' holds 1.5 in row 1"),
        (
            "x,label\n" + "".join(f"1,{n}\n" for n in range(101)),
            {},
            "101 different whole numbers; say whether",
        ),
        (
            "name,label\n" + "".join(f"n{n},0\n" for n in range(101)),
            {},
            "'name' has 101 different texts in 101 rows.*table.ignore",
        ),
    ],
)
def test_a_wrong_table_is_one_line_that_names_file_column_and_row(
    tmp_path: Path, text: str, settings: dict[str, Any], message: str
) -> None:
    path = write(tmp_path / "toy.csv", text)
    with pytest.raises(DataError, match=message) as caught:
        load_dataset(str(path), table=settings)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
    assert [item.name for item in tmp_path.iterdir()] == ["toy.csv"]


def test_a_damaged_parquet_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "toy.parquet").write_bytes(b"PAR1junk")
    with pytest.raises(DataError, match=r"toy\.parquet: the table cannot be read"):
        load_dataset(str(tmp_path / "toy.parquet"))


def test_types_that_are_no_features_are_refused_by_name() -> None:
    frame = pl.DataFrame({"when": ["2024-01-01"], "label": [1]}).with_columns(
        pl.col("when").str.to_date()
    )
    with pytest.raises(DataError, match="'when' holds Date, which is no number"):
        dataset_from_frame("toy", frame, table_settings(None))
    mixed = pd.DataFrame({"a": [1, "x", 2], "label": [0, 1, 0]})
    with pytest.raises(DataError, match="'a' mixes types: 1 and, in row 2, 'x'"):
        frame_of(mixed)


def test_settings_of_a_table_are_checked_and_only_for_tables(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no setting table\.lable.* Did you mean 'label'"):
        table_settings({"lable": "x"})
    with pytest.raises(ConfigError, match=r"table\.label is set, but 'mini-digits' has no columns"):
        load_dataset("mini-digits", table={"label": "x"})
    with pytest.raises(DataError, match="no file or folder"):
        load_dataset("missing.csv")


def test_a_table_is_not_saved_before_it_is_prepared(tmp_path: Path) -> None:
    dataset = load_dataset(str(write(tmp_path / "toy.csv")), table=SETTINGS)
    with pytest.raises(DataError, match="keep its CSV"):
        save_dataset(dataset, tmp_path / "toy.npz")
    assert not (tmp_path / "toy.npz").exists()
