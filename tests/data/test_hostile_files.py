"""Files that once crashed, hung or filled the memory; each must end in one line."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import pickle
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image

from duotone.config import parse_assignment, read_toml
from duotone.data import import_dataset, load_dataset
from duotone.data.apart import read_apart
from duotone.data.cifar import unpickle_batch
from duotone.data.folders import read_image
from duotone.data.limits import FLOOR, allowance
from duotone.errors import ConfigError, DataError
from duotone.partition import resolve_settings


def header(shape: tuple[int, ...], kind: str = "|u1") -> bytes:
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    padded = text.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(padded)) + padded.encode()


def test_an_npz_that_announces_more_than_it_has_is_refused(tmp_path: Path):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x_train.npy", header((10**9, 4)) + b"\0" * 100)
    with pytest.raises(DataError, match="announces 4,000,000,000 bytes and has"):
        load_dataset(str(path))


def test_an_npz_that_unpacks_to_gigabytes_is_refused_before_it_is_read(tmp_path: Path):
    path, size = tmp_path / "a.npz", FLOOR + 2**20
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("x_train.npy", "w", force_zip64=True) as file,
    ):
        file.write(header((size,)))
        for _ in range(size // 2**20):
            file.write(bytes(2**20))
    assert path.stat().st_size < 2**20
    with pytest.raises(DataError, match="it is damaged or hostile"):
        load_dataset(str(path))


def test_a_large_file_may_unpack_to_more():
    assert allowance(10) == FLOOR
    assert allowance(10**9) == 32 * 10**9


@pytest.mark.parametrize("pack", [gzip, bz2])
def test_packed_files_without_end_are_refused(tmp_path: Path, pack):
    names = {
        gzip: ("mnist", "train-images-idx3-ubyte.gz"),
        bz2: ("usps", "usps.bz2"),
    }
    name, file = names[pack]
    with pack.open(tmp_path / file, "wb") as packed:
        for _ in range(FLOOR // 2**20 + 2):
            packed.write(bytes(2**20))
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(b"\0")
    with pytest.raises(DataError, match="it is damaged or hostile"):
        import_dataset(name, tmp_path, out=tmp_path)


def test_a_short_text_that_would_become_a_large_table_is_refused(tmp_path: Path):
    (tmp_path / "usps").write_bytes(b"1\n" * 2_000_000)
    with pytest.raises(DataError, match="announces"):
        import_dataset("usps", tmp_path, out=tmp_path)


def test_codecs_that_multiply_a_text_are_refused():
    content = b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x03\x00\x00\x00hex\x86R."
    with pytest.raises(DataError, match="asks for the codec 'hex'"):
        unpickle_batch(content, Path("batch"))


def test_a_pickle_whose_hash_never_ends_is_stopped(monkeypatch):
    monkeypatch.setattr("duotone.data.apart._SECONDS", 1)
    # A pair of pairs of pairs …, each of the same two: hashing it as a key takes 2⁶⁰ steps.
    deep = b"X\x01\x00\x00\x00aq\x00" + b"h\x00h\x00\x86q\x00" * 60
    with pytest.raises(DataError, match="its reader crashed"):
        unpickle_batch(b"\x80\x02}(" + deep + b"K\x01u.", Path("batch"))


def test_a_pickle_nested_without_end_is_refused():
    content = b"\x80\x02}(" + b"K\x01" + b"\x85" * 2_000_000 + b"K\x01u."
    with pytest.raises(DataError, match="not a readable batch"):
        unpickle_batch(content, Path("batch"))


def test_a_reader_that_crashes_is_an_error_of_the_file(monkeypatch, tmp_path: Path):
    script = tmp_path / "crash.py"
    script.write_text("import os; os.abort()")
    monkeypatch.setattr("duotone.data.untrusted.__file__", str(script))
    with pytest.raises(DataError, match=r"a\.mat: not a readable MATLAB file \(its reader crashed"):
        read_apart("matlab", b"", Path("a.mat"))


def test_objects_in_a_matlab_file_are_refused(tmp_path: Path):
    from scipy.io import savemat

    content = io.BytesIO()
    savemat(content, {"X": np.array(["text"]), "y": np.array([1])})
    with pytest.raises(DataError, match="no numbers"):
        read_apart("matlab", content.getvalue(), Path("a.mat"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
def test_pipes_and_devices_are_refused(tmp_path: Path):
    for name in ("a.png", "t.csv", "c.toml"):
        os.mkfifo(tmp_path / name)
    with pytest.raises(DataError, match="no regular file"):
        read_image(tmp_path / "a.png")
    with pytest.raises(ConfigError, match="not a regular file"):
        read_toml(tmp_path / "c.toml")
    with pytest.raises(DataError):
        load_dataset(str(tmp_path / "t.csv"))


def chunk(kind: bytes, content: bytes) -> bytes:
    crc = struct.pack(">I", zlib.crc32(kind + content))
    return struct.pack(">I", len(content)) + kind + content + crc


def test_pictures_of_too_many_pixels_are_refused(tmp_path: Path):
    size = struct.pack(">IIBBBBB", 13000, 13000, 8, 0, 0, 0, 0)
    content = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", zlib.compress(b""))
    (tmp_path / "a.png").write_bytes(content + chunk(b"IEND", b""))
    with pytest.raises(DataError):
        read_image(tmp_path / "a.png")
    Image.new("L", (4097, 4096)).save(tmp_path / "b.png")
    with pytest.raises(DataError, match="4097×4096, more than the 16,777,216 pixels"):
        read_image(tmp_path / "b.png")


def test_a_picture_of_another_kind_is_not_read_by_its_name(tmp_path: Path):
    Image.new("L", (4, 4)).save(tmp_path / "a.tiff")
    (tmp_path / "a.tiff").rename(tmp_path / "a.png")
    with pytest.raises(DataError, match="cannot be read"):
        read_image(tmp_path / "a.png")


def test_a_table_of_few_bytes_and_many_rows_is_refused(tmp_path: Path):
    path = tmp_path / "t.parquet"
    rows = 4_000_000
    wide = {f"c{i}": pl.repeat(1, rows, dtype=pl.Int8, eager=True) for i in range(10)}
    pl.DataFrame(wide).write_parquet(path)
    assert path.stat().st_size < 2**20
    with pytest.raises(DataError, match="announces 320,000,000"):
        load_dataset(str(path))


def test_texts_that_are_no_characters_are_refused(tmp_path: Path):
    bad = np.array([0xFFFFFF], np.uint32).view("<U1")
    np.save(tmp_path / "x.npy", np.zeros((1, 2, 2), np.uint8))
    np.save(tmp_path / "y.npy", np.zeros(1, np.int64))
    np.save(tmp_path / "is_test.npy", np.zeros(1, bool))
    np.save(tmp_path / "client.npy", bad)
    with pytest.raises(DataError, match="no characters"):
        load_dataset(str(tmp_path))


@pytest.mark.parametrize(
    "content",
    [b"a = " + b"[" * 100_000, b"a." * 2000 + b"a = 1", b"a = " + b"9" * 5000, b"# " * 2**20],
)
def test_settings_nobody_would_write_are_refused_in_one_line(tmp_path: Path, content: bytes):
    path = tmp_path / "c.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="cannot be read") as error:
        read_toml(path)
    assert "\n" not in str(error.value)


def test_assignments_nobody_would_type_are_texts_or_errors():
    assert parse_assignment("a=" + "[" * 5000) == {"method": {"a": "[" * 5000}}
    with pytest.raises(ConfigError, match="knows no setting as deep"):
        parse_assignment(".".join("a" * 100) + "=1")


@pytest.mark.parametrize("scheme", ["iid", "dirichlet", "groups", "domains"])
def test_more_clients_than_fit_are_an_error_at_once(scheme: str):
    with pytest.raises(ConfigError, match="1000000"):
        resolve_settings(scheme, {"clients": 999_999_999_999})


def test_an_official_batch_still_calls_nothing_of_numpy():
    batch = {b"data": np.zeros((1, 3072), np.uint8), b"labels": [3]}
    x, y = unpickle_batch(pickle.dumps(batch, protocol=2), Path("batch"))
    assert (x.shape, y.tolist()) == ((1, 3072), [3])
