from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from duotone.data import composed
from duotone.data.canonical import read_dataset
from duotone.data.composed import digits4, digits5
from duotone.data.dataset import Dataset
from duotone.errors import DataError

WriteNpz = Callable[..., Path]
FORMS = {"mnist": (28, 28), "mnistm": (32, 32, 3), "svhn": (32, 32, 3), "usps": (16, 16)}


@pytest.fixture
def folder(tmp_path: Path, write_npz: WriteNpz, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the four files; MNIST-M shows digits 0 to 4 and 3 to 5 of MNIST."""
    monkeypatch.setenv("DUOTONE_DATA", str(tmp_path / "data"))
    numbers = {"idx_train": np.arange(5), "idx_test": np.arange(3, 6)}
    write_npz(tmp_path / "data" / "mnistm.npz", 5, 3, FORMS["mnistm"], **numbers)
    for name in ("mnist", "svhn", "usps"):
        write_npz(tmp_path / "data" / f"{name}.npz", 20, 10, FORMS[name])
    return tmp_path / "data"


def rows_of(dataset: Dataset, domain: str, *, test: bool) -> np.ndarray:
    assert dataset.domain is not None
    return np.flatnonzero((dataset.domain == domain) & (dataset.is_test == test))


def test_four_domains_come_in_one_form(folder: Path) -> None:
    dataset = digits4()
    assert dataset.x.shape[1:] == (28, 28, 3)
    assert dataset.x.dtype == np.uint8
    assert dataset.classes == 10
    assert dataset.client is None
    assert dataset.domain is not None
    assert set(dataset.domain) == {"mnist", "mnist-m", "svhn", "usps"}
    for name in ("Hull", "Netzer", "Ganin", "LeCun"):
        assert name in dataset.origin


def test_digits_of_mnist_m_are_left_out_of_the_same_split_of_mnist(folder: Path) -> None:
    dataset, mnist = digits4(), read_dataset(folder / "mnist.npz")
    train, test = (rows_of(dataset, "mnist", test=split) for split in (False, True))
    np.testing.assert_array_equal(dataset.x[train][..., 0], mnist.x[5:20])
    np.testing.assert_array_equal(dataset.y[train], mnist.y[5:20])
    np.testing.assert_array_equal(dataset.x[test][..., 2], mnist.x[[20, 21, 22, 26, 27, 28, 29]])


def test_grey_images_have_three_equal_channels(folder: Path) -> None:
    images = digits4().x[rows_of(digits4(), "usps", test=False)]
    np.testing.assert_array_equal(images[..., 0], images[..., 1])
    np.testing.assert_array_equal(images[..., 0], images[..., 2])
    assert images.std() > 10


def test_large_domains_are_cut_to_a_fixed_random_choice(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(composed, "_MOST_TRAIN", 4)
    monkeypatch.setattr(composed, "_MOST_TEST", 2)
    dataset = digits4()
    assert dataset.domain is not None
    for name in set(dataset.domain):
        assert len(rows_of(dataset, name, test=False)) == 4
        assert len(rows_of(dataset, name, test=True)) == 2
    assert digits4().fingerprint() == dataset.fingerprint()
    # A choice, not the first ones.
    usps = read_dataset(folder / "usps.npz")
    assert dataset.y[rows_of(dataset, "usps", test=False)].tolist() != usps.y[:4].tolist()


def test_only_digits_really_taken_from_mnist_m_are_left_out_of_mnist(
    folder: Path, write_npz: WriteNpz, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = {"idx_train": np.arange(20), "idx_test": np.arange(10)}
    write_npz(folder / "mnistm.npz", 20, 10, FORMS["mnistm"], **everything)
    monkeypatch.setattr(composed, "_MOST_TRAIN", 8)
    assert len(rows_of(digits4(), "mnist", test=False)) == 8


@pytest.mark.parametrize("numbers", [{}, {"idx_train": np.arange(4), "idx_test": np.arange(3)}])
def test_without_the_numbers_of_mnist_m_nothing_is_mixed(
    folder: Path, write_npz: WriteNpz, numbers: dict[str, np.ndarray]
) -> None:
    write_npz(folder / "mnistm.npz", 5, 3, FORMS["mnistm"], **numbers)
    with pytest.raises(DataError, match=r"mnistm\.npz: idx_train.*duotone data import mnist-m"):
        digits4()


def test_a_missing_domain_is_named(folder: Path) -> None:
    (folder / "usps.npz").unlink()
    with pytest.raises(DataError, match="'usps' needs"):
        digits4()


def test_fifth_domain_is_synthdigits_where_it_is_at_hand(folder: Path, write_npz: WriteNpz) -> None:
    write_npz(folder / "synthdigits.npz", form=(32, 32, 3))
    dataset = digits5()
    assert len(rows_of(dataset, "synthdigits", test=False)) == 20
    assert dataset.origin.endswith("SynthDigits (Ganin et al. 2016).")


def test_rendered_digits_stand_in_for_synthdigits_under_their_own_name(
    folder: Path, write_npz: WriteNpz, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = read_dataset(
        write_npz(folder / "small.npz", form=(28, 28, 3)),
        name="rendered-digits",
        origin="A stand-in.",
    )
    monkeypatch.setattr(composed, "rendered_digits", lambda: small)
    dataset = digits5()
    rows = rows_of(dataset, "rendered-digits", test=True)
    np.testing.assert_array_equal(dataset.x[rows], small.x[small.test_rows])
    assert dataset.origin.endswith("A stand-in.")
