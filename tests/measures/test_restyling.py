from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from scenes import make_scene
from torch import nn

from duotone.data.dataset import Dataset
from duotone.data.planted import drawn_shapes, drawn_stripes, planted
from duotone.federation.method import Method
from duotone.federation.protocols import Decodes, Restyles
from duotone.federation.serving import Serving
from duotone.federation.settings import MethodSettings
from duotone.measures.attackers import attackers_by_name, attackers_pieces
from duotone.measures.exposure import exposure
from duotone.measures.judges import train_judges
from duotone.measures.restyling import _by_label, restyle_scores
from duotone.measures.sheets import restyle_sheet
from duotone.measures.stylists import Stylist, find_stylists, originals_of, restyles
from duotone.methods.baselines.fedavg import FedAvg
from duotone.networks.classifiers import mlp
from duotone.partition.build import build_partition
from duotone.partition.partition import Holding, Partition, Population
from duotone.types import ClientState, Latents, RoundInfo

IMAGES = planted()
ROW_OF = {image.tobytes(): row for row, image in enumerate(IMAGES.x)}


@pytest.fixture(scope="module", autouse=True)
def _short_training():
    """Planted data is easy to judge."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("duotone.measures.judges._STEPS", 120)
        patch.setattr("duotone.measures.attackers._STEPS", 100)
        yield


# -- methods that re-style planted images: what they leave of the source is known


class Own(nn.Module):
    """Holds the number of the client's stripes, and of the client."""

    def __init__(self, data):
        super().__init__()
        self.register_buffer("stripe", torch.zeros(()))
        self.register_buffer("client", torch.zeros(()))
        self.head = nn.Linear(1, data.outputs)


class Striped(Method):
    """Knows each client's stripes."""

    name, title, paper = "striped", "", ""
    newcomer_rules = ("label-free",)

    def is_shared(self, name, owner):
        return name not in ("stripe", "client")

    def before_use(self, server, client, data, info):
        return self.join(server, data, info)

    def join(self, server, data, info):
        number = int(data.client.removeprefix("c"))
        own = {"stripe": torch.tensor(number % 3.0), "client": torch.tensor(float(number))}
        return ClientState(own)


class Honest(Striped):
    """Looks up what is drawn in a planted image, and draws that over the target's stripes."""

    def take_off(self, model, x, generator, *, redrawn):
        images = x.mul(255).round().to(torch.uint8).numpy()
        rows = [ROW_OF[image.tobytes()] for image in images]
        facts = np.stack([IMAGES.y[rows], IMAGES.factors["position"][rows]], axis=1)
        return torch.from_numpy(facts).float()

    def put_on(self, model, content, generator):
        phase = torch.rand(len(content), generator=generator).mul(2 * np.pi).double().numpy()
        label, position = content[:, 0].long().numpy(), content[:, 1].double().numpy()
        stripe = np.full(len(content), int(model.stripe))
        drawn = np.maximum(drawn_shapes(label, position), 0.5 * drawn_stripes(stripe, phase))
        return torch.from_numpy(drawn).float().unsqueeze(1)


class Marked(Honest):
    """Leaves a mark that no real sample has: a bright spot whose place says the source."""

    def take_off(self, model, x, generator, *, redrawn):
        source = model.client.expand(len(x), 1)
        return torch.cat([super().take_off(model, x, generator, redrawn=redrawn), source], dim=1)

    def put_on(self, model, content, generator):
        drawn = super().put_on(model, content, generator)
        for picture, source in zip(drawn, content[:, 2].long(), strict=True):
            picture[0, :3, 2 * source : 2 * source + 2] = 1
        return drawn


class Unchanged(Honest):
    """Gives back what it was given."""

    def take_off(self, model, x, generator, *, redrawn):
        return x

    def put_on(self, model, content, generator):
        return content


class Decoding(Striped):
    """Does the same by encoding and decoding."""

    def encode(self, model, x):
        return Latents(
            Honest.take_off(self, model, x, None, redrawn=False), model.stripe.expand(len(x), 1)
        )

    def decode(self, model, latents):
        return Honest.put_on(self, model, latents.shared, torch.Generator().manual_seed(0))


@cache
def population(newcomers: tuple[str, ...] = ("c4",)) -> Population:
    settings = {"newcomers": [*newcomers], "max_train": 120}
    return Population(IMAGES, build_partition(IMAGES, "natural", settings, seed=0))


@cache
def judges():
    return train_judges(population(), seed=0)


CLIENTS = ("c0", "c1", "c2", "c3", "c4")


@cache
def stylists_of(kind):
    method = kind(MethodSettings(), Own)
    info = RoundInfo(1, 1, 0, population().info)
    serving = Serving(method.start(info), info, "label-free")
    scene = make_scene(method, population(), serving)
    found = find_stylists(scene, CLIENTS, shown=60, tested=40)
    return method, found


@cache
def result(kind):
    method, stylists = stylists_of(kind)
    return scored(method, stylists)


def scored(method, stylists):
    learnt = [piece(method, population()) for piece in attackers_pieces(stylists, 0)]
    by_name = attackers_by_name(learnt)
    return restyle_scores(method, judges(), stylists, population(), seed=0, learnt=by_name)


