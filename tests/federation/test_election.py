from __future__ import annotations

import numpy as np
import pytest
import torch
from federations import server_of
from torch import nn

import duotone
from duotone.data.dataset import Dataset
from duotone.errors import ConfigError
from duotone.federation.backends.serial import Serial
from duotone.federation.election import Ballot, Election, vote
from duotone.federation.engine import MemoryStates
from duotone.federation.personalise import Personalisation
from duotone.federation.serving import Serving
from duotone.methods.baselines.fedavg import FedAvg
from duotone.networks.reading import as_network
from duotone.partition.partition import Holding, Partition, Population
from duotone.types import RoundInfo

pytestmark = pytest.mark.usefixtures("brief_measures_throughout")

SETTINGS = {
    "data": "mini-digits",
    "model": "mlp",
    "partition": {"scheme": "pathological", "clients": 12, "newcomers": 4, "classes_per_client": 2},
    "rounds": 30,
    "evaluate_every": 30,
    "curve": (0, 5),
    "latents": 20,
    "backend": "serial",
    "method": "fedavg",
}


@pytest.mark.parametrize(
    ("won", "lost", "is_clear"), [(0, 0, False), (4, 0, False), (5, 0, True), (30, 20, False)]
)
def test_a_win_must_exceed_two_standard_errors(won, lost, is_clear):
    assert Ballot(won, lost).is_clear == is_clear


def test_an_election_survives_its_file():
    election = Election(Personalisation("prior", (0.5, 0.5)), {"prior": Ballot(9, 1)})
    assert Election.from_json(election.as_json()) == election
    assert election.said.startswith("members voted for prior: prior won 9")


# -- an election by hand

SURE, UNDECIDED = (4.0, 0.0), (0.0, 0.1)
"""Inputs that are their own logits: clearly class 0, and class 1 by a hair."""
SPLITS = {
    "train": (200, SURE, 0),
    "val": (7, UNDECIDED, 0),  # who knows that class 0 is frequent gets these right,
    "test": (9, UNDECIDED, 1),  # and these wrong
}


def lopsided(newcomer_label):
    """Return a member with the samples above, one with the classes exchanged, and a newcomer."""
    x, y, is_test, holdings = [], [], [], []
    for client, kind in (("a", "member"), ("b", "member"), ("n", "newcomer")):
        rows = {}
        for split, (count, sample, label) in SPLITS.items():
            rows[split] = np.arange(len(x), len(x) + count)
            x += [sample[::-1] if client == "b" else sample] * count
            own = {"a": label, "b": 1 - label, "n": newcomer_label}
            y += [own[client]] * count
            is_test += [split == "test"] * count
        holdings.append(Holding(client, "g", kind, **rows))
    samples = np.array(x, np.float32)
    dataset = Dataset("lopsided", samples, np.array(y), np.array(is_test), classes=2)
    return Population(dataset, Partition.from_holdings(holdings))


def election(population):
    plain = nn.Linear(2, 2)
    with torch.no_grad():
        plain.weight.copy_(torch.eye(2))
        plain.bias.zero_()
    method = FedAvg(FedAvg.Config(), as_network(plain))
    info = RoundInfo(1, 1, 0, population.info)
    serving = Serving(method.start(info), info, "zero-shot")
    backend = Serial(method, population)
    return vote(serving, ("none", "prior"), population, MemoryStates(), backend)


def test_members_vote_on_their_validation_samples():
    found = election(lopsided(newcomer_label=0))
    assert found.ballots == {"prior": Ballot(won=2 * 7, lost=0)}
    assert found.chosen.way == "prior"


@pytest.mark.parametrize("label", [0, 1])
def test_newcomers_have_no_part_in_a_vote(label):
    found = election(lopsided(newcomer_label=label))
    assert found.chosen.shares == (0.5, 0.5), "the members' training labels are even"
    assert found.ballots == {"prior": Ballot(won=14, lost=0)}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vote")
    wishes = ("none", "prior")
    return {w: duotone.run(SETTINGS, personalise=w, out=folder / w) for w in wishes}


def test_clients_with_two_classes_gain_without_a_label(runs):
    plain, adjusted = (runs[w].summary["scores"] for w in ("none", "prior"))
    assert runs["prior"].summary["election"]["way"] == "prior"
    assert runs["prior"].summary["newcomer_rule"] == "label-free"
    for kind in ("member", "newcomer"):
        gain = adjusted[f"{kind}.accuracy"]["value"] - plain[f"{kind}.accuracy"]["value"]
        assert gain > 0.1
    # With nothing shown, a newcomer has the shared model.
    name = "newcomer.accuracy@0"
    assert adjusted[name]["value"] == plain[name]["value"]


def test_training_does_not_notice(runs):
    shared = [server_of(run).shared for run in runs.values()]
    assert all((shared[0][name] == shared[1][name]).all() for name in shared[0])
    assert "election" not in runs["none"].summary


def test_what_would_hurt_is_voted_down(tmp_path):
    even = {**SETTINGS, "partition": {"scheme": "iid", "clients": 8, "newcomers": 2}}
    run = duotone.run(even, personalise="auto", model="mlp-bn", rounds=6, out=tmp_path / "even")
    assert run.summary["election"]["way"] == "none"
    assert set(run.summary["election"]["ballots"]) == {"prior", "norm"}
    assert "voted for no change" in (run.path / "log.txt").read_text()


def test_methods_that_train_before_they_serve_can_be_adjusted(tmp_path):
    short = {**SETTINGS, "rounds": 2, "evaluate_every": 2, "latents": 0}
    run = duotone.run(short, method="fedavg-ft", personalise="prior", out=tmp_path / "ft")
    assert run.status == "finished"
    assert run.summary["newcomer_rule"] == "few-shot"


def test_numbers_are_not_adjusted(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((400, 5)).astype(np.float32)
    y = x[:, 0]
    data = {"x_train": x[:300], "y_train": y[:300], "x_test": x[300:], "y_test": y[300:]}
    even = {"scheme": "iid", "clients": 4, "newcomers": 1}
    with pytest.raises(ConfigError, match="for classes"):
        duotone.run(
            method="fedavg",
            data=data,
            model="mlp-bn",
            partition=even,
            personalise="norm",
            out=tmp_path / "r",
        )


def test_impossible_wishes_are_refused_before_training(tmp_path):
    with pytest.raises(ConfigError, match="norm needs BatchNorm"):
        duotone.run(SETTINGS, personalise="norm", out=tmp_path / "a")
    held = {**SETTINGS["partition"], "validation": 0}
    with pytest.raises(ConfigError, match=r"partition\.validation"):
        duotone.run(SETTINGS, personalise="prior", partition=held, out=tmp_path / "b")
    assert not list(tmp_path.iterdir())
