"""Shares of the classes as sliders, and the samples that clients disagree about."""

from __future__ import annotations

import numpy as np
import pytest
from explored_pages import Page, finished

from duotone.explorer.class_shares import class_shares

TWO_CLASSES = {"scheme": "pathological", "clients": 8, "newcomers": 2, "classes_per_client": 2}
SETTINGS = {
    "model": "mlp",
    "rounds": 15,
    "partition": TWO_CLASSES,
    "personalise": "prior",
    "evaluate_every": 15,
}


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Clients with two classes each, which adjust themselves to them without a label."""
    out = tmp_path_factory.mktemp("shares") / "fedavg"
    run = finished(out, "fedavg", **SETTINGS)
    assert run.summary["election"]["way"] == "prior"
    return Page(run)


def probabilities(page, **asked):
    found = page.ask("drawn", client="0", sample=0, **asked)
    return np.array(found["answer"]["probabilities"])


def test_a_client_has_a_slider_for_each_class(page):
    assert page.ask("about")["can"]["shares"]
    sliders = page.ask("sliders", client="0")["classes"]
    assert [own["name"] for own in sliders] == [str(digit) for digit in range(10)]
    places = [own["place"] for own in sliders]
    assert sum(places) == pytest.approx(1, abs=1e-3)
    held = np.unique(page.explored[0].test_samples("0").labels.numpy())
    assert set(np.argsort(places)[-2:]) == set(held), "it estimated which classes it has"


def test_the_shares_as_they_stand_give_the_clients_own_answer(page):
    own = page.ask("sample", client="0", sample=0)["here"]["probabilities"]
    assert probabilities(page) == pytest.approx(own, abs=1e-5)
    places = ",".join(str(own["place"]) for own in page.ask("sliders", client="0")["classes"])
    assert probabilities(page, classes=places) == pytest.approx(own, abs=0.01)


def test_other_shares_change_the_answer_by_bayes_rule(page):
    own = class_shares(page.explored[0], "0")
    before = probabilities(page)
    asked = np.full(10, 0.1)
    asked[3] = 0.9
    new = asked / asked.sum()
    expected = before * new / own
    found = probabilities(page, classes=",".join(map(str, asked)))
    assert found == pytest.approx(expected / expected.sum(), abs=1e-3)


@pytest.mark.parametrize("classes", ["1,2", "-1,1,1,1,1,1,1,1,1,1"])
def test_shares_that_are_none_are_refused_in_one_line(page, classes):
    status, line = page.error("drawn", client="0", classes=classes)
    assert status == 400
    assert "lass shares" in line


def test_shares_of_nothing_are_equal_ones(page):
    nothing, equal = (probabilities(page, classes=",".join([place] * 10)) for place in "01")
    assert nothing == pytest.approx(equal)


def test_a_run_without_estimated_shares_has_no_such_sliders(fedbn):
    page = Page(fedbn)
    assert not page.ask("about")["can"]["shares"]
    assert page.ask("sliders", client="0")["classes"] == []


def test_the_most_disputed_samples_come_first(page):
    found = page.ask("disputed")
    assert found["clients"] == 8
    dissent = [found["clients"] - len(one["answers"][0]["clients"]) for one in found["samples"]]
    assert dissent == sorted(dissent, reverse=True)
    assert dissent, "clients that know two classes each do not agree about all ten"
    assert all(dissent)
    for one in found["samples"]:
        strip = page.ask("sample", client=one["owner"], sample=one["sample"])["strip"]
        said = {own["client"]: own["answer"] for own in strip}
        told = {name: own["answer"] for own in one["answers"] for name in own["clients"]}
        assert told == said
