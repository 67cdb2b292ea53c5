from __future__ import annotations

import bz2
import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from duotone.data import import_dataset, load_dataset
from duotone.data.readers import READERS
from duotone.errors import DataError, UnknownNameError

Folder = Callable[[Path], Path]


def idx(values: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
    return header + values.astype(np.uint8).tobytes()


def mnist_files() -> dict[str, bytes]:
    """Two training and one test image of 2×3 pixels."""
    return {
        "train-images-idx3-ubyte": idx(np.arange(12).reshape(2, 2, 3)),
        "train-labels-idx1-ubyte": idx(np.array([7, 0])),
        "t10k-images-idx3-ubyte": idx(np.full((1, 2, 3), 255)),
        "t10k-labels-idx1-ubyte": idx(np.array([9])),
    }


def write_files(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def write_svhn(folder: Path) -> Path:
    folder.mkdir()
    for split, labels in (("train", [10, 1, 9]), ("test", [2, 10])):
        x = np.zeros((32, 32, 3, len(labels)), np.uint8)
        x[4, 5, 2] = labels
        savemat(folder / f"{split}_32x32.mat", {"X": x, "y": np.array(labels)[:, None]})
    return folder


def usps_line(label: int, first: float, last: float) -> str:
    middle = " ".join(f"{number}:-1" for number in range(2, 256))
    return f"{label} 1:{first} {middle} 256:{last}\n"


def write_usps(folder: Path) -> Path:
    train = usps_line(1, -1, 1) + usps_line(10, 0.2, -0.6)
    return write_files(
        folder,
        {
            "usps.bz2": bz2.compress(train.encode()),
            "usps.t.bz2": bz2.compress(usps_line(6, 1, 1).encode()),
        },
    )


def write_mnist_m(folder: Path) -> Path:
    for split, images in (("train", {3: 5, 11: 0}), ("test", {7: 9})):
        (folder / f"mnist_m_{split}").mkdir(parents=True)
        lines = []
        for number, label in images.items():
            name = f"{number:08}.png"
            Image.new("RGB", (32, 32), (number, 0, 255)).save(folder / f"mnist_m_{split}" / name)
            lines.append(f"{name} {label}\n")
        (folder / f"mnist_m_{split}_labels.txt").write_text("".join(lines))
    return folder


@pytest.mark.parametrize("packed", [False, True])
def test_mnist_is_read_from_its_idx_files(tmp_path: Path, cache: Path, packed: bool) -> None:
    files = mnist_files()
    if packed:
        files = {f"{name}.gz": gzip.compress(content) for name, content in files.items()}
    written = import_dataset("mnist", write_files(tmp_path / "official", files))
    assert written == cache / "mnist.npz"
    dataset = load_dataset("mnist")
    assert dataset.x[1].tolist() == [[6, 7, 8], [9, 10, 11]]
    assert dataset.x[2].tolist() == [[255] * 3] * 2
    assert dataset.y.tolist() == [7, 0, 9]
    assert dataset.test_rows.tolist() == [2]


def test_svhn_is_read_from_its_matlab_files_and_ten_is_zero(tmp_path: Path) -> None:
    import_dataset("svhn", write_svhn(tmp_path / "official"))
    dataset = load_dataset("svhn")
    assert dataset.x.shape == (5, 32, 32, 3)
    assert dataset.x[:, 4, 5, 2].tolist() == [10, 1, 9, 2, 10]
    assert dataset.x[:, 5, 4, 2].tolist() == [0] * 5
    assert dataset.y.tolist() == [0, 1, 9, 2, 0]


def test_usps_is_read_from_its_libsvm_files(tmp_path: Path) -> None:
    import_dataset("usps", write_usps(tmp_path / "official"))
    dataset = load_dataset("usps")
    assert dataset.x.shape == (3, 16, 16)
    assert dataset.y.tolist() == [0, 9, 5]
    # -1 is black, 1 is white: (0.2 + 1) · 127.5 = 153 and (-0.6 + 1) · 127.5 = 51.
    assert dataset.x[:, 0, 0].tolist() == [0, 153, 255]
    assert dataset.x[:, 15, 15].tolist() == [255, 51, 255]
    assert not dataset.x[:, 0, 1:].any()


def test_mnist_m_is_read_with_the_numbers_of_its_digits(tmp_path: Path) -> None:
    written = import_dataset("mnist-m", write_mnist_m(tmp_path / "official"), tmp_path / "out")
    assert written == tmp_path / "out" / "mnistm.npz"
    with np.load(written) as arrays:
        assert arrays["x_train"][:, 31, 31].tolist() == [[3, 0, 255], [11, 0, 255]]
        assert arrays["y_train"].tolist() == [5, 0]
        assert arrays["idx_train"].tolist() == [3, 11]
        assert arrays["y_test"].tolist() == [9]
        assert arrays["idx_test"].tolist() == [7]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("train-images-idx3-ubyte", b"", "not an idx file"),
        ("train-images-idx3-ubyte", idx(np.zeros(5)), "begins with '00000801'"),
        ("train-images-idx3-ubyte", bytes([0, 0, 8, 3, 0, 0]), "ends within its header"),
        ("train-images-idx3-ubyte", idx(np.zeros((2, 2, 3)))[:-1], "announces 12 .* but 11 follow"),
        ("train-images-idx3-ubyte", idx(np.zeros((2, 2, 3))) + b"x", "announces 12 .* but 13"),
        ("train-labels-idx1-ubyte", idx(np.zeros(3)), "3 labels for 2 images"),
        ("t10k-labels-idx1-ubyte", idx(np.array([10])), "labels run from 10 to 10"),
        ("t10k-images-idx3-ubyte", idx(np.zeros((1, 3, 3))), "differ in form"),
    ],
)
def test_damaged_idx_files_are_refused(
    tmp_path: Path, cache: Path, name: str, content: bytes, message: str
) -> None:
    folder = write_files(tmp_path / "official", mnist_files() | {name: content})
    with pytest.raises(DataError, match=message):
        import_dataset("mnist", folder)
    assert not cache.exists()


