from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from duotone.data import import_dataset, load_dataset
from duotone.errors import DataError

# The tests of this folder do not see the data of the machine; one of them asks for it.
REAL = Path(os.environ.get("DUOTONE_DATA", "")) / "celeba64.npz"

NAMES = ["Bald", "Black_Hair", "Blond_Hair", "Male", "Smiling", "Wearing_Hat"]
ATTRIBUTES = """\
6
Bald Black_Hair Blond_Hair Male Smiling Wearing_Hat
000001.jpg  1 -1 -1  1  1 -1
000002.jpg -1  1 -1 -1 -1 -1
000003.jpg -1 -1  1 -1  1 -1
000004.jpg -1 -1 -1  1 -1  1
000005.jpg -1  1 -1  1  1  1
000006.jpg -1 -1 -1 -1 -1 -1
"""
PARTS = "000001.jpg 0\n000002.jpg 1\n000003.jpg 2\n000004.jpg 0\n000005.jpg 2\n000006.jpg 0\n"
PEOPLE = "000001.jpg 2880\n000002.jpg 7\n000003.jpg 7\n000004.jpg 12\n000005.jpg 1\n000006.jpg 3\n"
LISTS = {
    "list_attr_celeba.txt": ATTRIBUTES,
    "list_eval_partition.txt": PARTS,
    "identity_CelebA.txt": PEOPLE,
}


def write_face(path: Path, number: int) -> None:
    """Grey 40 · number on the left and 0 on the right; white above and below the middle square."""
    pixels = np.full((218, 178, 3), 255, np.uint8)
    pixels[20:198, :89] = 40 * number
    pixels[20:198, 89:] = 0
    Image.fromarray(pixels).save(path, quality=100, subsampling=0)


def write_celeba(folder: Path, *, lists: str = "", evaluation: str = "", images: str = "") -> Path:
    """Write six images and their lists into subfolders, by default all side by side."""
    (folder / images / "img_align_celeba").mkdir(parents=True)
    for number in range(1, 7):
        write_face(folder / images / "img_align_celeba" / f"{number:06}.jpg", number)
    for name, content in LISTS.items():
        place = folder / (evaluation if name == "list_eval_partition.txt" else lists)
        place.mkdir(exist_ok=True)
        (place / name).write_text(content)
    return folder


@pytest.mark.parametrize(
    "places", [{}, {"lists": "Anno", "evaluation": "Eval", "images": "Img"}], ids=["flat", "nested"]
)
def test_faces_are_read_with_their_identity_and_split(
    tmp_path: Path, cache: Path, places: dict[str, str]
) -> None:
    written = import_dataset("celeba64", write_celeba(tmp_path / "official", **places))
    assert written == cache / "celeba64.npz"
    dataset = load_dataset("celeba64")
    # Images 1, 2 (validation), 4 and 6 are for training, 3 and 5 for the test.
    assert dataset.test_rows.tolist() == [4, 5]
    assert dataset.y.tolist() == [1, 0, 0, 0, 1, 1]
    assert dataset.client is not None
    assert dataset.client.tolist() == ["2880", "7", "12", "3", "7", "1"]


def test_hair_is_known_where_exactly_one_kind_applies(tmp_path: Path) -> None:
    import_dataset("celeba64", write_celeba(tmp_path / "official"))
    hair = load_dataset("celeba64").factors["hair"]
    # Image 6 has no kind of hair, image 5 has black hair under a hat.
    assert hair.tolist() == ["bald", "black", "hat", "", "blond", ""]


def test_the_middle_square_of_an_image_becomes_64_by_64(tmp_path: Path) -> None:
    import_dataset("celeba64", write_celeba(tmp_path / "official"))
    dataset = load_dataset("celeba64")
    assert dataset.x.dtype == np.uint8
    assert dataset.x.shape == (6, 64, 64, 3)
    # White begins right beside the square: a single row of it would lighten an edge by 40 or more.
    for x, number in zip(dataset.x, [1, 2, 4, 6, 3, 5], strict=True):
        np.testing.assert_allclose(x[:, :30], 40 * number, atol=8)
        np.testing.assert_allclose(x[:, 34:], 0, atol=8)


