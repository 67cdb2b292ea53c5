from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from duotone.data import load_dataset, save_mapped
from duotone.data.canonical import read_dataset
from duotone.data.dataset import Dataset
from duotone.errors import DataError
from duotone.federation.backends.wire import attach, share
from duotone.partition import Population, build_partition

WriteNpz = Callable[..., Path]


@pytest.fixture
def dataset(tmp_path: Path, write_npz: WriteNpz) -> Dataset:
    path = write_npz(
        tmp_path / "source" / "toy.npz",
        client_train=np.arange(20) % 2,
        client_test=np.arange(10) % 2,
        factor_f_train=np.arange(20.0),
        factor_f_test=np.arange(10.0),
        class_names=np.array(list("abcdefghij")),
    )
    return read_dataset(path)


def test_samples_stay_on_disk_and_are_the_same(tmp_path: Path, dataset: Dataset) -> None:
    save_mapped(dataset, tmp_path / "toy")
    mapped = load_dataset(str(tmp_path / "toy"))
    assert isinstance(mapped.x, np.memmap)
    assert mapped.fingerprint() == dataset.fingerprint()
    assert mapped.class_names == tuple("abcdefghij")
    assert mapped.client is not None
    assert dataset.client is not None
    assert mapped.client.tolist() == dataset.client.tolist()
    assert mapped.factors["f"].tolist() == dataset.factors["f"].tolist()
    partition = build_partition(mapped, "natural", {"min_train": 1}, seed=0)
    on_disk, in_memory = (Population(data, partition).data("0") for data in (mapped, dataset))
    assert on_disk.x.equal(in_memory.x)


def test_workers_map_the_same_file_instead_of_a_copy(tmp_path: Path, dataset: Dataset) -> None:
    save_mapped(dataset, tmp_path / "toy")
    mapped = load_dataset(str(tmp_path / "toy"))
    population = Population(mapped, build_partition(mapped, "natural", {"min_train": 1}, seed=0))
    descriptor, layout = share(population.arrays())
    assert layout.size < mapped.x.nbytes
    population.adopt(attach(descriptor, layout))
    assert isinstance(population.dataset.x, np.memmap)
    assert Path(str(population.dataset.x.filename)) == tmp_path / "toy" / "x.npy"
    assert population.dataset.fingerprint() == dataset.fingerprint()


def test_a_part_of_a_mapped_array_is_copied_whole(tmp_path: Path, dataset: Dataset) -> None:
    save_mapped(dataset, tmp_path / "toy")
    part = load_dataset(str(tmp_path / "toy")).x[3:5]
    assert isinstance(part, np.memmap)
    descriptor, layout = share({"x": part})
    np.testing.assert_array_equal(attach(descriptor, layout)["x"], dataset.x[3:5])


@pytest.mark.parametrize(
    ("file", "array", "message"),
    [
        ("y", None, r"y\.npy: there is no such file"),
        ("y", np.arange(5), r"y\.npy has shape \(5,\), but there are 30 samples"),
        ("is_test", np.arange(30) < 10, "training samples must stand before"),
        ("is_test", np.zeros(30), "must be truth values"),
        ("x", np.full((30, 8, 8), 2, np.float32), "values from 2 to 2"),
        ("client", np.arange(3), r"client\.npy has shape"),
        ("class_names", np.array(["a"]), "must be 0 to 0"),
    ],
)
def test_a_wrong_folder_is_one_line_that_names_the_file(
    tmp_path: Path, dataset: Dataset, file: str, array: Any, message: str
) -> None:
    save_mapped(dataset, tmp_path / "toy")
    (tmp_path / "toy" / f"{file}.npy").unlink()
    if array is not None:
        np.save(tmp_path / "toy" / f"{file}.npy", array)
    with pytest.raises(DataError, match=message) as caught:
        load_dataset(str(tmp_path / "toy"))
    assert str(tmp_path / "toy") in str(caught.value)


def test_damaged_and_pickled_arrays_are_refused(tmp_path: Path, dataset: Dataset) -> None:
    save_mapped(dataset, tmp_path / "toy")
    (tmp_path / "toy" / "x.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(DataError, match=r"x\.npy: the array cannot be read"):
        load_dataset(str(tmp_path / "toy"))
    np.save(tmp_path / "toy" / "x.npy", np.array([{}] * 30), allow_pickle=True)
    with pytest.raises(DataError, match=r"x\.npy: the array cannot be read"):
        load_dataset(str(tmp_path / "toy"))


def test_saving_never_overwrites_and_leaves_nothing_behind(
    tmp_path: Path, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "new"
    save_mapped(dataset, place / "toy")
    with pytest.raises(DataError, match="exists already"):
        save_mapped(dataset, place / "toy")

    def full(*args: Any, **kwargs: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(DataError, match="No space left"):
        save_mapped(dataset, place / "other")
    assert [item.name for item in place.iterdir()] == ["toy"]
