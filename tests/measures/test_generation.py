from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from scenes import make_scene
from torch import nn

from duotone.data.planted import drawn_shapes, drawn_stripes, planted
from duotone.federation.backends import ClientTask
from duotone.federation.method import Method
from duotone.federation.protocols import Generates
from duotone.federation.serving import Serving
from duotone.federation.settings import MethodSettings
from duotone.measures.agreement import chance_agreement, effective_classes, frechet_distance
from duotone.measures.drawing import GRID, OWN, ROW, GenerateJob, asked_labels, known_labels
from duotone.measures.generated import _distances, generation_scores
from duotone.measures.judges import train_judges
from duotone.measures.sheets import generation_sheets
from duotone.methods.baselines.fedavg import FedAvg
from duotone.networks.classifiers import mlp
from duotone.partition.build import build_partition
from duotone.partition.partition import Partition, Population
from duotone.types import ClientState, Draws, RoundInfo

IMAGES = planted()


@pytest.fixture(scope="module", autouse=True)
def _short_training():
    """Planted data is easy to judge."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("duotone.measures.judges._STEPS", 120)
        yield


# -- pure functions, worked by hand


def test_frechet_distance_in_one_dimension_is_that_of_means_and_deviations():
    first, second = np.array([[-1.0], [1.0]]), np.array([[1.0], [5.0]])
    # Means 0 and 3; variances of two samples 2 and 8: 3² + (√8 − √2)² = 9 + 2.
    assert frechet_distance(first, second) == pytest.approx(11)
    assert frechet_distance(first, first) == pytest.approx(0, abs=1e-9)


def test_frechet_distance_of_independent_features_adds_up():
    rng = np.random.default_rng(0)
    one = rng.normal(size=(40_000, 3)) * [1, 2, 3]
    two = rng.normal(size=(40_000, 3)) * [2, 2, 1] + [0, 1, 0]
    # (1 − 2)² + 0 + (3 − 1)² for the deviations, 1 for the means.
    assert frechet_distance(one, two) == pytest.approx(6, abs=0.1)


def test_frechet_distance_does_not_change_when_features_are_turned():
    rng = np.random.default_rng(0)
    one, two = rng.normal(size=(50, 4)) * [1, 2, 3, 4], rng.normal(size=(60, 4)) + 1
    turn = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    assert frechet_distance(one @ turn, two @ turn) == pytest.approx(frechet_distance(one, two))
    assert frechet_distance(two, one) == pytest.approx(frechet_distance(one, two))


def test_effective_kinds_count_rare_ones_less():
    assert effective_classes(np.array([3.0, 3.0])) == 1
    assert effective_classes(np.array([0.0, 1.0, 2.0, 3.0])) == pytest.approx(4)
    # Shares 3/4 and 1/4: exp(−¾ ln ¾ − ¼ ln ¼).
    assert effective_classes(np.array([0.0, 0.0, 0.0, 1.0])) == pytest.approx(1.7548, abs=1e-4)


def test_chance_agreement_is_what_independent_draws_share():
    first, second = np.array([0.0, 0.0, 1.0, 2.0]), np.array([0.0, 1.0, 1.0, 3.0])
    assert chance_agreement(first, second) == pytest.approx(0.5 * 0.25 + 0.25 * 0.5)
    assert chance_agreement(first, first) == pytest.approx(0.25 + 2 / 16)


def test_labels_are_asked_for_in_turn():
    assert asked_labels(3, 5).tolist() == [0, 1, 2, 0, 1]
    assert asked_labels(3, 3, first=1).tolist() == [1, 2, 0]


# -- methods that draw planted images: what they do right and wrong is known


class Own(nn.Module):
    """Holds the number of the client's stripes; the class and all else is in the draws."""

    def __init__(self, data):
        super().__init__()
        self.register_buffer("stripe", torch.zeros(()))
        self.head = nn.Linear(1, data.outputs)


class Painter(Method):
    """Draws the shape that the content says, over stripes of the client's own direction."""

    name, title, paper = "painter", "", ""
    draws_labels = False
    newcomer_rules = ("label-free",)

    def is_shared(self, name, owner):
        return name != "stripe"

    def before_use(self, server, client, data, info):
        return self.join(server, data, info)

    def join(self, server, data, info):
        number = int(data.client.removeprefix("c")) % 3
        return ClientState({"stripe": torch.tensor(float(number))})

    def draw(self, model, count, generator):
        return Draws(
            torch.randn(count, 2, generator=generator), torch.randn(count, 1, generator=generator)
        )

    def generate(self, model, draws, label=None):
        quarter = torch.special.ndtr(draws.content[:, 0]).mul(4).long().clamp(max=3)
        return self.paint(model, quarter if label is None else label, draws)

    def paint(self, model, label, draws):
        position = torch.special.ndtr(draws.content[:, 1]).mul(2).sub(1).double().numpy()
        phase = torch.special.ndtr(draws.style[:, 0]).mul(2 * np.pi).double().numpy()
        stripe = np.full(len(position), int(model.stripe))
        drawn = np.maximum(
            drawn_shapes(label.numpy(), position), 0.5 * drawn_stripes(stripe, phase)
        )
        return torch.from_numpy(drawn).float().unsqueeze(1)