def test_all_attributes_are_kept_as_zero_and_one(tmp_path: Path) -> None:
    written = import_dataset("celeba64", write_celeba(tmp_path / "official"))
    with np.load(written) as arrays:
        assert arrays["attr_names"].tolist() == NAMES
        assert arrays["attr_train"].dtype == np.uint8
        assert arrays["attr_train"][:2].tolist() == [[1, 0, 0, 1, 1, 0], [0, 1, 0, 0, 0, 0]]
        assert arrays["attr_test"].tolist() == [[0, 0, 1, 0, 1, 0], [0, 1, 0, 1, 1, 1]]
        assert not any(key.startswith("factor_") for key in arrays.files)


def test_a_part_of_the_images_is_enough(tmp_path: Path) -> None:
    folder = write_celeba(tmp_path / "official")
    for number in (1, 4, 5, 6):
        (folder / "img_align_celeba" / f"{number:06}.jpg").unlink()
    (folder / "img_align_celeba" / "._000009.jpg").write_bytes(b"left behind by a file manager")
    import_dataset("celeba64", folder)
    dataset = load_dataset("celeba64")
    assert dataset.factors["hair"].tolist() == ["black", "blond"]
    assert dataset.test_rows.tolist() == [1]


@pytest.mark.parametrize(("numbers", "split"), [((3, 5), "test"), ((1, 2, 4, 6), "train")])
def test_each_split_needs_an_image(tmp_path: Path, numbers: tuple[int, ...], split: str) -> None:
    folder = write_celeba(tmp_path / "official")
    for number in numbers:
        (folder / "img_align_celeba" / f"{number:06}.jpg").unlink()
    with pytest.raises(DataError, match=rf"none of its {6 - len(numbers)} jpg .* a {split} image"):
        import_dataset("celeba64", folder)


@pytest.mark.parametrize("name", [*LISTS, "img_align_celeba"])
def test_a_missing_list_or_folder_is_named(tmp_path: Path, name: str) -> None:
    folder = write_celeba(tmp_path / "official")
    (folder / name).rename(folder / "elsewhere")
    with pytest.raises(DataError, match=f"there is no file or folder {name}"):
        import_dataset("celeba64", folder)


@pytest.mark.parametrize("name", LISTS)
def test_an_image_that_a_list_does_not_name_is_refused(tmp_path: Path, name: str) -> None:
    folder = write_celeba(tmp_path / "official")
    lines = LISTS[name].replace("6\n", "5\n", 1).splitlines(keepends=True)
    (folder / name).write_text("".join(lines[:-1]))
    with pytest.raises(DataError, match=rf"000006\.jpg: the image is not named in .*{name}"):
        import_dataset("celeba64", folder)


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("list_attr_celeba.txt", "6\n", "7\n", "6 images are listed .* line 1 is '7'"),
        ("list_attr_celeba.txt", "Smiling", "Frowning", "line 2 does not name .* Smiling"),
        ("list_attr_celeba.txt", "Wearing_Hat", "Hat", "line 2 does not name .* Wearing_Hat"),
        ("list_attr_celeba.txt", ATTRIBUTES, "", "line 2 does not name .* Smiling"),
        ("list_attr_celeba.txt", "1  1 -1\n", "1  1\n", "line 3 is .* with 6 values"),
        ("list_attr_celeba.txt", "2.jpg -1", "2.jpg 0", "line 4 is '000002.jpg 0"),
        ("list_eval_partition.txt", "2.jpg 1", "2.jpg 3", "line 2 is '000002.jpg 3'"),
        ("list_eval_partition.txt", "000002", "000001", "line 2 is .* image of its own"),
        ("identity_CelebA.txt", "2880", "", "line 1 is '000001.jpg '"),
        ("identity_CelebA.txt", "2880", "\u00e9", "not a readable list"),
    ],
)
def test_a_wrong_list_is_refused_by_name_and_line(
    tmp_path: Path, cache: Path, name: str, old: str, new: str, message: str
) -> None:
    folder = write_celeba(tmp_path / "official")
    (folder / name).write_text(LISTS[name].replace(old, new, 1), "utf-8")
    with pytest.raises(DataError, match=f"{name}: {message}"):
        import_dataset("celeba64", folder)
    assert not cache.exists()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:300]), "the image cannot be read"),
        (lambda path: Image.new("RGB", (218, 178)).save(path), "must be 178×218 in colour"),
        (lambda path: Image.new("L", (178, 218)).save(path), "must be 178×218 in colour"),
    ],
    ids=["cut", "turned", "grey"],
)
def test_a_wrong_image_is_refused_by_name(
    tmp_path: Path, damage: Callable[[Path], object], message: str
) -> None:
    folder = write_celeba(tmp_path / "official")
    damage(folder / "img_align_celeba" / "000004.jpg")
    with pytest.raises(DataError, match=rf"000004\.jpg: .*{message}"):
        import_dataset("celeba64", folder)


