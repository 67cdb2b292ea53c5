"""Text by who says it: which characters are samples, and what a file of roles may hold."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest

from duotone.data import describe_datasets, import_dataset, load_dataset
from duotone.data.text import Speaker, read_roles, text_dataset, text_of, windows_of
from duotone.errors import DataError
from duotone.partition.partition import network_inputs

FOLDER = Path(os.environ.get("DUOTONE_DATA", "none"))
LETTERS = "abcdefghij"


def written(path: Path, content: object) -> Path:
    text = json.dumps(content).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def test_every_tenth_character_is_guessed_from_those_before_it() -> None:
    text = "".join(LETTERS[place // 10 % 10] for place in range(200))
    dataset = text_dataset("t", [Speaker("a", "", text)])
    # Characters 9, 19 … 159 are in the first four fifths, 169 … 199 are not.
    assert (len(dataset.train_rows), len(dataset.test_rows)) == (16, 4)
    assert [dataset.alphabet[label] for label in dataset.y[:16]] == [*"abcdefghijabcdef"]
    for row, place in zip(dataset.x, range(9, 200, 10), strict=True):
        assert text_of(row, dataset.alphabet) == text[max(0, place - 80) : place]
        assert (row[: max(0, 80 - place)] == 0).all()


def test_a_character_nobody_can_learn_is_no_class_and_no_test_sample() -> None:
    learnt = ("x" * 9 + "a" + "x" * 9 + "b") * 12  # 240 of 300 characters
    dataset = text_dataset("t", [Speaker("a", "", learnt + ("x" * 9 + "a" + "x" * 9 + "q") * 3)])
    assert dataset.class_names == ("a", "b")
    assert dataset.alphabet == "abx"  # x is read, and never guessed
    assert dataset.y[dataset.test_rows].tolist() == [0, 0, 0]
    assert set(dataset.x[0]) == {0, 3}


def test_roles_are_clients_and_plays_their_domains(tmp_path: Path) -> None:
    roles = [
        {"role": "ALL", "play": "One", "speeches": ["ab" * 60, "cd" * 60]},
        {"role": "ALL", "play": "Two", "speeches": ["dc" * 120]},
        {"role": "EVE", "play": "Two", "speeches": ["abcd" * 50]},
    ]
    for name in ("roles.json", "roles.json.gz"):
        dataset = load_dataset(str(written(tmp_path / name, roles)))
        assert dataset.name == "roles"
        assert sorted(set(dataset.client)) == ["ALL (One)", "ALL (Two)", "EVE"]
        assert set(dataset.domain[dataset.client == "EVE"]) == {"Two"}
        assert dataset.class_names == ("b", "c", "d")
    first = read_roles(tmp_path / "roles.json")[0]
    assert first.text[118:123] == "ab\ncd"  # speeches are lines


def test_what_cannot_be_seen_has_a_name_as_a_class(tmp_path: Path) -> None:
    text = ("x" * 9 + "\n" + "x" * 9 + " ") * 20
    assert text_dataset("t", [Speaker("a", "", text)]).class_names == ("↵", "␣")


def test_imported_text_is_the_same_text(tmp_path: Path) -> None:
    roles = [{"role": name, "speeches": ["some words to say " * 30]} for name in "ab"]
    given = load_dataset(str(written(tmp_path / "r.json", roles)))
    again = load_dataset(str(import_dataset("own", tmp_path / "r.json", tmp_path)))
    assert again.fingerprint() == given.fingerprint()
    assert (again.alphabet, again.class_names) == (given.alphabet, given.class_names)
    assert again.domain is None
    assert network_inputs(again.x[:2]).tolist() == again.x[:2].tolist()  # numbers, not shades


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"role": "a"}, "this is no file of roles"),
        ([{"role": "a"}], "'speeches'"),
        ([{"role": "a", "speeches": "one text"}], "speeches are a list of texts"),
        ([{"role": "a", "speeches": ["x"]}] * 2, "'a' is there twice"),
        ([], "its list of roles is empty"),
        ([{"role": "a", "speeches": ["short"]}], "too little text"),
    ],
)
def test_wrong_files_are_one_line(tmp_path: Path, content: object, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        load_dataset(str(written(tmp_path / "r.json", content)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", gzip.compress(b"[]")[:-9]])
def test_damaged_files_are_refused(tmp_path: Path, content: bytes) -> None:
    for name in ("r.json", "r.json.gz"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match="cannot be read"):
            load_dataset(str(tmp_path / name))


def test_a_small_file_that_unpacks_to_gigabytes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duotone.data.limits.FLOOR", 2**20)
    (tmp_path / "r.json.gz").write_bytes(gzip.compress(b" " * 2**22))
    with pytest.raises(DataError, match="damaged or hostile"):
        load_dataset(str(tmp_path / "r.json.gz"))


def test_shakespeare_is_looked_for_in_the_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUOTONE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(DataError, match=r"needs shakespeare_roles\.json\.gz, which is not in"):
        load_dataset("shakespeare")
    written(
        tmp_path / "shakespeare_roles.json.gz",
        [{"role": "A", "speeches": ["words and words " * 9]}],
    )
    dataset = load_dataset("shakespeare")
    assert dataset.name == "shakespeare"
    assert "public domain" in dataset.origin
    found = {summary.name: summary for summary in describe_datasets()}["shakespeare"]
    assert found.available
    assert found.where == str(tmp_path / "shakespeare_roles.json.gz")


@pytest.mark.skipif(
    not (FOLDER / "shakespeare_roles.json.gz").is_file(),
    reason="the roles are not in $DUOTONE_DATA",
)
def test_the_real_roles_have_the_plays_and_the_alphabet_one_expects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DUOTONE_DATA", str(FOLDER))
    dataset = load_dataset("shakespeare")
    assert len(set(dataset.domain)) == 8
    assert {"HAMLET", "MACBETH", "JULIET"} <= set(dataset.client)
    assert len(dataset.alphabet) == 62
    share = np.bincount(dataset.y[dataset.test_rows]).max() / len(dataset.test_rows)
    assert dataset.class_names[int(np.bincount(dataset.y).argmax())] == "␣"
    assert 0.15 < share < 0.2


def test_texts_of_any_length_become_windows() -> None:
    rows = windows_of(["ba", "abab?ab", ""], "ab", 4)
    assert rows.tolist() == [[0, 0, 2, 1], [2, 0, 1, 2], [0, 0, 0, 0]]
    assert rows.dtype == np.uint16
