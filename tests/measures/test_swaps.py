from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scenes import make_scene
from torch import nn

from duotone.data.planted import drawn_shapes, drawn_stripes, planted, planted_table
from duotone.federation.backends.serial import Serial
from duotone.federation.method import Method
from duotone.federation.protocols import Decodes
from duotone.federation.serving import Serving
from duotone.federation.settings import MethodSettings
from duotone.measures.decoding import choose_holders, encode_holders
from duotone.measures.judges import train_judges
from duotone.measures.sheets import draw_sheets
from duotone.measures.swapped import local_effect, swap_scores
from duotone.methods.baselines.fedavg import FedAvg
from duotone.networks.classifiers import mlp
from duotone.partition.build import build_partition
from duotone.partition.partition import Partition, Population
from duotone.types import ClientState, Latents, RoundInfo

TABLE, IMAGES = planted_table(), planted()
ROW_OF = {image.tobytes(): row for row, image in enumerate(IMAGES.x)}


@pytest.fixture(scope="module", autouse=True)
def _short_training():
    """Planted data is easy to judge."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("duotone.measures.judges._STEPS", 120)
        yield


# -- methods whose codes are known exactly


class Mixing(nn.Module):
    """Knows how the planted table was mixed; ``style`` is the client's own."""

    def __init__(self, data):
        super().__init__()
        names = ("shared0", "shared1", "shared2", "local0", "local1")
        factors = np.stack([TABLE.factors[name] for name in names], axis=1)
        mix = np.linalg.lstsq(factors, TABLE.x, rcond=None)[0]
        self.register_buffer("mix", torch.from_numpy(mix).float())
        self.register_buffer("unmix", torch.linalg.pinv(self.mix))
        self.register_buffer("style", torch.zeros(2))


class Oracle(Method):
    """Separates: three shared numbers, two local ones, and nothing that clients own."""

    name, title, paper = "oracle", "", ""

    def is_shared(self, name, owner):
        return name != "style"

    def before_use(self, server, client, data, info):
        return self.join(server, data, info)

    def join(self, server, data, info):
        return ClientState({"style": (data.x @ server.shared["unmix"])[:, 3:].mean(0)})

    def encode(self, model, x):
        factors = x @ model.unmix
        return Latents(factors[:, :3], factors[:, 3:])

    def decode(self, model, latents):
        return torch.cat([latents.shared, latents.local], 1) @ model.mix


class DeadLocal(Oracle):
    """Has a local code of zeros; each client's decoder paints its own style over everything."""

    def encode(self, model, x):
        return Latents(super().encode(model, x).shared, torch.zeros(len(x), 2))

    def decode(self, model, latents):
        painted = model.style.expand(len(latents.shared), 2)
        return super().decode(model, Latents(latents.shared, painted))


class Leaky(Oracle):
    """Has a local code that carries the label as well, and decodes it from there."""

    def encode(self, model, x):
        factors = x @ model.unmix
        return Latents(factors[:, :3], factors)

    def decode(self, model, latents):
        factors = torch.cat([latents.local[:, :2], latents.shared[:, 2:], latents.local[:, 3:]], 1)
        return factors @ model.mix


class StyleInShared(Oracle):
    """Has it the wrong way round: the style is in the shared code, the local code does nothing."""

    def encode(self, model, x):
        return Latents(x @ model.unmix, torch.zeros(len(x), 2))

    def decode(self, model, latents):
        return latents.shared @ model.mix


class Drawing(Method):
    """Looks up what is drawn in a planted image, and draws it again."""

    name, title, paper = "drawing", "", ""

    def encode(self, model, x):
        images = x.mul(255).round().to(torch.uint8).numpy()
        rows = [ROW_OF[image.tobytes()] for image in images]
        stripe, phase, position = (
            IMAGES.factors[name][rows] for name in ("stripe", "phase", "position")
        )
        shared = np.column_stack([np.eye(4)[IMAGES.y[rows]], position])
        local = np.column_stack([np.eye(3)[stripe], np.cos(phase), np.sin(phase)])
        return Latents(torch.from_numpy(shared).float(), torch.from_numpy(local).float())

    def decode(self, model, latents):
        shared, local = latents.shared.double().numpy(), latents.local.double().numpy()
        shape = drawn_shapes(shared[:, :4].argmax(1), shared[:, 4])
        ground = drawn_stripes(local[:, :3].argmax(1), np.arctan2(local[:, 4], local[:, 3]))
        return torch.from_numpy(np.maximum(shape, 0.5 * ground)).float().unsqueeze(1)


# -- running them


def table_population(newcomers=("c9", "c10", "c11")):
    partition = build_partition(TABLE, "natural", {"newcomers": list(newcomers)}, seed=0)
    return Population(TABLE, partition)


@pytest.fixture(scope="module")
def table():
    return table_population()


@pytest.fixture(scope="module")
def judges(table):
    return train_judges(table, seed=0)


