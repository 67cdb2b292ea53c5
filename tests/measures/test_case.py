"""One sample, two answers: which one is taken, and what its parts are."""

from __future__ import annotations

import base64

import numpy as np
import pytest

from duotone.measures.case import case_picture, case_svg, find_case

ANSWERS = np.array(
    [
        [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]],
        [[0.8, 0.2], [0.9, 0.1], [0.4, 0.6]],
    ]
)
NAMES = {0: "cat", 1: "<dog>"}


def test_the_sample_on_which_two_clients_differ_most_is_taken_and_its_parts_add_up():
    case = find_case(ANSWERS, ["a", "b"], ["a", "a", "b"], [0, 1, 0])
    assert case is not None
    assert (case["sample"], case["class"], case["label"]) == (1, 1, 1)
    own, other = case["clients"]
    assert (own["client"], own["says"], own["probability"]) == ("a", 1, 0.8)
    assert (other["client"], other["says"], other["probability"]) == ("b", 0, 0.9)
    # Class 1: the mean of all is 11/30; both say 0.45 of this sample; a says 13/30 of anything.
    assert own["parts"] == pytest.approx(
        {"mean": 11 / 30, "sample": 0.45 - 11 / 30, "habit": 2 / 30, "reading": 0.35 - 2 / 30},
        abs=1e-4,
    )
    assert sum(own["parts"].values()) == pytest.approx(0.8, abs=2e-4)
    assert sum(other["parts"].values()) == pytest.approx(0.1, abs=2e-4)


def test_where_all_decide_alike_there_is_no_case():
    assert find_case(ANSWERS[:1].repeat(2, axis=0), ["a", "b"], ["a", "a", "b"], [0, 1, 0]) is None


def test_a_sample_of_somebody_who_was_not_asked_is_not_taken():
    case = find_case(ANSWERS, ["a", "b"], ["a", "x", "b"], [0, 1, 0])
    assert case is not None
    assert case["sample"] == 2
    assert [each["client"] for each in case["clients"]] == ["b", "a"]


def test_the_picture_names_both_answers_and_escapes_what_classes_are_called():
    case = find_case(ANSWERS, ["a", "b"], ["a", "a", "b"], [0, 1, 0])
    assert case is not None
    picture = case_picture(case, NAMES)
    assert picture.title == "One sample: client a says <dog>, client b says cat"
    drawn = case_svg(case, NAMES, None)
    assert "client a says &lt;dog&gt; (0.80)" in drawn
    assert "<image" not in drawn
    assert "<image" in case_svg(case, NAMES, "data:image/png;base64,AA==")
    ((_, address),) = picture.images
    assert base64.b64decode(address.partition(",")[2]).decode() == drawn
