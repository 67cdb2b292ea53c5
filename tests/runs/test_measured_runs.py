"""What a run says about its two parts, against what anyone can compute from its folder."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
import torch
from scenes import make_scene, separation_scores
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

import duotone
from duotone.federation.engine import federate
from duotone.federation.serving import Serving
from duotone.measures.codes import kept_codes
from duotone.measures.score import scores_json
from duotone.methods.baselines.fedavg import FedAvg
from duotone.runs.execute import execute
from duotone.runs.plan import plan_run
from duotone.types import RoundInfo

MARKED = {
    "data": "digits",
    "style": "marks",
    "model": "thesis-cnn-bn",
    "partition": {"scheme": "iid", "clients": 9, "newcomers": 1, "max_train": 200},
    "rounds": 2,
    "evaluate_every": 2,
    "latents": 60,
    "curve": (),
    "backend": "serial",
}


@pytest.fixture(scope="module")
def fedavg(tmp_path_factory):
    return duotone.run(
        {**MARKED, "method": "fedavg"}, out=tmp_path_factory.mktemp("runs") / "fedavg"
    )


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    return duotone.run(
        {**MARKED, "method": "fedavg-ft"}, out=tmp_path_factory.mktemp("runs") / "fedavg-ft"
    )


def by_hand(latents, codes, question, classifier):
    """Read a question out of codes as a user with nothing but scikit-learn would."""
    rows = {
        split: (latents["kind"] == "member") & (latents["split"] == split)
        for split in ("train", "test")
    }
    scale = StandardScaler().fit(codes[rows["train"]])
    classifier.fit(scale.transform(codes[rows["train"]]), latents[question][rows["train"]])
    return classifier.score(scale.transform(codes[rows["test"]]), latents[question][rows["test"]])


@pytest.mark.parametrize("question", ["group", "label"])
def test_what_fedavg_leaks_agrees_with_an_independent_computation(fedavg, question):
    latents, scores = fedavg.latents, fedavg.summary["scores"]
    network = MLPClassifier((64, 64), max_iter=60, alpha=1e-2, random_state=0, tol=0)
    with pytest.warns(match="Maximum iterations"):
        by_network = by_hand(latents, latents["shared"], question, network)
    by_line = by_hand(latents, latents["shared"], question, LogisticRegression(max_iter=2000))
    found = scores[f"probe.{question}_from_shared"]
    assert found["value"] == pytest.approx(by_network, abs=0.08)
    assert scores[f"probe.{question}_from_shared.linear"]["value"] == pytest.approx(
        by_line, abs=0.05
    )
    assert found["low"] <= found["value"] <= found["high"]


def test_fedavg_features_reveal_the_mark_far_above_chance_and_control(fedavg):
    scores = {name: score["value"] for name, score in fedavg.summary["scores"].items()}
    leak = scores["probe.group_from_shared"]
    assert leak > scores["probe.group_from_shared.chance"] + 0.15
    assert leak > scores["probe.group_from_shared.control"] + 0.15
    assert scores["probe.group_from_shared.untrained"] > 0.5  # a network learns nothing to leak


def test_scores_are_repeated_from_the_folder_alone(fedavg):
    again = separation_scores(fedavg.latents, data_name="digits", seed=0)
    saved = fedavg.summary["scores"]
    of_codes = ("probe", "parts", "dims", "groups")
    assert scores_json(again) == {
        name: score for name, score in saved.items() if score["measure"] in of_codes
    }


def test_every_separation_score_is_a_row_of_the_last_round_that_belongs_to_no_client(fedavg):
    rows = fedavg.metrics.filter(pl.col("client").fill_null("") == "")
    found = dict(rows.select("metric", "value").iter_rows())
    scores = fedavg.summary["scores"]
    assert found == {
        name: pytest.approx(score["value"])
        for name, score in scores.items()
        if not name.startswith(("member", "newcomer"))
    }
    assert set(rows["round"]) == {2}
    kinds = dict(rows.select("metric", "kind").iter_rows())
    assert kinds["probe.label_from_shared.newcomers"] == "newcomer"
    assert kinds["probe.label_from_shared"] == "member"


def test_clients_with_encoders_of_their_own_are_compared_through_one_of_them(tuned):
    latents = tuned.latents
    first = latents["client"] == latents["client"][0]
    assert np.array_equal(latents["common_local"][first], latents["local"][first])
    assert not np.allclose(latents["common_local"][~first], latents["local"][~first])


def test_groups_stand_beside_those_of_plain_fedavg_features(tuned):
    scores = tuned.summary["scores"]
    assert tuned.latents["fedavg"].shape == tuned.latents["local"].shape
    for name in ("nmi", "ari", "silhouette"):
        assert f"groups.{name}" in scores
        assert scores[f"groups.{name}.fedavg"]["direction"] == "reference"


@pytest.mark.parametrize(("rounds", "expected"), [(2, 2), (7, 5)])
def test_the_control_is_a_fedavg_of_five_rounds_or_of_as_many_as_the_run_has(rounds, expected):
    plan = plan_run(
        {
            "method": "fedavg-ft",
            "data": "mini-digits",
            "style": "marks",
            "model": "mlp",
            "partition": {"scheme": "iid", "clients": 8, "newcomers": 1, "max_train": 60},
            "rounds": rounds,
            "sampled": 4,
            "seed": 3,
            "latents": 5,
            "backend": "serial",
        }
    )
    population, info = plan.population, RoundInfo(rounds, rounds, 3, plan.population.info)
    serving = Serving(plan.method.start(info), info, "few-shot")
    clients = list(population.partition)
    settings = plan.config.model_dump(exclude={"method", "backend"})
    latents = kept_codes(make_scene(plan.method, population, serving, **settings))

    fedavg = FedAvg(FedAvg.Config(), plan.method.network)
    *_, last = federate(fedavg, population, rounds=expected, sampled=4, seed=3)
    assert last.info.round == expected
    model = fedavg.load(last.server.shared, population.info).eval()
    splits = ("train", "val", "test")
    x = torch.cat([population.data(c, split).x[:5] for c in clients for split in splits])
    features = fedavg.features(model, x).detach().numpy()
    np.testing.assert_allclose(latents["fedavg"], features, atol=1e-5)


def test_a_shared_encoder_needs_no_common_one(fedavg):
    assert "common_shared" not in fedavg.latents
    assert "fedavg" not in fedavg.latents


def test_finishing_twice_changes_nothing(fedavg):
    names = ("metrics.csv", "summary.json", "latents.npz")
    before = {name: (fedavg.path / name).read_bytes() for name in names}
    execute(fedavg.folder, plan_run(fedavg.config.model_dump()))
    assert {name: (fedavg.path / name).read_bytes() for name in names} == before


def test_no_latents_no_separation(tmp_path):
    settings = {**MARKED, "method": "fedavg", "latents": 0, "rounds": 1}
    run = duotone.run(settings, out=tmp_path / "run")
    assert not any(name.startswith("probe") for name in run.summary["scores"])


@pytest.mark.usefixtures("brief_measures")
def test_the_control_trains_on_labelled_samples_alone(tmp_path):
    settings = {
        "method": {"name": "feddva", "shared_dim": 2, "local_dim": 2, "newcomer_epochs": 1},
        "data": "mini-digits",
        "style": "marks",
        "partition": {"scheme": "iid", "clients": 6, "newcomers": 1, "max_train": 60},
        "labels": 20,
        "rounds": 1,
        "latents": 30,
        "curve": (),
        "backend": "serial",
    }
    run = duotone.run(settings, out=tmp_path / "run")
    latents = run.latents
    assert len(latents["fedavg"]) == len(latents["local"])
    # More training samples than labels: FedDVA uses the others, too.
    assert ((latents["client"] == "0") & (latents["split"] == "train")).sum() == 30
    assert (run.path / "figures" / "swaps.png").exists()
    assert (run.path / "swap.json").exists()
    assert (run.path / "figures" / "samples.png").exists()
    clients = json.loads((run.path / "generate.json").read_text())["clients"]
    assert [item["kind"] for item in clients] == ["member"] * 5 + ["newcomer"]
    distances = [item["fd"] for item in clients if item["kind"] == "member"]
    scores = run.summary["scores"]
    assert scores["generate.fd"]["value"] == pytest.approx(np.mean(distances))
    assert scores["generate.own_style.newcomers"]["n"] == 500
    page = run.report().read_text(encoding="utf-8")
    assert "The same draws at every client" in page
    assert "Generated samples, client by client" in page


def test_labels_that_clients_lack_are_asked_for_and_judged(tmp_path):
    settings = {
        "method": {"name": "feddva", "shared_dim": 2, "local_dim": 2, "newcomer_epochs": 1},
        "data": "mini-digits",
        "style": "marks",
        "partition": {"scheme": "pathological", "clients": 4, "classes_per_client": 5},
        "rounds": 1,
        "latents": 10,
        "curve": (),
        "backend": "serial",
    }
    scores = duotone.run(settings, out=tmp_path / "run").summary["scores"]
    # Four clients with five of ten labels each, of which 30 samples are asked for.
    assert scores["generate.seen_label"]["n"] == scores["generate.unseen_label"]["n"] == 600
    assert scores["generate.unseen_label.judge"]["value"] > 0.7
    assert scores["generate.unseen_style.judge"]["value"] > 0.9
    assert scores["generate.own_style.chance"]["value"] == pytest.approx(0.25)