@pytest.mark.parametrize(
    "wrong",
    [
        {"attr_names": None},
        {"attr_names": np.array(["Bald", "Smiling"])},
        {"attr_test": None},
        {"attr_train": np.zeros((19, 6), np.uint8)},
    ],
    ids=["no names", "other names", "no attributes", "too few rows"],
)
def test_a_file_without_fitting_attributes_is_refused(
    cache: Path, write_npz: Callable[..., Path], wrong: dict[str, np.ndarray | None]
) -> None:
    attributes = {
        "attr_names": np.array(NAMES),
        "attr_train": np.zeros((20, 6), np.uint8),
        "attr_test": np.zeros((10, 6), np.uint8),
    }
    write_npz(cache / "celeba64.npz", **attributes)
    assert set(load_dataset("celeba64").factors["hair"]) == {""}
    write_npz(cache / "celeba64.npz", **attributes | wrong)
    with pytest.raises(DataError, match=r"celeba64\.npz: attr_names.*data import celeba64 PATH"):
        load_dataset("celeba64")


def test_every_attribute_can_be_a_factor(tmp_path: Path, cache: Path) -> None:
    import_dataset("celeba64", write_celeba(tmp_path / "official"))
    dataset = load_dataset("celeba64-attributes")
    assert list(dataset.factors) == NAMES
    # Training images 1, 2, 4 and 6, then test images 3 and 5.
    assert dataset.factors["Male"].tolist() == [1, 0, 1, 0, 0, 1]
    assert dataset.factors["Wearing_Hat"].tolist() == [0, 0, 1, 0, 0, 1]


@pytest.mark.skipif(not REAL.is_file(), reason="needs celeba64.npz in $DUOTONE_DATA")
def test_hair_of_real_faces_is_what_their_attributes_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUOTONE_DATA", str(REAL.parent))
    dataset = load_dataset("celeba64")
    with np.load(REAL) as arrays:
        names = arrays["attr_names"].tolist()
        attributes = np.concatenate([arrays["attr_train"], arrays["attr_test"]])
    columns = [names.index(name) for name in ("Bald", "Wearing_Hat", "Blond_Hair", "Black_Hair")]
    only = {
        (1, 0, 0, 0): "bald",
        (0, 1, 0, 0): "hat",
        (0, 0, 1, 0): "blond",
        (0, 0, 0, 1): "black",
    }
    expected = [only.get(tuple(row), "") for row in attributes[:, columns].tolist()]
    assert dataset.factors["hair"].tolist() == expected
    assert set(expected) == {*only.values(), ""}
