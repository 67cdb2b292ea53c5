from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from duotone.data import DATASETS, Dataset, describe_datasets, load_dataset, save_dataset
from duotone.errors import DataError, UnknownNameError

WriteNpz = Callable[..., Path]

a_dataset = Dataset.from_arrays(
    "mine",
    np.zeros((2, 3), np.float32),
    np.array([0, 1]),
    np.ones((1, 3), np.float32),
    np.array([1]),
)


def a_function() -> Dataset:
    return a_dataset


def no_dataset() -> int:
    return 3


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = "torch sklearn mlxtend matplotlib scipy PIL"
    code = f"import sys, duotone.data; print(*set('{heavy}'.split()) & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_every_name_leads_to_a_function() -> None:
    for name in DATASETS:
        assert callable(DATASETS.load(name))


def test_made_data_is_loaded_by_name() -> None:
    assert load_dataset("planted-table").name == "planted-table"


def test_a_file_is_loaded_by_path(tmp_path: Path) -> None:
    save_dataset(a_dataset, tmp_path / "mine.npz")
    assert load_dataset(str(tmp_path / "mine.npz")).fingerprint() == a_dataset.fingerprint()


def test_a_folder_is_loaded_by_path(tmp_path: Path) -> None:
    (tmp_path / "ann" / "dog").mkdir(parents=True)
    Image.new("L", (4, 4)).save(tmp_path / "ann" / "dog" / "0.png")
    assert load_dataset(str(tmp_path)).classes == 1


def test_the_home_folder_may_be_abbreviated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    save_dataset(a_dataset, tmp_path / "mine.npz")
    assert load_dataset("~/mine.npz").name == "mine"


def test_a_known_name_wins_over_a_folder_of_this_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "planted-table").mkdir()
    assert len(load_dataset("planted-table")) == 4800
    with pytest.raises(DataError, match="no subfolders"):
        load_dataset("./planted-table")


def test_a_function_is_loaded_by_its_import_path() -> None:
    assert load_dataset(f"{__name__}:a_function") is a_dataset


def test_a_function_that_gives_something_else_is_refused() -> None:
    with pytest.raises(DataError, match="gave a int"):
        load_dataset(f"{__name__}:no_dataset")


def test_an_unknown_name_is_met_with_the_nearest_one() -> None:
    with pytest.raises(UnknownNameError, match=r"'mnits'\. Did you mean 'mnist'\?"):
        load_dataset("mnits")


@pytest.mark.parametrize("path", ["nowhere.npz", "no/such/folder", "./digits"])
def test_a_path_to_nothing_is_a_data_error(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="There is no file or folder"):
        load_dataset(path)


def test_an_empty_name_is_not_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnknownNameError):
        load_dataset("")


def test_every_data_set_is_described() -> None:
    summaries = describe_datasets()
    assert [summary.name for summary in summaries] == list(DATASETS)
    assert all(summary.summary and summary.where for summary in summaries)


def test_description_tells_what_is_there_and_what_is_missing(
    cache: Path, write_npz: WriteNpz
) -> None:
    write_npz(cache / "mnist.npz")
    write_npz(cache / "svhn.npz")
    by_name = {summary.name: summary for summary in describe_datasets()}
    assert (by_name["digits"].available, by_name["digits"].where) == (True, "built in")
    assert (by_name["mnist"].available, by_name["mnist"].where) == (True, str(cache / "mnist.npz"))
    assert (by_name["usps"].available, by_name["usps"].where) == (False, "needs usps.npz")
    assert not by_name["digits4"].available
    assert by_name["digits4"].where == "needs mnistm.npz, usps.npz"


def test_composed_data_is_available_when_all_its_files_are(
    cache: Path, write_npz: WriteNpz
) -> None:
    for name in ("mnist", "mnistm", "svhn", "usps"):
        write_npz(cache / f"{name}.npz")
    by_name = {summary.name: summary for summary in describe_datasets()}
    assert by_name["digits5"].available
    assert by_name["digits5"].where == "made from mnist, mnist-m, svhn, usps"
