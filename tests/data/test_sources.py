from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from duotone.data.sources import ORIGINS, digits, load_file, mini_digits, mnist, mnist_m, pacs32
from duotone.errors import DataError


def test_digits_have_400_training_and_100_test_samples_of_each_class() -> None:
    dataset = digits()
    assert dataset.x.shape == (5000, 28, 28)
    assert np.bincount(dataset.y[dataset.train_rows]).tolist() == [400] * 10
    assert np.bincount(dataset.y[dataset.test_rows]).tolist() == [100] * 10
    assert dataset.x.max() == 255


def test_digits_are_the_same_each_time_and_belong_to_the_caller() -> None:
    first = digits()
    before = first.fingerprint()
    first.x[:] = 0
    assert digits().fingerprint() == before


def test_no_digit_is_in_both_splits() -> None:
    dataset = digits()
    train = {dataset.x[row].tobytes() for row in dataset.train_rows}
    assert not train & {dataset.x[row].tobytes() for row in dataset.test_rows}


def test_mini_digits_use_the_whole_range_of_grey() -> None:
    dataset = mini_digits()
    assert dataset.x.shape == (1797, 8, 8)
    assert (dataset.x.min(), dataset.x.max()) == (0, 255)
    # 178 zeros, of which a fifth, rounded down, are test samples.
    assert np.sum(dataset.y[dataset.test_rows] == 0) == 35
    assert mini_digits().fingerprint() == dataset.fingerprint()


def test_known_files_are_loaded_under_their_own_name(
    cache: Path, write_npz: Callable[..., Path]
) -> None:
    write_npz(cache / "mnistm.npz", form=(8, 8, 3))
    dataset = mnist_m()
    assert dataset.name == "mnist-m"
    assert dataset.x.shape == (30, 8, 8, 3)
    assert "Ganin" in dataset.origin


def test_a_missing_file_says_where_it_was_looked_for_and_how_to_get_it(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUOTONE_DATA", str(tmp_path / "mine"))
    with pytest.raises(DataError) as caught:
        mnist()
    message = str(caught.value)
    assert f"mnist.npz, which is not in {tmp_path / 'mine'} or {cache}" in message
    assert message.endswith("duotone data import mnist PATH")


def test_import_is_suggested_only_where_there_is_a_reader() -> None:
    with pytest.raises(DataError, match=r"set DUOTONE_DATA to its folder$"):
        pacs32()


@pytest.mark.parametrize("name", ORIGINS)
def test_every_known_file_has_an_origin_of_one_line(
    name: str, cache: Path, write_npz: Callable[..., Path]
) -> None:
    write_npz(cache / f"{name.replace('-', '')}.npz")
    origin = load_file(name).origin
    assert origin.endswith(".")
    assert "\n" not in origin
