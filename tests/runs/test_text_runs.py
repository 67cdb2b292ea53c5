"""Text by role, from the partition to the report, and what a finished run says of new text."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
import torch

import duotone
from duotone.errors import ConfigError, DataError
from duotone.federation.backends.codec import packed, unpacked
from duotone.partition.partition import Population
from duotone.runs.plan import plan_run

pytestmark = pytest.mark.usefixtures("brief_measures_throughout")

WORDS = ("and so it was that the old king went", "no no my lord you are not to be so bold")


@pytest.fixture(scope="module")
def roles(tmp_path_factory):
    """Five roles of two plays, each with a habit of its own at the end of a line."""
    path = tmp_path_factory.mktemp("roles") / "plays.json"
    content = [
        {
            "role": role,
            "play": play,
            "speeches": [WORDS[number % 2][number:] + end for _ in range(10)],
        }
        for number, (role, play, end) in enumerate(
            [
                ("ANN", "One", "."),
                ("BOB", "One", "!"),
                ("CAT", "Two", "?"),
                ("DAN", "Two", "."),
                ("EVE", "Two", "!"),
            ]
        )
    ]
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def settings(roles, **more):
    return {
        "method": {"name": "fedrep", "epochs": 1},
        "data": str(roles),
        "partition": {"scheme": "natural", "newcomers": ["EVE"]},
        "rounds": 1,
        "latents": 5,
        "curve": [],
        "backend": "serial",
    } | more


@pytest.fixture(scope="module")
def run(roles, tmp_path_factory):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return duotone.run(settings(roles), out=tmp_path_factory.mktemp("runs") / "text")


def test_roles_are_clients_and_plays_are_groups(run):
    plan = plan_run(run.config.model_dump())
    assert run.config.model == "char-gru"
    assert plan.population.partition.members == ("ANN", "BOB", "CAT", "DAN")
    assert plan.population.partition["CAT"].group == "Two"
    data = plan.population.data("ANN")
    assert data.x.dtype == torch.int64
    assert data.info.is_text
    assert not data.info.is_image


def test_worker_processes_and_far_clients_know_the_alphabet(run):
    population = plan_run(run.config.model_dump()).population
    again = Population.from_arrays(population.arrays(), population.form())
    assert again.info == population.info
    assert unpacked(*packed(population.info)) == population.info


def test_a_run_of_text_is_scored_probed_and_reported(run):
    scores = run.summary["scores"]
    assert {"member.accuracy", "newcomer.accuracy"} <= scores.keys()
    assert any(name.startswith("probe.") for name in scores)
    assert run.latents["shared"].shape[1] == 128
    page = run.report().read_text(encoding="utf-8")
    assert "ANN" in page


def test_the_model_a_client_uses_gives_the_accuracy_of_the_run(run):
    population = plan_run(run.config.model_dump()).population
    rows = population.rows("ANN", "test")
    said = run.client("ANN").predict(population.dataset.x[rows])
    last = run.metrics.filter(
        (run.metrics["client"] == "ANN") & (run.metrics["metric"] == "accuracy")
    )["value"][-1]
    assert np.mean(said == population.dataset.y[rows]) == pytest.approx(last)


def test_texts_and_text_files_are_predicted_alike(run, tmp_path):
    client = run.client("BOB")
    (tmp_path / "line.txt").write_text("no no my lord\n", encoding="utf-8")
    said = client.predict_proba(["no no my lord", "§"])
    assert said.shape[0] == 2
    assert np.allclose(client.predict_proba(tmp_path / "line.txt"), said[:1])
    # Only the last 80 characters are read, and there are fewer.
    assert np.array_equal(client.predict_proba("x" * 80 + "n" * 80), client.predict_proba("n" * 80))


def test_what_is_no_text_is_one_line(run, tmp_path):
    client = run.client("BOB")
    for wrong in ([[0.5] * 80], [[1, 2]], np.full((1, 80), 999)):
        with pytest.raises(DataError, match="expected: text, of which the last 80 characters"):
            client.predict(wrong)
    with pytest.raises(DataError, match="cannot be read as text"):
        client.predict(tmp_path / "none.txt")


def test_cards_show_the_text_and_say_what_they_cannot(run):
    card = run.client("BOB").explain("no no my lord", against="ANN")
    assert card.text == "no no my lord"
    assert str(card).startswith("After: 'no no my lord'")
    assert "no word on single characters" in str(card)
    assert "<pre>no no my lord</pre>" in card.html()
    assert card.as_json()["text"] == "no no my lord"
    assert str(card.support.pictures[0]) in "\n".join([WORDS[1][1:] + "!"] * 10)
    assert "BOB" in str(run.card("BOB"))


def test_an_exported_client_reads_text_without_the_run(run, tmp_path):
    folder = run.client("ANN").export(tmp_path / "ann")
    again = duotone.load_client(folder)
    assert np.array_equal(again.predict_proba("and so"), run.client("ANN").predict_proba("and so"))
    assert "the last 80 characters are read" in (folder / "README.md").read_text(encoding="utf-8")


def test_a_newcomer_joins_with_text(run):
    texts = [WORDS[0][:place] for place in range(10, 30)]
    names = run.client("ANN").class_names
    newcomer = run.join(texts, [place % len(names) for place in range(20)])
    assert newcomer.predict_proba("and so it").sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "mlp"}, "These samples are text: --set model=char-gru"),
        ({"model": "cnn"}, "needs images of at least 4×4 pixels"),
        ({"method": "feddva"}, "needs images of at least 8×8 pixels"),
        ({"style": "marks"}, "is for images of 8 bits, but 'plays' is text"),
    ],
)
def test_what_is_not_for_text_says_so_before_training(roles, changes, message):
    with pytest.raises((ConfigError, DataError), match=message):
        plan_run(settings(roles, **changes))


def test_a_gru_is_not_for_pictures(roles):
    with pytest.raises(ConfigError, match="'char-gru' reads text"):
        plan_run({"method": "fedavg", "data": "mini-digits", "model": "char-gru"})
