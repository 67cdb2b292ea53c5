from __future__ import annotations

import shutil

import numpy as np
import pytest
from federations import two_worlds

import duotone
from duotone.measures.mixtures import (
    ClientConcepts,
    Concepts,
    concept_scores,
    domain_shares,
    label_tendency,
)


def described(*clients) -> Concepts:
    found = [
        ClientConcepts(name, group, kind, np.array(weights), np.zeros((len(weights), 0)))
        for name, group, kind, weights in clients
    ]
    return Concepts(found, np.zeros((2, 0), np.int64))


pytestmark = pytest.mark.usefixtures("brief_measures_throughout")

MEMBERS = (
    ("a0", "a", "member", [0.9, 0.1, 0.0]),
    ("a1", "a", "member", [0.8, 0.1, 0.1]),
    ("b0", "b", "member", [0.0, 0.6, 0.4]),
    ("b1", "b", "member", [0.1, 0.4, 0.5]),
)


def test_concept_scores_by_hand():
    concepts = described(
        *MEMBERS,
        ("na", "a", "newcomer", [0.7, 0.2, 0.1]),
        ("nb", "b", "newcomer", [0.1, 0.5, 0.4]),
        ("mix", "mixed", "newcomer", [0.4, 0.3, 0.3]),
    )
    scores = concept_scores(concepts, {"mix": {"a": 0.5, "b": 0.5}}, seed=0)
    assert scores["concepts.ari"].value == 1
    # Concept 0 belongs to a, the others to b.
    assert scores["concepts.own_group"].value == pytest.approx((0.7 + 0.9) / 2)
    assert scores["concepts.own_group"].n == 2
    assert scores["concepts.mix_error"].value == pytest.approx(0.1 + 0.1)
    assert scores["concepts.mix_error"].direction == "lower"


def test_a_mixture_that_is_not_known_has_no_error():
    concepts = described(*MEMBERS, ("mix", "mixed", "newcomer", [0.4, 0.3, 0.3]))
    assert "concepts.mix_error" not in concept_scores(concepts, {}, seed=0)
    of_others = {"mix": {"a": 0.5, "c": 0.5}}
    assert "concepts.mix_error" not in concept_scores(concepts, of_others, seed=0)


def test_one_group_has_no_scores():
    assert concept_scores(described(*MEMBERS[:2]), {}, seed=0) == {}


def test_label_tendency_by_hand():
    nearness = np.log(np.array([[1.0, 1.0], [1.0, 1.0], [1.0, 0.0001]]) + 1e-300)
    weights = np.array([0.25, 0.75])
    found = label_tendency(nearness, weights, [0, 1, 1], 2)
    # Responsibilities of concept 0: 1/4, 1/4, and nearly 1; of concept 1: 3/4, 3/4, nearly 0.
    assert found[0].tolist() == pytest.approx([0.25 / 1.5, 1.25 / 1.5], abs=1e-3)
    assert found[1].tolist() == pytest.approx([0.5, 0.5], abs=1e-3)
    assert label_tendency(nearness, weights, [0.1, 0.2, 0.3], 0).shape == (2, 0)


def test_domain_shares_are_those_of_the_training_samples():
    population = two_worlds(0.25)
    assert domain_shares(population, "mix") == {"a": 0.75, "b": 0.25}
    assert domain_shares(population, "a0") == {"a": 1.0}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return duotone.run(
        method="fedvc",
        data="digits",
        style="padpaf4",
        partition={
            "scheme": "iid",
            "clients": 10,
            "newcomers": 2,
            "max_train": 100,
            "max_test": 30,
        },
        rounds=2,
        evaluate_every=2,
        latents=40,
        curve=(),
        backend="serial",
        out=tmp_path_factory.mktemp("runs") / "fedvc",
    )


def test_a_run_tells_what_clients_are_mixtures_of(run):
    concepts = run.concepts
    assert [own["client"] for own in concepts["clients"]] == list(map(str, range(10)))
    count = len(concepts["clients"][0]["weights"])
    assert run.latents["local"].shape[1] == count
    for own in concepts["clients"]:
        assert sum(own["weights"]) == pytest.approx(1, abs=1e-3)
        assert np.array(own["tendency"]).shape == (count, 10)
        rows = run.metrics.filter(client=own["client"])
        told = dict(zip(rows["metric"], rows["value"], strict=True))
        assert [told[f"concept.{i}"] for i in range(count)] == pytest.approx(
            own["weights"], abs=1e-5
        )
    assert "concepts.ari" in run.summary["scores"]
    assert run.summary["scores"]["concepts.information"]["direction"] == "reference"


def test_typical_samples_are_members_training_samples(run):
    typical = np.array(run.concepts["typical"])
    train = run.latents["index"][
        (run.latents["kind"] == "member") & (run.latents["split"] == "train")
    ]
    assert set(typical.flatten()) <= set(train)


def test_the_report_shows_concepts_with_typical_samples(run):
    page = run.report().read_text()
    assert "What clients are mixtures of" in page
    assert "most typical samples" in page
    assert "Labels of each concept" in page


def test_what_members_were_asked_is_in_the_ledger_once(run):
    rows = run.metrics.filter(metric="bytes_collected", round=2)
    assert len(rows) == rows["client"].n_unique() == 8


def test_a_collapse_is_said_aloud_and_stands_in_summary_and_report(tmp_path):
    with pytest.warns(UserWarning, match="collapsed|alike|apart") as said:
        run = duotone.run(
            method={"name": "fedvc", "variant": "paper"},
            data="mini-digits",
            partition={"scheme": "iid", "clients": 4, "newcomers": 0},
            rounds=3,
            evaluate_every=3,
            latents=20,
            curve=(),
            backend="serial",
            out=tmp_path / "run",
        )
    assert [str(warning.message) for warning in said] == run.summary["warnings"]
    assert "The concepts have collapsed" in run.summary["warnings"][0]
    assert "The concepts have collapsed" in run.report().read_text()


def test_a_damaged_list_of_concepts_is_a_clear_error(run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(run.path, copy)
    (copy / "concepts.json").write_text("{")
    with pytest.raises(duotone.DuotoneError, match=r"concepts\.json"):
        duotone.load_run(copy).folder.table("concepts")
