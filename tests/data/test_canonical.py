from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duotone.data.canonical import (
    dataset_from_mapping,
    file_of,
    find_file,
    read_dataset,
    save_dataset,
    search_folders,
    user_cache,
)
from duotone.data.dataset import Dataset
from duotone.errors import DataError

WriteNpz = Callable[..., Path]


def test_saved_data_comes_back_equal(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    dataset = Dataset.from_arrays(
        "toy",
        rng.normal(size=(4, 3)).astype(np.float32),
        np.array([0.5, 1, 2, 3]),
        rng.normal(size=(2, 3)).astype(np.float32),
        np.array([4.0, 5]),
        client=(np.array(["a", "b", "a", "ö"]), np.array(["a", "b"])),
        domain=(np.array(["p", "q", "p", "q"]), np.array(["p", "q"])),
        factors={"phase": (np.array([0, 1, np.nan, 2]), np.array([0.0, 1]))},
    )
    save_dataset(dataset, tmp_path / "new" / "toy.npz")
    back = read_dataset(tmp_path / "new" / "toy.npz")
    assert back.name == "toy"
    assert back.fingerprint() == dataset.fingerprint()
    assert back.client is not None
    assert back.client.tolist() == ["a", "b", "a", "ö", "a", "b"]
    assert back.domain is not None
    assert back.domain.tolist() == ["p", "q", "p", "q", "p", "q"]
    np.testing.assert_array_equal(back.factors["phase"], [0, 1, np.nan, 2, 0, 1])


def test_class_names_come_back(tmp_path: Path, write_npz: WriteNpz) -> None:
    names = [f"digit {number}" for number in "abcdefghiö"]
    dataset = read_dataset(write_npz(tmp_path / "toy.npz", class_names=np.array(names)))
    save_dataset(dataset, tmp_path / "again.npz")
    assert read_dataset(tmp_path / "again.npz").class_names == tuple(names)


def test_float_images_are_taken_as_they_are_and_16_bits_by_their_white(tmp_path: Path) -> None:
    x = np.random.default_rng(0).uniform(size=(4, 2, 2))
    labels = {"y_train": np.arange(2), "y_test": np.arange(2)}
    floats = dataset_from_mapping("toy", {"x_train": x[:2], "x_test": x[2:], **labels})
    np.testing.assert_array_equal(floats.x, x.astype(np.float32))
    deep = np.array([0, 1, 257, 65535], np.uint16).reshape(1, 2, 2).repeat(2, axis=0)
    dataset = dataset_from_mapping("toy", {"x_train": deep, "x_test": deep, **labels})
    np.testing.assert_allclose(dataset.x[0].ravel(), [0, 1 / 65535, 1 / 255, 1], rtol=1e-6)
    assert dataset.pictures([0]).ravel().tolist() == [0, 0, 1, 255]
    save_dataset(dataset, tmp_path / "deep.npz")
    assert read_dataset(tmp_path / "deep.npz").fingerprint() == dataset.fingerprint()


def test_saving_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, write_npz: WriteNpz, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_npz(tmp_path / "data" / "toy.npz")
    before = path.read_bytes()
    dataset = read_dataset(path)

    def full_disk(file: Any, **arrays: Any) -> None:
        file.write(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full_disk)
    with pytest.raises(DataError, match=r"toy\.npz: .*No space left on device"):
        save_dataset(dataset, path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["toy.npz"]


def test_a_file_appears_only_when_it_is_complete(
    tmp_path: Path, write_npz: WriteNpz, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = read_dataset(write_npz(tmp_path / "toy.npz"))
    moved = []

    def watched(source: Path, target: Path) -> None:
        assert not target.exists()
        assert read_dataset(source).fingerprint() == dataset.fingerprint()
        moved.append(target)

    monkeypatch.setattr(os, "replace", watched)
    save_dataset(dataset, tmp_path / "new.npz")
    assert moved == [tmp_path / "new.npz"]


def test_python_objects_are_never_written(tmp_path: Path, write_npz: WriteNpz) -> None:
    dataset = read_dataset(write_npz(tmp_path / "toy.npz", train=2, test=1))
    dataset.factors["odd"] = np.array([{}, {}, {}])  # type: ignore[index]
    with pytest.raises(DataError, match="factor_odd_train holds Python objects"):
        save_dataset(dataset, tmp_path / "out.npz")


def test_keys_nobody_knows_are_ignored(tmp_path: Path, write_npz: WriteNpz) -> None:
    path = write_npz(tmp_path / "toy.npz", attr_names=np.array(["a"]), x_val=np.zeros(3))
    assert len(read_dataset(path)) == 30


def test_integer_client_ids_become_text(tmp_path: Path, write_npz: WriteNpz) -> None:
    path = write_npz(
        tmp_path / "toy.npz", train=2, test=1, client_train=np.array([7, 12]), client_test=[7]
    )
    client = read_dataset(path).client
    assert client is not None
    assert client.tolist() == ["7", "12", "7"]


def test_tables_in_double_precision_are_converted() -> None:
    dataset = dataset_from_mapping(
        "toy",
        {
            "x_train": np.array([[1.0, 2.0]]),
            "y_train": np.array([0]),
            "x_test": np.array([[3.0, 4.0]]),
            "y_test": np.array([1]),
        },
    )
    assert dataset.x.dtype == np.float32
    assert dataset.x.tolist() == [[1, 2], [3, 4]]


def test_table_values_beyond_single_precision_are_refused_with_their_row(tmp_path: Path) -> None:
    arrays = {"y_train": np.array([0, 1]), "x_test": np.zeros((1, 2)), "y_test": np.array([0])}
    with pytest.raises(DataError, match="first in row 1"):
        dataset_from_mapping("toy", {"x_train": np.array([[0, 0], [1e300, 0]]), **arrays})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y_test": None}, "'y_test' is missing"),
        ({"client_train": np.zeros(20)}, "'client_test' is missing"),
        ({"factor_f_test": np.zeros(10)}, "'factor_f_train' is missing"),
        ({"domain_train": np.zeros((20, 2)), "domain_test": np.zeros(10)}, "one value per row"),
        ({"x_train": np.full((20, 8, 8), 2.0)}, r"values from 2 to 2; float images must lie in"),
        ({"x_train": np.zeros((20, 8, 8))}, "x_train is float32 .* x_test uint8"),
        ({"class_names": np.arange(10)}, "must be a list of texts"),
        ({"class_names": np.array(["a"] * 10)}, "class names of 'toy' must differ"),
        ({"y_train": np.array([{}] * 20)}, "y_train cannot be read .*Object arrays"),
        ({"y_train": np.arange(19)}, "19 training"),
        ({"client_train": [b"\xff"] * 20, "client_test": [b"a"] * 10}, "decode"),
    ],
)
def test_a_wrong_file_is_one_line_that_names_it(
    tmp_path: Path, write_npz: WriteNpz, changes: dict[str, Any], message: str
) -> None:
    path = write_npz(tmp_path / "toy.npz", **changes)
    with pytest.raises(DataError, match=message) as caught:
        read_dataset(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"hello", b"\x80\x04]q\x00.", b"PK\x03\x04"])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "toy.npz"
    path.write_bytes(content)
    with pytest.raises(DataError, match="not an npz file"):
        read_dataset(path)