def holders_of(method_class, population, judges, rule="few-shot", backend=None):
    method = method_class(MethodSettings(), Mixing if population.dataset.x.ndim == 2 else mlp)
    info = RoundInfo(1, 1, 0, population.info)
    serving = Serving(method.start(info), info, rule)
    chosen = choose_holders(population.partition, judges.style_of, info.seed)
    scene = make_scene(method, population, serving, backend=backend)
    holders = encode_holders(scene, chosen, judges)
    return method, holders, info


def swapped(method_class, population, judges, rule="few-shot", backend=None):
    method, holders, info = holders_of(method_class, population, judges, rule, backend)
    return swap_scores(method, judges, holders, population, info)


@pytest.fixture(scope="module")
def oracle(table, judges):
    return swapped(Oracle, table, judges)


@pytest.fixture(scope="module")
def dead(table, judges):
    return swapped(DeadLocal, table, judges)


def values(result):
    return {name: score.value for name, score in result.scores.items()}


# -- what the scores say


def test_codes_that_separate_score_as_high_as_the_judges_allow(oracle):
    scores = values(oracle)
    for name in ("label", "style", "shared2", "local0", "local1"):
        assert scores[f"swap.{name}"] > scores[f"swap.{name}.judge"] - 0.05
        assert scores[f"swap.{name}"] > scores[f"swap.{name}.unswapped"] - 0.05
        assert oracle.scores[f"swap.{name}"].direction == "higher"
        assert oracle.scores[f"swap.{name}.judge"].direction == "reference"
    # With the mean local code all decoded samples have the style nearest to the middle.
    assert scores["swap.style.without_local"] < 0.5
    # Three standard normal numbers against two with a variance of 0.28 around the client's mean.
    assert scores["swap.local_effect"] == pytest.approx(0.56 / 3.56, abs=0.06)


def test_a_dead_local_code_is_seen_although_every_swap_succeeds(dead, table):
    scores = values(dead)
    assert scores["swap.label"] > 0.9
    assert scores["swap.style"] > 0.95
    assert scores["swap.style.without_local"] == pytest.approx(scores["swap.style"])
    assert scores["swap.local_effect"] == pytest.approx(0, abs=1e-6)
    assert scores["swap.local0"] < 0.1  # the factor does not follow its giver
    assert len(dead.local_effect) == 8
    assert set(dead.local_effect) < set(table.partition.members)


class Noting(Oracle):
    """Notes the local codes that are the same for all samples it decodes."""

    def __init__(self, *given):
        super().__init__(*given)
        self.same = []

    def decode(self, model, latents):
        if bool((latents.local == latents.local[0]).all()):
            self.same.append(latents.local[0])
        return super().decode(model, latents)


def test_without_local_codes_all_have_the_members_mean(table, judges):
    method, holders, info = holders_of(Noting, table, judges)
    swap_scores(method, judges, holders, table, info)
    members = np.concatenate([h.local for h in holders if h.role == "member"]).mean(axis=0)
    everybody = np.concatenate([h.local for h in holders]).mean(axis=0)
    assert method.same
    for code in method.same:
        np.testing.assert_allclose(code, members, atol=1e-6)
    assert not np.allclose(everybody, members, atol=1e-3)


def test_a_local_code_that_carries_the_label_is_seen(table, judges):
    scores = values(swapped(Leaky, table, judges))
    assert scores["swap.label.unswapped"] > 0.9
    assert scores["swap.label"] < 0.1  # givers have another label than the content
    assert scores["swap.style"] > 0.85
    assert scores["swap.local_effect"] > 0.5


def test_a_style_in_the_shared_code_stays_with_the_content(table, judges):
    scores = values(swapped(StyleInShared, table, judges))
    assert scores["swap.style.unswapped"] > 0.85
    assert scores["swap.style"] < 0.1
    assert scores["swap.label"] > 0.9


def test_newcomers_are_scored_apart_by_the_model_their_rule_allows(dead, table, judges):
    given = values(dead)
    blind = values(swapped(DeadLocal, table, judges, rule="zero-shot"))
    assert given["swap.style.newcomers"] > 0.95
    # A newcomer's decoder that has seen nothing paints no style; those of members still do.
    assert blind["swap.style.newcomers"] < 0.9
    assert blind["swap.style"] == given["swap.style"]
    assert given["swap.label.judge.newcomers"] > 0.9


def test_without_newcomers_there_are_no_scores_of_newcomers(judges):
    result = swapped(Oracle, table_population(newcomers=()), judges)
    assert not [name for name in result.scores if "newcomers" in name]