@pytest.mark.parametrize("damage", [lambda b: b[:-9], lambda b: b[:15], lambda b: b"no" + b])
def test_damaged_gzip_is_refused_by_name(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    files = mnist_files()
    files["train-images-idx3-ubyte.gz"] = damage(
        gzip.compress(files.pop("train-images-idx3-ubyte"))
    )
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte\.gz: the file cannot be read"):
        import_dataset("mnist", write_files(tmp_path / "official", files))


def test_every_cut_of_an_svhn_file_is_refused_by_name(tmp_path: Path) -> None:
    folder = write_svhn(tmp_path / "official")
    path = folder / "test_32x32.mat"
    whole = path.read_bytes()
    for length in [0, 60, 130, 199, len(whole) // 2, len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match=r"test_32x32\.mat"):
            import_dataset("svhn", folder)


def test_wrong_arrays_in_svhn_files_are_refused(tmp_path: Path) -> None:
    folder = write_svhn(tmp_path / "official")
    x, y = np.zeros((32, 32, 3, 2), np.uint8), np.array([1, 2])
    for content, message in (
        ({"X": x}, "'y' is missing"),
        ({"X": x, "y": np.array([0, 1])}, "labels run from 0 to 1"),
        ({"X": x, "y": np.array([1])}, "1 labels for 2 images"),
        ({"X": x[..., 0], "y": y}, "X is uint8 with shape"),
        ({"X": x.astype(float), "y": y}, "X is float64"),
    ):
        savemat(folder / "train_32x32.mat", content)
        with pytest.raises(DataError, match=message):
            import_dataset("svhn", folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (bz2.compress(usps_line(1, 0, 0).encode())[:-5], "the file cannot be read"),
        (b"not packed", "the file cannot be read"),
        (bz2.compress(b"1 1:0.5 2:"), "not readable as libsvm text"),
        (bz2.compress(b"1 257:0.5\n"), "not readable as libsvm text"),
        (bz2.compress(b"0 1:0.5\n"), "labels run from 0 to 0"),
        (bz2.compress(b"1.5 1:0.5\n"), "whole numbers from 1 to 10"),
        (bz2.compress(b"1 1:1.5\n"), "from -1 to 1"),
        (bz2.compress(b""), "no samples"),
    ],
)
def test_damaged_usps_files_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    folder = write_usps(tmp_path / "official")
    (folder / "usps.t.bz2").write_bytes(content)
    with pytest.raises(DataError, match=rf"usps\.t\.bz2: .*{message}"):
        import_dataset("usps", folder)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ("00000007.png\n", "line 1 is '00000007.png'"),
        ("00000007.png 9\n../7.png 1\n", "line 2 is"),
        ("00000008.png 9\n", r"00000008\.png: the image cannot be read"),
        ("", "the list of labels is empty"),
        ("\u00e9", "not a readable list of labels"),
    ],
)
def test_wrong_lists_of_mnist_m_are_refused(tmp_path: Path, labels: str, message: str) -> None:
    folder = write_mnist_m(tmp_path / "official")
    (folder / "mnist_m_test_labels.txt").write_text(labels, "utf-8")
    with pytest.raises(DataError, match=message):
        import_dataset("mnist-m", folder)


def test_grey_images_are_not_mnist_m(tmp_path: Path) -> None:
    folder = write_mnist_m(tmp_path / "official")
    Image.new("L", (32, 32)).save(folder / "mnist_m_test" / "00000007.png")
    with pytest.raises(DataError, match="32×32 in colour"):
        import_dataset("mnist-m", folder)


@pytest.mark.parametrize("name", READERS)
def test_an_empty_folder_lacks_a_file_that_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no file"):
        import_dataset(name, tmp_path)


def test_a_file_is_not_the_folder_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "train.gz").write_bytes(b"")
    with pytest.raises(DataError, match="is not a folder"):
        import_dataset("mnist", tmp_path / "train.gz")


def test_data_without_a_reader_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"'mnsit'\. Did you mean 'mnist'\?"):
        import_dataset("mnsit", tmp_path)
