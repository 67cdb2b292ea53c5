"""Columns of text: what looks like a tuple of strings and is a few arrays."""

from __future__ import annotations

import pickle
import sys
import zlib

import numpy as np
import pytest

from duotone.partition import columns
from duotone.partition.columns import Listed, Numbered, Words, names_of


def test_words_are_the_entries_they_were_made_of():
    entries = ["b", "a", "b", "c", "b"]
    words = Words.of(entries)
    assert words == entries == [*words] == [words.at(i) for i in range(5)]
    assert words == tuple(entries)
    assert words != ["b", "a", "b", "c", "a"]
    assert words != entries[:4]
    assert hash(words) == hash(tuple(entries))
    assert (words[-1], words[1:3]) == ("b", ("a", "b"))
    assert words.is_word("b").tolist() == [True, False, True, False, True]
    assert "c" in words
    assert "d" not in words
    assert words.distinct() == ["b", "a", "c"]
    assert Words(np.array([1, 0, 1]), ["x", "y", "z"]).distinct() == ["y", "x"]
    with pytest.raises(IndexError):
        words[5]


@pytest.mark.parametrize(("words", "each"), [(2, 1), (256, 1), (257, 2), (70_000, 4)])
def test_an_entry_takes_no_more_bytes_than_there_are_words(words, each):
    packed = Words.of([str(number) for number in range(words)])
    assert packed.codes.itemsize == each
    assert packed[-1] == str(words - 1)


def test_numbered_names_are_found_without_a_table():
    numbers = Numbered(12)
    assert [numbers.position(name) for name in ("0", "7", "11")] == [0, 7, 11]
    assert list(numbers) == [str(i) for i in range(12)]
    for name in ("12", "01", "-1", "", "a", "1.0", "²", "٣", "1" * 5000, 3, None):
        assert name not in numbers


NAMES = ["anna", "", "Zoë", "b\n", "10", "\udc80", "anna "]


def test_listed_names_come_back_and_are_found():
    names = Listed.of(NAMES)
    assert names == NAMES == [*names]
    assert [names.position(name) for name in NAMES] == [*range(len(NAMES))]
    for name in ("ann", "annaa", "0", 3, None):
        assert name not in names
    assert not names.has_twins()
    assert Listed.of([*NAMES, "10"]).has_twins()


def test_names_with_one_checksum_are_told_apart():
    one, other = "plumless", "buckeroo"  # a pair known from tables of CRC32's collisions
    assert zlib.crc32(one.encode()) == zlib.crc32(other.encode())
    names = Listed.of(["a", one, "b", other])
    assert (names.position(one), names.position(other)) == (1, 3)
    assert not names.has_twins()
    assert Listed.of([one, other, one]).has_twins()


def test_what_was_looked_up_here_is_found_in_another_process():
    names = Listed.of(NAMES)
    names.position("anna")
    assert pickle.loads(pickle.dumps(names)).position("Zoë") == 2
    assert columns._checksum("anna") == zlib.crc32(b"anna"), "Python's own hash differs by process"


def test_only_other_names_than_numbers_are_listed():
    assert isinstance(names_of(["0", "1", "2"]), Numbered)
    assert isinstance(names_of(["0", "2"]), Listed)
    names = names_of(["a", "b"])
    assert names_of(names) is names


@pytest.mark.parametrize("places", [[0, 1, 2], [4, 5], [0, 2, 5], []])
@pytest.mark.parametrize("names", [Numbered(6), Listed.of(list("abcdef"))])
def test_chosen_names_know_their_places(names, places):
    chosen = names.chosen(np.array(places, np.int64))
    assert chosen == [names.at(place) for place in places]
    assert [chosen.position(name) for name in chosen] == [*range(len(places))]
    for place in set(range(6)) - set(places):
        assert names.at(place) not in chosen
    assert "x" not in chosen


def test_all_of_the_names_are_the_names_themselves():
    names = Numbered(5)
    assert names.chosen(np.arange(5)) is names
    assert sys.getsizeof(names.chosen(np.arange(1, 4))._positions) < 100, "a range, no array"