def test_planted_images_are_redrawn_with_the_factors_of_their_givers():
    partition = build_partition(IMAGES, "natural", {"newcomers": ["c11"]}, seed=0)
    population = Population(IMAGES, partition)
    judges = train_judges(population, seed=0)
    method, holders, info = holders_of(Drawing, population, judges)
    scores = values(swap_scores(method, judges, holders, population, info))
    for name in ("label", "style", "phase", "position", "label.newcomers", "style.newcomers"):
        assert scores[f"swap.{name}"] > 0.97
    assert scores["swap.style.without_local"] < 0.5
    assert 0.1 < scores["swap.local_effect"] < 0.9

    swaps, *others = draw_sheets(method, holders, population)
    assert "c11 (g2)." in swaps.caption  # the newcomer comes last
    assert swaps.tiles.shape == (6, 6, 16, 16, 1)
    assert swaps.tiles.dtype == np.uint8
    originals, drawn = swaps.tiles[1:, 0], swaps.tiles[1:, 1:]
    assert np.array_equal(originals, swaps.tiles[0, 1:])
    for number in range(5):  # the diagonal is the original without its noise
        assert np.abs(drawn[number, number].astype(float) - originals[number]).mean() < 6
    # A column keeps its stripes wherever neither of two rows has its shape.
    ground = (drawn.min(axis=1) < 10)[[0, 2]].all(axis=0)
    assert ground.sum() > 50
    assert np.allclose(drawn[0, 1][ground], drawn[2, 1][ground].astype(float), atol=10)

    assert [sheet.section for sheet in others] == ["traversals", "manifolds"] * 2
    traversal, manifold = others[:2]
    dimensions = min(8, holders[0].shared.shape[1]) + min(8, holders[0].local.shape[1])
    assert traversal.tiles.shape == (dimensions, 9, 16, 16, 1)
    assert manifold.tiles.shape == (9, 9, 16, 16, 1)
    assert len({sheet.name for sheet in [swaps, *others]}) == 5


# -- pairs


def test_the_matrix_has_every_pair_and_its_means_are_the_scores(oracle, table):
    rows = {(row["content_client"], row["style_client"]): row for row in oracle.matrix}
    clients = list(dict.fromkeys(content for content, _ in rows))
    assert len(rows) == len(clients) ** 2 == len(oracle.matrix)
    partition = table.partition
    members = [client for client in clients if partition[client].role == "member"]
    assert (len(members), len(clients)) == (8, 11)
    for name in ("label", "style"):
        # Per client first: not every client has equally many clients of another style.
        by_content = [
            np.mean([rows[a, b][name] for b in members if partition[b].group != partition[a].group])
            for a in members
        ]
        assert oracle.scores[f"swap.{name}"].value == pytest.approx(np.mean(by_content))
        assert oracle.scores[f"swap.{name}"].n == 8 * 64


def test_a_newcomer_of_a_style_no_member_has_gives_a_label_to_judge_but_no_style():
    base = table_population()
    groups = ["new" if kind == "newcomer" else "g0" for kind in base.partition.roles]
    groups[0] = "g1"
    old = base.partition
    partition = Partition(old.clients, groups, old.roles, old.rows, old.offsets)
    population = Population(base.dataset, partition)
    result = swapped(Oracle, population, train_judges(population, seed=0))
    for row in result.matrix:
        is_known = partition[row["style_client"]].group != "new"
        assert (row["style"] is not None) == is_known
        assert row["label"] is not None
    assert "swap.style.judge.newcomers" not in result.scores
    assert "swap.label.newcomers" in result.scores
    assert "c0" in {row["style_client"] for row in result.matrix}  # the only one of its style


class Elsewhere(Serial):
    """Computes like worker processes: with copies, in another order."""

    def map_clients(self, job, tasks):
        method, job = pickle.loads(pickle.dumps((self.method, job)))
        yield from Serial(method, self.population).map_clients(job, reversed(list(tasks)))


def test_the_result_does_not_depend_on_where_clients_are_computed(oracle, table, judges):
    backend = Elsewhere(Oracle(MethodSettings(), Mixing), table)
    again = swapped(Oracle, table, judges, backend=backend)
    assert again.scores == oracle.scores
    assert again.matrix == oracle.matrix


def test_only_methods_with_a_decoder_decode():
    assert isinstance(Oracle(MethodSettings(), Mixing), Decodes)
    assert not isinstance(FedAvg(FedAvg.Config(), mlp), Decodes)


# -- analysis of variance


def test_the_local_effect_by_hand():
    # Rows are shared codes, columns local ones; one value per sample.
    samples = np.array([[0.0, 2.0], [4.0, 10.0]])[..., np.newaxis]
    # Mean 4; total 16 + 4 + 0 + 36 = 56. Row means 1 and 7: 2·(9 + 9) = 36 is the shared effect,
    # column means 2 and 6: 2·(4 + 4) = 16 the local one, and 4 is left as interaction.
    assert local_effect(samples) == pytest.approx(20 / 56)


def test_the_local_effect_is_0_for_a_dead_local_code_and_1_for_a_dead_shared_one():
    one_way = np.broadcast_to(np.arange(12.0).reshape(4, 1, 3), (4, 5, 3))
    assert local_effect(one_way) == pytest.approx(0)
    assert local_effect(one_way.swapaxes(0, 1)) == pytest.approx(1)
    assert local_effect(np.full((3, 3, 2), 0.1)) == 0


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 1000),
    st.integers(2, 6),
    st.integers(2, 6),
    st.floats(0.1, 10),
    st.floats(-5, 5),
)
def test_the_local_effect_is_a_share_whatever_the_brightness(seed, rows, columns, scale, shift):
    samples = np.random.default_rng(seed).random((rows, columns, 4))
    effect = local_effect(samples)
    assert 0 <= effect <= 1
    assert local_effect(scale * samples + shift) == pytest.approx(effect)