def values(kind):
    return {name: score.value for name, score in result(kind).scores.items()}


# -- what the scores say


def test_samples_that_keep_nothing_of_their_source_cannot_be_told():
    scores = values(Honest)
    assert scores["restyle.label_kept"] > scores["restyle.label_kept.judge"] - 0.05
    assert scores["restyle.target_style"] > scores["restyle.target_style.judge"] - 0.05
    # c0 and c3 have the same stripes, so the target is often taken for its twin.
    assert scores["restyle.attacker"] < 0.35
    assert scores["restyle.attacker_informed"] < 0.35
    assert scores["restyle.attacker_informed.chance"] == pytest.approx(0.2, abs=0.06)


def test_a_mark_that_no_real_sample_has_is_found_by_who_knows_the_method():
    scores = values(Marked)
    assert scores["restyle.attacker"] < 0.4
    assert scores["restyle.attacker_informed"] > 0.9
    assert scores["restyle.attacker_informed.newcomers"] > 0.9


def test_samples_that_were_not_changed_are_in_no_other_style_and_give_all_away():
    scores = values(Unchanged)
    assert scores["restyle.target_style"] < 0.1
    assert scores["restyle.label_kept"] > 0.9
    assert scores["restyle.attacker"] == pytest.approx(scores["restyle.attacker.judge"], abs=0.05)
    assert scores["restyle.attacker"] > scores["restyle.attacker.chance"] + 0.1


def test_every_pair_of_different_clients_is_listed_and_directions_are_said():
    found = result(Honest)
    pairs = {(row["source"], row["target"]) for row in found.pairs}
    assert pairs == {(a, b) for a in CLIENTS for b in CLIENTS if a != b}
    directions = {name: score.direction for name, score in found.scores.items()}
    assert directions["restyle.label_kept"] == "higher"
    assert directions["restyle.attacker_informed"] == "lower"
    assert directions["restyle.attacker.judge"] == "reference"
    assert directions["restyle.attacker.chance"] == "reference"


def test_what_labels_tell_an_attacker_is_learnt_from_training_labels():
    # In training the first client has label 0 and the second 1; in tests it is the other way round.
    y = np.repeat([0, 1, 1, 0], 10)
    dataset = Dataset("turned", np.zeros((40, 2), np.float32), y, np.arange(40) >= 20, classes=2)
    none = np.zeros(0, np.int64)
    first, second, third, fourth = np.arange(40).reshape(4, 10)
    turned = Population(
        dataset,
        Partition.from_holdings(
            [
                Holding("a", "g", "member", first, none, third),
                Holding("b", "g", "member", second, none, fourth),
            ]
        ),
    )
    shown = {"test": torch.zeros(10, 2)}
    stylists = [Stylist(client, "member", {}, shown, None) for client in "ab"]
    assert [found.value for found in _by_label(stylists, turned).values()] == [0, 0]


def test_what_swaps_tell_is_not_told_again():
    scores = values(Decoding)
    assert scores["restyle.attacker_informed"] < 0.35
    assert not any(name.startswith(("restyle.label", "restyle.target")) for name in scores)


def test_scores_follow_the_seed_alone():
    method, stylists = stylists_of(Honest)
    again = scored(method, stylists)
    assert again.scores == result(Honest).scores


def test_who_can_re_style_is_known():
    assert isinstance(Honest(MethodSettings(), Own), Restyles)
    assert isinstance(Decoding(MethodSettings(), Own), Decodes)
    assert not isinstance(Decoding(MethodSettings(), Own), Restyles)
    assert restyles(Decoding(MethodSettings(), Own))
    assert not restyles(FedAvg(FedAvg.Config(), mlp))


def test_the_sheet_crosses_samples_with_styles():
    method, stylists = stylists_of(Honest)
    sheet = restyle_sheet(method, stylists, population(), seed=0)
    assert sheet.tiles.shape == (6, 6, 16, 16, 1)
    assert sheet.heads == (1, 1)
    assert sheet.tiles[0, 0].min() == 255
    np.testing.assert_array_equal(sheet.tiles[0, 2], sheet.tiles[2, 0])
    real = population().data("c1", "test").x.mul(255).round().permute(0, 2, 3, 1)
    assert any(np.array_equal(sheet.tiles[2, 0], image) for image in real)


def test_exposure_tells_a_method_that_marks_from_one_that_does_not():
    found = {}
    for kind in (Honest, Marked):
        method, stylists = stylists_of(kind)
        found[kind] = exposure(method, judges(), stylists, "c0", "c1", population(), seed=0)
        assert found[kind].samples == 40
        assert found[kind].others == 160
        assert found[kind].label_kept > 0.9
    assert found[Marked].informed.own > 0.9
    assert found[Marked].informed.others < 0.1
    assert found[Marked].is_found
    assert found[Honest].informed.own < found[Honest].informed.others + 0.25
    assert found[Marked].as_json()["informed"]["own"] == found[Marked].informed.own


def test_originals_are_the_samples_that_were_taken():
    _, stylists = stylists_of(Unchanged)
    for stylist in stylists:
        for split in ("train", "test"):
            x = originals_of(stylist, population(), split)
            assert torch.equal(x, stylist.content[split])
