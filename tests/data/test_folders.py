from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from duotone.data.folders import read_folder, read_image
from duotone.errors import DataError


def paint(path: Path, value: int = 0, size: tuple[int, int] = (4, 3), mode: str = "L") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", size, value).convert(mode).save(path)


def test_clients_are_folders_and_classes_are_sorted_over_all_clients(tmp_path: Path) -> None:
    paint(tmp_path / "ann" / "dog" / "1.png", 10)
    paint(tmp_path / "ann" / "ape" / "1.png", 20)
    paint(tmp_path / "bob" / "cat" / "1.png", 30)
    dataset = read_folder(tmp_path)
    assert dataset.x[:, 0, 0].tolist() == [20, 10, 30]
    assert dataset.x.shape == (3, 3, 4)
    assert dataset.y.tolist() == [0, 2, 1]
    assert dataset.classes == 3
    assert dataset.client is not None
    assert dataset.client.tolist() == ["ann", "ann", "bob"]
    assert dataset.name == tmp_path.name
    assert dataset.class_names == ("ape", "cat", "dog")


def test_every_fifth_image_of_a_client_and_class_is_for_the_test(tmp_path: Path) -> None:
    for number in range(1, 12):
        paint(tmp_path / "ann" / "dog" / f"{number:02}.png", number)
    for number in range(1, 5):
        paint(tmp_path / "ann" / "cat" / f"{number:02}.png", 100 + number)
    dataset = read_folder(tmp_path)
    assert dataset.x[dataset.test_rows, 0, 0].tolist() == [5, 10]
    assert len(dataset.train_rows) == 13


def test_train_and_test_folders_are_the_split(tmp_path: Path) -> None:
    for number in range(6):
        paint(tmp_path / "train" / "ann" / "dog" / f"{number}.png", number)
    paint(tmp_path / "train" / "bob" / "cat" / "0.png", 40)
    paint(tmp_path / "test" / "bob" / "cat" / "0.png", 50)
    paint(tmp_path / "notes" / "0.png", 99)
    dataset = read_folder(tmp_path)
    assert dataset.x[dataset.train_rows, 0, 0].tolist() == [0, 1, 2, 3, 4, 5, 40]
    assert dataset.x[dataset.test_rows, 0, 0].tolist() == [50]
    assert dataset.y.tolist() == [1, 1, 1, 1, 1, 1, 0, 0]
    assert dataset.client is not None
    assert dataset.client[-1] == "bob"


def test_a_train_folder_without_a_test_folder_is_refused(tmp_path: Path) -> None:
    paint(tmp_path / "train" / "ann" / "dog" / "0.png")
    with pytest.raises(DataError, match="'train' but none called 'test'"):
        read_folder(tmp_path)


def test_hidden_and_foreign_files_are_ignored(tmp_path: Path) -> None:
    paint(tmp_path / "ann" / "dog" / "0.png", 7)
    for name in (".0.png", "labels.txt"):
        (tmp_path / "ann" / "dog" / name).write_text("no image")
    (tmp_path / ".git").mkdir()
    (tmp_path / "readme.txt").write_text("no client")
    assert read_folder(tmp_path).x[:, 0, 0].tolist() == [7]


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P"])
def test_colour_images_are_read_with_three_channels(tmp_path: Path, mode: str) -> None:
    picture = Image.new("RGB", (4, 3), (255, 0, 51))
    picture.convert(mode).save(tmp_path / "a.png")
    image = read_image(tmp_path / "a.png")
    assert image.shape == (3, 4, 3)
    assert image[2, 3].tolist() == [255, 0, 51]


def test_palettes_with_transparency_are_read_without_a_warning(tmp_path: Path) -> None:
    picture = Image.new("P", (4, 3), 1)
    picture.putpalette([0, 0, 0, 9, 8, 7])
    picture.save(tmp_path / "a.png", transparency=b"\x00\x80")
    assert read_image(tmp_path / "a.png")[0, 0].tolist() == [9, 8, 7]


@pytest.mark.parametrize("mode", ["1", "L", "LA"])
def test_grey_images_are_read_without_channels(tmp_path: Path, mode: str) -> None:
    paint(tmp_path / "a.png", 255, mode=mode)
    np.testing.assert_array_equal(read_image(tmp_path / "a.png"), np.full((3, 4), 255))


def test_sixteen_bit_images_become_shares_of_white(tmp_path: Path) -> None:
    for number, value in enumerate((0, 13107, 65535)):
        path = tmp_path / "ann" / "scan" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((3, 4), value, np.uint16)).save(path)
    dataset = read_folder(tmp_path)
    assert dataset.x.dtype == np.float32
    np.testing.assert_array_equal(dataset.x[:, 0, 0], np.array([0, 0.2, 1], np.float32))
    paint(tmp_path / "ann" / "scan" / "3.png", 9)
    with pytest.raises(DataError, match=r"3\.png is 4×3 grey, but .*0\.png is .* with 16 bits"):
        read_folder(tmp_path)


def test_sixteen_bit_images_are_refused_where_official_files_have_eight(tmp_path: Path) -> None:
    Image.fromarray(np.full((3, 4), 4000, np.uint16)).save(tmp_path / "a.png")
    with pytest.raises(DataError, match=r"a\.png: images of the kind 'I;16'"):
        read_image(tmp_path / "a.png")


@pytest.mark.parametrize(("size", "mode"), [((5, 3), "L"), ((4, 3), "RGB")])
def test_first_image_unlike_the_others_is_named(
    tmp_path: Path, size: tuple[int, int], mode: str
) -> None:
    paint(tmp_path / "ann" / "dog" / "0.png")
    paint(tmp_path / "ann" / "dog" / "1.png", size=size, mode=mode)
    with pytest.raises(DataError, match=r"1\.png is .* but .*0\.png is 4×3 grey"):
        read_folder(tmp_path)


def test_cut_images_are_named(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (32, 32), np.uint8)
    path = tmp_path / "ann" / "dog" / "0.png"
    path.parent.mkdir(parents=True)
    Image.fromarray(noise).save(path)
    whole = path.read_bytes()
    for length in (0, 4, 20, 60, len(whole) // 2):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match=r"0\.png: the image cannot be read"):
            read_folder(tmp_path)


def test_empty_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no subfolders of clients"):
        read_folder(tmp_path)
    (tmp_path / "ann").mkdir()
    with pytest.raises(DataError, match="ann has no subfolders of classes"):
        read_folder(tmp_path)
    (tmp_path / "ann" / "dog").mkdir()
    with pytest.raises(DataError, match="dog has no images"):
        read_folder(tmp_path)