class LabelInStyle(Painter):
    """Has it the wrong way round: the draw of style decides on the shape."""

    def generate(self, model, draws, label=None):
        return super().generate(model, Draws(draws.style.repeat(1, 2), draws.content[:, :1]))


class OthersStyle(Painter):
    """Draws the same stripes for everybody."""

    def paint(self, model, label, draws):
        model.stripe.fill_(0)
        return super().paint(model, label, draws)


class OneShape(Painter):
    """Has collapsed: always the same picture."""

    def generate(self, model, draws, label=None):
        nothing = torch.zeros_like(draws.content)
        return super().generate(model, Draws(nothing, torch.zeros_like(draws.style)))


class Conditional(Painter):
    """Draws the label that it is asked for."""

    draws_labels = True


class Forgetful(Conditional):
    """Draws what it is asked for, but no label above 1: those it draws in others' stripes."""

    def generate(self, model, draws, label=None):
        wrong = label > 1
        right = self.paint(model, label.clamp(max=1), draws)
        model.stripe.add_(1).remainder_(3)
        other = self.paint(model, label, draws)
        model.stripe.sub_(1).remainder_(3)
        return torch.where(wrong[:, None, None, None], other, right)


@cache
def population(labels: int = 4, newcomers: tuple[str, ...] = ()) -> Population:
    """Return planted clients; the first three have the first few labels only."""
    settings = {"newcomers": [*newcomers], "max_train": 120}
    partition = build_partition(IMAGES, "natural", settings, seed=0)
    holdings = []
    for client in partition:
        holding = partition[client]
        if client in ("c0", "c1", "c2"):
            rows = {
                split: [row for row in getattr(holding, split) if IMAGES.y[row] < labels]
                for split in ("train", "val", "test")
            }
            holding = replace(
                holding, **{split: np.array(kept, np.int64) for split, kept in rows.items()}
            )
        holdings.append(holding)
    return Population(IMAGES, Partition.from_holdings(holdings))


@cache
def judges_of(clients: Population):
    return train_judges(clients, seed=0)


def scored(kind: type[Method], clients: Population | None = None):
    clients = population() if clients is None else clients
    method = kind(MethodSettings(), Own)
    info = RoundInfo(1, 1, 0, clients.info)
    serving = Serving(method.start(info), info, "label-free")
    judges = judges_of(clients)
    return generation_scores(make_scene(method, clients, serving), judges)


def test_a_method_that_draws_can_be_told_from_one_that_does_not():
    assert isinstance(Painter(MethodSettings(), Own), Generates)
    assert not isinstance(FedAvg(MethodSettings(), mlp), Generates)


def test_perfect_samples_are_near_the_floor_and_in_style():
    found = scored(Painter).scores
    assert found["generate.fd"].value < 3 * found["generate.fd.floor"].value
    assert found["generate.own_style"].value > 0.95
    assert found["generate.own_style.chance"].value == pytest.approx(1 / 3)
    assert found["generate.labels"].value == pytest.approx(4, abs=0.1)
    assert found["generate.same_content"].value > 0.9
    same, chance = found["generate.same_style"], found["generate.same_style.chance"]
    assert same.value == pytest.approx(chance.value, abs=0.05)
    assert chance.value == pytest.approx(0.25, abs=0.03)
    assert found["generate.across_clients"].value > 0.9
    assert not any("label" in name for name in found if name not in _LABELS)


_LABELS = ("generate.labels", "generate.labels.judge")


class Pixels:
    """Judges whose features are two pixels."""

    def features(self, x):
        return x[:, 0, 4:6, 7].double().numpy()


def test_what_is_drawn_and_what_is_real_are_both_compared_with_training_samples():
    clients = population()
    train, test = (Pixels().features(clients.data("c0", split).x) for split in ("train", "test"))
    drawn = np.random.default_rng(0).random((len(test) + 9, 1, 16, 16)).astype(np.float32)
    made = drawn[: len(test), 0, 4:6, 7].astype(np.float64)  # as many as there are real ones
    expected = (frechet_distance(made, train), frechet_distance(test, train))
    assert _distances("c0", drawn, Pixels(), clients) == pytest.approx(expected)
    assert frechet_distance(made, test) != pytest.approx(expected[0])


