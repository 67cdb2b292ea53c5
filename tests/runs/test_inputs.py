"""Samples in any form a user has them, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from duotone.errors import DataError
from duotone.runs.inputs import as_inputs
from duotone.runs.join import as_labels
from duotone.types import DataInfo

GREY = DataInfo((1, 4, 6), "classes", 3)
COLOUR = DataInfo((3, 4, 6), "classes", 3)
TABLE = DataInfo((5,), "regression", 1)
pixels = np.arange(48, dtype=np.uint8).reshape(2, 4, 6)


def test_arrays_tensors_and_floats_are_the_same_samples():
    wanted = torch.arange(48).reshape(2, 1, 4, 6) / 255
    for x in (
        pixels,
        pixels[..., None],
        torch.from_numpy(pixels),
        pixels.astype(np.float32) / np.float32(255),
        pixels / 255,
    ):
        assert torch.equal(as_inputs(x, GREY), wanted)


def test_colours_come_first_for_the_network():
    x = np.zeros((1, 4, 6, 3), np.uint8)
    x[0, 1, 2] = (255, 51, 0)
    assert as_inputs(x, COLOUR)[0, :, 1, 2].tolist() == pytest.approx([1.0, 0.2, 0.0])


def test_tables_of_any_number_type_are_float32():
    for kind in (np.float32, np.float64, np.int64):
        found = as_inputs(np.ones((3, 5), kind), TABLE)
        assert (found.dtype, found.shape) == (torch.float32, (3, 5))


@pytest.mark.parametrize(
    ("x", "info", "words"),
    [
        (np.zeros((2, 5, 6), np.uint8), GREY, r"shape \(2, 5, 6\); expected: images as uint8"),
        (np.zeros((4, 6), np.uint8), GREY, r"samples × 4 × 6\."),
        (np.zeros((2, 4, 6, 3), np.uint8), GREY, "samples × 4 × 6"),
        (np.zeros((2, 4, 6), np.uint8), COLOUR, "samples × 4 × 6 × 3"),
        (np.zeros((2, 3, 4, 6), np.uint8), COLOUR, "samples × 4 × 6 × 3"),
        (np.zeros((2, 4, 6), np.int64), GREY, "x is int64"),
        (np.zeros((2, 4, 6), bool), GREY, "x is bool"),
        (np.full((2, 4, 6), 255.0), GREY, "values from 255 to 255; expected: images"),
        (np.full((2, 4, 6), np.nan), GREY, "NaN or infinite values"),
        (np.zeros((0, 4, 6), np.uint8), GREY, "no sample"),
        (np.zeros((2, 4)), TABLE, "samples × 5 features"),
        (np.array([[1, 2, np.inf, 4, 5]]), TABLE, r"infinite values \(first in sample 0\)"),
        (np.full((1, 5), 1e300), TABLE, "infinite"),
        ([], GREY, "expected: images"),
        ("nowhere.png", GREY, "there is no such file"),
        ("nowhere.png", TABLE, "npz, CSV or Parquet file"),
        (Image.new("L", (6, 4)), TABLE, "An image was given"),
        (Image.new("I;16", (6, 4)), GREY, "save it with 8 bits"),
    ],
)
def test_anything_else_is_refused_with_what_was_expected(x, info, words):
    with pytest.raises(DataError, match=words):
        as_inputs(x, info)


def test_images_are_fitted_to_the_data_whatever_they_are(tmp_path):
    grey = Image.fromarray(pixels[0])
    assert torch.equal(as_inputs(grey, GREY), as_inputs(pixels[:1], GREY))
    grey.save(tmp_path / "a.png")
    grey.convert("RGBA").save(tmp_path / "b.png")
    Image.fromarray(pixels[0].repeat(3, 0).repeat(3, 1)).save(tmp_path / "c.png")
    found = as_inputs(tmp_path, GREY)  # a folder, in the order of the names
    assert found.shape == (3, 1, 4, 6)
    assert torch.equal(found[0], found[1])
    assert torch.allclose(found[0], found[2], atol=1.5 / 255)  # shrunk again
    assert as_inputs([tmp_path / "a.png", grey], COLOUR).shape == (2, 3, 4, 6)


def test_an_image_is_turned_as_its_camera_says(tmp_path):
    turned = Image.fromarray(pixels[0]).transpose(Image.Transpose.ROTATE_90)
    exif = Image.Exif()
    exif[0x0112] = 6  # to be shown rotated by 90° clockwise
    turned.save(tmp_path / "photo.png", exif=exif)
    assert torch.equal(as_inputs(tmp_path / "photo.png", GREY), as_inputs(pixels[:1], GREY))


def test_damaged_files_are_one_clear_line(tmp_path):
    (tmp_path / "a.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"a\.png: the image cannot be read"):
        as_inputs(tmp_path / "a.png", GREY)
    np.savez(tmp_path / "b.npz", z=np.zeros(3))
    with pytest.raises(DataError, match="has no array x"):
        as_inputs(tmp_path / "b.npz", GREY)


def test_labels_are_numbers_or_names():
    names = ("cat", "dog", "owl")
    assert as_labels(["owl", "cat"], 2, GREY, names).tolist() == [2, 0]
    assert as_labels(["2", "0"], 2, GREY, None).tolist() == [2, 0]
    assert as_labels(np.array([1, -1]), 2, GREY, None, may_lack=True).tolist() == [1, -1]
    assert as_labels([1, 2], 2, TABLE, None).dtype == torch.float32


@pytest.mark.parametrize(
    ("y", "info", "words"),
    [
        ([0, 3], GREY, "Unknown label 3; the run's classes are 0 to 2"),
        ([0, -1], GREY, "Unknown label -1"),
        (["cat", "dgo"], GREY, "Unknown label 'dgo'. Did you mean 'dog'?"),
        ([0], GREY, "one label for 2 samples"),
        ([0.0, 1.0], GREY, "given as integers"),
        ([0.0, np.nan], TABLE, "every sample needs a number"),
        (["a", "b"], TABLE, "learns numbers"),
    ],
)
def test_wrong_labels_are_one_clear_line(y, info, words):
    with pytest.raises(DataError, match=words.replace("?", r"\?")):
        as_labels(y, 2, info, ("cat", "dog", "owl"))