def test_a_single_array_is_not_a_data_file(tmp_path: Path) -> None:
    np.save(tmp_path / "toy.npy", np.zeros(3))
    with pytest.raises(DataError, match="not an npz file"):
        read_dataset(tmp_path / "toy.npy")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"toy\.npz: there is no such file"):
        read_dataset(tmp_path / "toy.npz")


def test_a_file_with_a_damaged_index_is_closed_again(tmp_path: Path, write_npz: WriteNpz) -> None:
    path = write_npz(tmp_path / "damaged.npz")
    path.write_bytes(path.read_bytes().replace(b"PK\x01\x02", b"PK\x01\x03"))
    with pytest.raises(DataError, match="list of arrays cannot be read"):
        read_dataset(path)
    opened = [os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert str(path) not in opened


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_damage_anywhere_is_a_data_error_or_harmless(
    tmp_path: Path, write_npz: WriteNpz, data: st.DataObject
) -> None:
    whole = write_npz(tmp_path / "whole.npz").read_bytes()
    path = tmp_path / "damaged.npz"
    if data.draw(st.booleans(), label="cut"):
        path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
        with pytest.raises(DataError):
            read_dataset(path)
    else:
        broken = bytearray(whole)
        position = data.draw(st.integers(0, len(whole) - 1))
        broken[position] ^= data.draw(st.integers(1, 255))
        path.write_bytes(broken)
        try:
            dataset = read_dataset(path)
        except DataError:
            return
        # Checksums cover the samples, so what was read is what was written.
        assert dataset.fingerprint() == read_dataset(tmp_path / "whole.npz").fingerprint()


def test_files_are_looked_up_in_the_chosen_folder_before_the_cache(
    tmp_path: Path, cache: Path, write_npz: WriteNpz, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_cache = write_npz(cache / "mnist.npz")
    assert find_file("mnist.npz") == in_cache
    monkeypatch.setenv("DUOTONE_DATA", str(tmp_path / "mine"))
    assert find_file("mnist.npz") == in_cache
    assert find_file("mnist.npz") != write_npz(tmp_path / "mine" / "mnist.npz")
    assert find_file("mnist.npz") == tmp_path / "mine" / "mnist.npz"
    assert search_folders() == [tmp_path / "mine", cache]


@pytest.mark.parametrize("given_cache", ["", "relative/folder"])
def test_cache_is_in_the_home_folder_unless_xdg_gives_an_absolute_path(
    given_cache: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", given_cache)
    assert user_cache() == tmp_path / ".cache" / "duotone"


def test_file_names_have_no_dashes() -> None:
    assert file_of("mnist-m") == "mnistm.npz"