def test_a_label_in_the_style_is_seen():
    found = scored(LabelInStyle).scores
    assert found["generate.same_content"].value < 0.4
    assert found["generate.same_style"].value > 0.9
    assert found["generate.same_style"].direction == "lower"


def test_samples_in_a_foreign_style_are_seen_and_are_far_from_the_clients_own():
    result = scored(OthersStyle)
    by_style = {item["style"]: item for item in result.clients}
    assert by_style["g0"]["own_style"] > 0.95
    assert by_style["g1"]["own_style"] < 0.05
    assert by_style["g1"]["fd"] > 5 * by_style["g0"]["fd"]
    assert by_style["g1"]["floor"] < 3 * by_style["g0"]["floor"]


def test_a_collapsed_model_is_seen_by_its_labels_and_its_chance():
    found = scored(OneShape).scores
    assert found["generate.labels"].value == pytest.approx(1, abs=0.3)
    assert found["generate.labels.judge"].value > 3.5
    assert found["generate.same_content.chance"].value > 0.8
    assert found["generate.fd"].value > 3 * found["generate.fd.floor"].value


def test_asked_labels_are_judged_apart_for_seen_and_unseen_ones():
    clients = population(labels=2)
    right, wrong = scored(Conditional, clients).scores, scored(Forgetful, clients).scores
    for found in (right, wrong):
        assert found["generate.seen_label"].value > 0.95
        assert found["generate.unseen_label"].value > 0.95
        assert found["generate.unseen_label.chance"].value == pytest.approx(0.25, abs=0.3)
    assert right["generate.unseen_style"].value > 0.95
    assert wrong["generate.unseen_style"].value < 0.1
    assert wrong["generate.seen_label"].n > wrong["generate.unseen_label"].n


def test_newcomers_stand_apart_and_every_pair_of_members_is_listed():
    result = scored(Painter, population(newcomers=("c10", "c11")))
    assert result.scores["generate.own_style.newcomers"].value > 0.95
    assert [item["kind"] for item in result.clients].count("newcomer") == 2
    members = [item["client"] for item in result.clients if item["kind"] == "member"]
    assert len(result.pairs) == len(members) * (len(members) - 1) // 2
    assert {pair["first"] for pair in result.pairs} < set(members)


def test_all_clients_generate_from_the_same_draws_and_nothing_is_random():
    clients = population()
    method = Painter(MethodSettings(), Own)
    info = RoundInfo(1, 1, 0, clients.info)
    job = GenerateJob(Serving(method.start(info), info, "label-free"))
    first, again, same_style = (
        job(method, clients, ClientTask(name, None)) for name in ("c0", "c0", "c3")
    )
    assert len(first["own"]) == OWN
    for name, values in first.items():
        np.testing.assert_array_equal(values, again[name])
        np.testing.assert_array_equal(values, same_style[name])
    np.testing.assert_array_equal(first["base"], first["own"][: len(first["base"])])
    grid = first["grid"].reshape(GRID, GRID, 16, 16)
    np.testing.assert_array_equal(grid[0, 0], first["base"][0, 0])
    assert not np.array_equal(grid[0, 1], grid[1, 0])


@pytest.mark.parametrize("kind", [Painter, Conditional])
def test_sheets_have_a_row_for_each_client_and_grids_for_four_members(kind):
    clients = population(labels=2)  # of different sizes, so that they are not computed in order
    result = scored(kind, clients)
    sheets = generation_sheets(result, clients, conditional=kind is Conditional)
    assert [sheet.name for sheet in sheets] == [
        "samples",
        *(f"samples-{number}" for number in range(4)),
    ]
    assert sheets[0].tiles.shape == (len(result.clients), 1 + ROW, 16, 16, 1)
    assert sheets[1].tiles.shape == (GRID, GRID, 16, 16, 1)
    for row, item in zip(sheets[0].tiles, result.clients, strict=True):
        real = IMAGES.x[clients.partition[item["client"]].train[0]]
        np.testing.assert_array_equal(row[0, ..., 0], real)
    assert ("label" in sheets[0].caption) == (kind is Conditional)


def test_samples_without_a_label_ask_for_nothing():
    clients = Population(IMAGES, population().partition, labelled=3, keeps_unlabelled=True)
    known = known_labels(clients, "c0")
    assert len(known) == 3
    assert known.min() >= 0
    method = Conditional(MethodSettings(), Own)
    info = RoundInfo(1, 1, 0, clients.info)
    job = GenerateJob(Serving(method.start(info), info, "label-free"))
    seen = []
    method.generate = lambda model, draws, label: seen.append(label) or draws.content
    job(method, clients, ClientTask("c0", None))
    assert set(torch.cat(seen[: OWN // 100]).tolist()) == set(known.tolist())
