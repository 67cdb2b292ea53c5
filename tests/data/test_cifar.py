from __future__ import annotations

import io
import pickle
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from duotone.data import import_dataset, load_dataset
from duotone.errors import DataError

NAMES = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]


def string(value: bytes) -> bytes:
    """Write a string as Python 2 pickles it."""
    return b"T" + struct.pack("<i", len(value)) + value


def whole(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def array(shape: tuple[int, ...], values: bytes, *, kind: bytes = b"u1") -> bytes:
    """Write an array as Python 2 and the NumPy of its time pickle it."""
    empty = (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00t" + string(b"b") + b"tR"
    )
    flags = b"(K\x03" + string(b"|") + b"NNN" + whole(-1) + whole(-1) + whole(0) + b"tb"
    dtype = b"cnumpy\ndtype\n(" + string(kind) + b"K\x00K\x01tR" + flags
    sizes = b"(" + b"".join(map(whole, shape)) + b"t"
    return empty + b"(K\x01" + sizes + dtype + b"\x89" + string(values) + b"tb"


def batch(data: bytes, labels: list[int]) -> bytes:
    """Write the pickle of an official file, protocol 2."""
    numbers = b"](" + b"".join(map(whole, labels)) + b"e"
    title = string(b"batch_label") + string(b"training batch 1 of 5")
    return (
        b"\x80\x02}("
        + title
        + (string(b"labels") + numbers + string(b"data") + data)
        + (string(b"filenames") + b"](" + string(b"camion.png") * len(labels) + b"eu.")
    )


def image(red: int, green: int, blue: int) -> bytes:
    """Make one row of an official file; its first pixel is 7 in all colours."""
    return b"".join(b"\x07" + bytes([value]) * 1023 for value in (red, green, blue))


def good_files() -> dict[str, bytes]:
    """Two images in each batch: batch n holds the reds 2n - 2 and 2n - 1, and is labelled so."""
    files = {}
    for number, name in enumerate(NAMES):
        reds = [2 * number, 2 * number + 1]
        values = b"".join(image(red, 100, 200) for red in reds)
        files[name] = batch(array((2, 3072), values), [red % 10 for red in reds])
    return files


def write_folder(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def write_archive(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        # The official archive is not in order and holds other files, too.
        for name, content in [("readme.html", b"<html>"), *reversed(files.items())]:
            member = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


@pytest.mark.parametrize("write", [write_folder, write_archive])
def test_cifar_is_read_from_its_folder_and_from_its_archive(
    write: Callable[[Path, dict[str, bytes]], Path], tmp_path: Path, cache: Path
) -> None:
    official = write(tmp_path / "official", good_files())
    before = sorted(tmp_path.rglob("*"))
    written = import_dataset("cifar10", official)
    assert written == cache / "cifar10.npz"
    assert set(tmp_path.rglob("*")) - set(before) == {cache.parent, cache, written}
    dataset = load_dataset("cifar10")
    assert dataset.x.shape == (12, 32, 32, 3)
    assert dataset.x.dtype == np.uint8
    assert dataset.x[:, 31, 31].tolist() == [[red, 100, 200] for red in range(12)]
    assert dataset.x[3, 0, :2].tolist() == [[7, 7, 7], [3, 100, 200]]
    assert dataset.y.tolist() == [*range(10), 0, 1]
    assert dataset.test_rows.tolist() == [10, 11]


def test_a_batch_that_python_3_wrote_for_python_2_is_read(tmp_path: Path) -> None:
    x = np.random.default_rng(0).integers(0, 256, (2, 3072), np.uint8)
    # An array in Fortran order is pickled in that order.
    batch = {b"data": np.asfortranarray(x), b"labels": [4, 0]}
    folder = write_folder(
        tmp_path / "official", good_files() | {"test_batch": pickle.dumps(batch, protocol=2)}
    )
    import_dataset("cifar10", folder)
    assert np.array_equal(
        load_dataset("cifar10").x[10:], x.reshape(2, 3, 32, 32).transpose(0, 2, 3, 1)
    )


class Harm:
    """Leaves a trace when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.trace,)


@pytest.mark.parametrize("write", [write_folder, write_archive])
def test_a_pickle_that_would_run_something_is_refused_and_does_not_run(
    write: Callable[[Path, dict[str, bytes]], Path], tmp_path: Path, cache: Path
) -> None:
    trace = tmp_path / "trace"
    harm = pickle.dumps({b"data": Harm(trace), b"labels": [0]}, protocol=2)
    with pytest.raises(DataError, match=r"data_batch_3: .*it was not called"):
        import_dataset(
            "cifar10", write(tmp_path / "official", good_files() | {"data_batch_3": harm})
        )
    assert not trace.exists()
    assert not cache.exists()
    pickle.loads(harm)
    assert trace.exists(), "the pickle must be one that works"


@pytest.mark.parametrize(
    "name",
    ["os\nsystem", "builtins\neval", "numpy\nload", "numpy.core.multiarray\nscalar", "_codecs\nx"],
)
def test_no_other_name_is_known(name: str, tmp_path: Path) -> None:
    content = b"\x80\x02c" + name.encode() + b"\n(" + string(b"1") + b"tR."
    asked = name.replace("\n", r"\.")
    with pytest.raises(DataError, match=f"asks for {asked}"):
        import_dataset(
            "cifar10", write_folder(tmp_path / "official", good_files() | {NAMES[0]: content})
        )


def test_bytes_cannot_pass_for_python_objects(tmp_path: Path) -> None:
    # To NumPy this would be an array of objects whose addresses are read from the file.
    forged = batch(array((1, 3072), b"A" * 8 * 3072, kind=b"O8"), [0])
    with pytest.raises(DataError, match=r"test_batch: .*type b'O8' instead of 'u1'"):
        import_dataset(
            "cifar10", write_folder(tmp_path / "official", good_files() | {"test_batch": forged})
        )


def test_a_pickle_cannot_change_the_reader(tmp_path: Path) -> None:
    # BUILD with a pair as state sets attributes; here of the class, for all later batches.
    change = b"\x80\x02cnumpy\nndarray\n(N}(" + b"X\x06\x00\x00\x00values" + b"K\x01ut" + b"b."
    folder = write_folder(tmp_path / "official", good_files() | {"data_batch_1": change})
    with pytest.raises(DataError, match="data_batch_1: not a readable batch"):
        import_dataset("cifar10", folder)
    import_dataset("cifar10", write_folder(folder, good_files()))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a readable batch"),
        (b"no pickle", "not a readable batch"),
        (batch(array((2, 3072), image(0, 0, 0)), [0, 1]), "not a readable batch"),
        (batch(array((1, 1024), bytes(1024)), [0]), r"shape \(1, 1024\); it must be N×3072"),
        (batch(array((3072,), bytes(3072)), [0]), r"shape \(3072,\)"),
        (batch(array((1, 3072), bytes(3072 * 8), kind=b"f8"), [0]), "type b'f8' instead of 'u1'"),
        (batch(array((1, 3072), bytes(3072)), [0, 1]), "2 labels for 1 images"),
        (batch(array((1, 3072), bytes(3072)), [10]), "1 of 1 labels are no whole numbers"),
        (batch(array((1, 3072), bytes(3072)), [-1]), "1 of 1 labels are no whole numbers"),
        (batch(string(b"pixels"), [0]), "'data' must be an array"),
        (pickle.dumps([1, 2], protocol=2), "lacks 'data' or 'labels'"),
        (pickle.dumps({b"labels": [1]}, protocol=2), "lacks 'data' or 'labels'"),
        (pickle.dumps({b"data": np.zeros((1, 3072), "u1"), b"labels": 3}, 2), "'labels' a list"),
        (pickle.dumps({b"data": np.zeros((1, 3072), "u1"), b"labels": [[3]]}, 2), "1 of 1 labels"),
        (batch(array((0, 3072), b""), []), "N ≥ 1"),
    ],
)
def test_wrong_batches_are_refused_by_name(
    content: bytes, message: str, tmp_path: Path, cache: Path
) -> None:
    folder = write_folder(tmp_path / "official", good_files() | {"data_batch_2": content})
    with pytest.raises(DataError, match=f"data_batch_2: .*{message}"):
        import_dataset("cifar10", folder)
    assert not cache.exists()


def test_every_cut_of_a_batch_is_refused_by_name(tmp_path: Path) -> None:
    files = good_files()
    folder = write_folder(tmp_path / "official", files)
    whole = files["data_batch_1"]
    for length in [*range(0, 330, 41), len(whole) // 2, len(whole) - 1]:
        (folder / "data_batch_1").write_bytes(whole[:length])
        with pytest.raises(DataError, match="data_batch_1: not a readable batch"):
            import_dataset("cifar10", folder)


def test_every_cut_and_every_changed_bit_of_the_archive_is_refused(tmp_path: Path) -> None:
    path = write_archive(tmp_path / "cifar-10-python.tar.gz", good_files())
    whole = path.read_bytes()
    cuts = [whole[:length] for length in [*range(0, len(whole), 7), len(whole) - 1]]
    begin = whole.index(b"\0", 10) + 1  # after the header, whose time stamp may be any
    changes = [
        whole[:at] + bytes([whole[at] ^ 16]) + whole[at + 1 :] for at in range(begin, len(whole), 7)
    ]
    for content in cuts + changes:
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"cifar-10-python\.tar\.gz: "):
            import_dataset("cifar10", path)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("write", [write_folder, write_archive])
def test_a_missing_batch_is_named(
    write: Callable[[Path, dict[str, bytes]], Path], name: str, tmp_path: Path
) -> None:
    files = good_files()
    del files[name]
    with pytest.raises(DataError, match=rf"there is no file {name}; give the folder cifar-10-bat"):
        import_dataset("cifar10", write(tmp_path / "official", files))


def test_a_path_that_leads_nowhere_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not a folder"):
        import_dataset("cifar10", tmp_path / "cifar-10-python.tar.gz")
