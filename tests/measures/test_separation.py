from __future__ import annotations

import numpy as np
import pytest
from scenes import separation_scores
from threadpoolctl import threadpool_limits

from duotone.data.planted import planted, planted_table
from duotone.measures.folds import CodeRows

PLANTED = {"planted": planted, "planted-table": planted_table}


def latents(name, encode, per_client=60, newcomers=("c9", "c10", "c11")):
    """Return a table of codes of planted data, as a run would save it.

    ``encode`` gets the rows' columns and returns the arrays of codes.
    """
    dataset = PLANTED[name]()
    rows = np.concatenate(
        [
            np.flatnonzero((dataset.client == client) & (dataset.is_test == is_test))[:per_client]
            for client in np.unique(dataset.client)
            for is_test in (False, True)
        ]
    )
    columns = {
        "label": dataset.y[rows],
        "client": dataset.client[rows],
        "group": dataset.domain[rows],
        "kind": np.where(np.isin(dataset.client[rows], newcomers), "newcomer", "member"),
        "split": np.where(dataset.is_test[rows], "test", "train"),
        "index": rows,
    }
    columns |= {f"factor_{key}": values[rows] for key, values in dataset.factors.items()}
    return columns | encode(columns, np.random.default_rng(0))


def one_hot(values):
    return (values[:, np.newaxis] == np.unique(values)).astype(np.float32)


def oracle(columns, rng):
    """Put the shared factors into the shared part, and the local ones into the local part."""
    if "factor_stripe" in columns:
        phase = columns["factor_phase"]
        shared = [one_hot(columns["label"]), columns["factor_position"][:, np.newaxis]]
        local = [one_hot(columns["factor_stripe"]), np.stack([np.cos(phase), np.sin(phase)], 1)]
    else:
        shared = [columns[f"factor_shared{k}"][:, np.newaxis] for k in range(3)]
        local = [columns[f"factor_local{k}"][:, np.newaxis] for k in range(2)]
    return {"shared": np.hstack(shared), "local": np.hstack(local)}


def random(columns, rng):
    rows = len(columns["label"])
    return {"shared": rng.normal(size=(rows, 6)), "local": rng.normal(size=(rows, 5))}


def leaky(columns, rng):
    """Hide in the shared part whether a client's number is even, as whether two signs agree."""
    codes = oracle(columns, rng)
    even = np.array([int(client[1:]) % 2 for client in columns["client"]])
    hidden = rng.normal(size=(len(even), 2))
    hidden[:, 1] = np.abs(hidden[:, 1]) * np.sign(hidden[:, 0]) * (2 * even - 1)
    return codes | {"shared": np.hstack([codes["shared"], hidden])}


@pytest.fixture(scope="module")
def found():
    """Scores of every encoder on the planted images."""
    return {
        encode.__name__: separation_scores(latents("planted", encode), data_name="planted", seed=0)
        for encode in (oracle, random, leaky)
    }


def values(scores, *names):
    return [scores[name].value for name in names]


def test_an_oracle_reads_each_factor_from_its_own_part_alone(found):
    scores = found["oracle"]
    assert min(values(scores, "probe.label_from_shared", "probe.stripe_from_local")) > 0.99
    assert min(values(scores, "probe.group_from_local", "probe.position_from_shared")) > 0.97
    assert scores["probe.phase_from_local"].value > 0.97
    # A group has three members, all alike.
    assert scores["probe.client_from_local"].value == pytest.approx(1 / 3, abs=0.06)
    for name in ("client_from_shared", "group_from_shared", "label_from_local"):
        chance = scores[f"probe.{name}.chance"].value
        assert scores[f"probe.{name}"].value == pytest.approx(chance, abs=0.06)
    for name in ("position_from_local", "phase_from_shared"):
        assert scores[f"probe.{name}.chance"].value == 0
        assert scores[f"probe.{name}"].value == pytest.approx(0, abs=0.1)


def test_an_oracle_has_parts_that_stand_for_their_factors(found):
    scores = found["oracle"]
    assert min(values(scores, "parts.disentanglement", "parts.completeness")) > 0.98
    assert min(values(scores, "parts.modularity", "parts.informativeness")) > 0.97
    assert scores["parts.mig"].value > 0.8
    assert scores["dims.modularity"].value > 0.95
    control = scores["parts.hsic.control"].value
    assert scores["parts.hsic"].value == pytest.approx(control, abs=0.01)
    assert scores["parts.total_correlation"].value < 0.08


def test_an_oracle_finds_groups_and_places_newcomers(found):
    scores = found["oracle"]
    assert values(scores, "groups.nmi", "groups.ari") == pytest.approx([1, 1])
    assert scores["groups.silhouette"].value > 0.7
    assert scores["groups.newcomers"].value == 1
    assert scores["groups.newcomers"].n == 3
    assert scores["groups.ari.shared"].value < 0.7
    assert scores["probe.group_from_local.newcomers"].value > 0.99
    assert scores["probe.label_from_shared.newcomers"].value > 0.99
    # Newcomers are one of each group, which tells them apart.
    assert scores["probe.client_from_local.newcomers"].value > 0.99
    assert scores["probe.client_from_shared.newcomers"].value == pytest.approx(1 / 3, abs=0.1)


def test_what_the_label_alone_tells_is_printed_for_reference(found):
    for part in ("shared", "local"):
        score = found["oracle"][f"probe.client_from_{part}.label"]
        assert score.direction == "reference"
        assert score.value >= found["oracle"][f"probe.client_from_{part}.chance"].value - 0.05


BESIDE = ("chance", "label", "bar", "linear.bar")


def test_a_random_encoder_scores_about_chance_everywhere(found):
    scores = found["random"]
    for name, score in scores.items():
        if name.measure == "probe" and name.role == "member" and name.variant not in BESIDE:
            chance = scores[name.beside("chance")].value
            assert score.value < chance + 0.08, name
            # Inside a client a probe has few samples, and may do worse than the mean.
            assert score.value > chance - (0.5 if name.variant == "within" else 0.08), name
    for over in ("dims", "parts"):
        assert scores[f"{over}.mig"].value < 0.02
        assert scores[f"{over}.informativeness"].value < 0.05


def test_a_leak_is_caught_that_a_linear_probe_misses(found):
    name = "probe.client_from_shared"
    clean, scores = found["oracle"], found["leaky"]
    assert scores[f"{name}.linear"].value < scores[f"{name}.chance"].value + 0.05
    # Whether its number is even leaves four or five of nine clients.
    assert scores[name].value > 0.17
    assert scores[name].low > clean[name].high
    assert scores[f"{name}.control"].value < 0.15


@pytest.mark.slow
def test_the_oracle_of_the_planted_table_is_told_from_its_mixture():
    scores = separation_scores(latents("planted-table", oracle), data_name="planted-table", seed=0)
    for factor in ("shared0", "shared1", "shared2"):
        assert scores[f"probe.{factor}_from_shared"].value > 0.97
        assert scores[f"probe.{factor}_from_local"].value < 0.05
    for factor in ("local0", "local1"):
        assert scores[f"probe.{factor}_from_local"].value > 0.97
        assert scores[f"probe.{factor}_from_shared"].value < 0.05
    assert scores["probe.label_from_shared"].value > 0.95
    assert scores["dims.disentanglement"].value > 0.7

    def mixed(columns, rng):
        codes = oracle(columns, rng)
        both = np.hstack([codes["shared"], codes["local"]])
        turn, _ = np.linalg.qr(rng.normal(size=(5, 5)))
        return {"shared": (both @ turn)[:, :3], "local": (both @ turn)[:, 3:]}

    tangled = separation_scores(latents("planted-table", mixed), data_name="planted-table", seed=0)
    for name in ("mig", "sap", "disentanglement", "completeness"):
        for over in ("dims", "parts"):
            assert tangled[f"{over}.{name}"].value < scores[f"{over}.{name}"].value - 0.1


def test_directions_follow_from_whose_the_factor_is(found):
    def direction(name):
        return found["oracle"][f"probe.{name}"].direction

    for name in ("client", "group", "stripe", "phase"):
        assert (direction(f"{name}_from_shared"), direction(f"{name}_from_local")) == (
            "lower",
            "higher",
        )
    for name in ("label", "position"):
        assert (direction(f"{name}_from_shared"), direction(f"{name}_from_local")) == (
            "higher",
            "lower",
        )
    assert direction("client_from_shared.linear") == "lower"
    assert direction("client_from_shared.newcomers") == "lower"
    for suffix in ("chance", "control"):
        assert direction(f"client_from_shared.{suffix}") == "reference"


def small(**changed):
    """Return a small table of noise: four members in two groups, two newcomers."""
    rng = np.random.default_rng(0)
    client = np.repeat(np.arange(6), 40)
    table = {
        "shared": rng.normal(size=(240, 3)),
        "local": rng.normal(size=(240, 2)),
        "label": rng.integers(0, 2, 240),
        "client": client.astype(str),
        "group": np.char.add("g", (client % 2).astype(str)),
        "kind": np.where(client < 4, "member", "newcomer"),
        "split": np.tile(np.repeat(["train", "test"], 20), 6),
        "index": np.arange(240),
    }
    return table | changed


# -- what stands beside a score, and which samples it is made from


def told_in(split, table):
    """Return codes that name the client in one split, and are noise in the other."""
    noise = np.random.default_rng(1).normal(size=(240, 6))
    return np.where(table["split"][:, np.newaxis] == split, 3.0 * one_hot(table["client"]), noise)


def few(table):
    """Return a table in which one member has too few samples that its encoder did not see."""
    left_out = np.flatnonzero((table["client"] == "0") & (table["split"] == "test"))[:1]
    return {name: np.delete(values, left_out, axis=0) for name, values in table.items()}


VARIANTS = ("", ".linear", ".untrained", ".samples")


@pytest.mark.parametrize("split", ["train", "test"])
def test_with_few_other_samples_probes_learn_from_training_samples(split):
    # Whoever learns from the samples it is scored on reads the clients where both are told.
    table = small()
    codes = told_in(split, table)
    codes = {"shared": codes, "untrained_shared": codes, "shared_std": np.full((240, 6), 0.01)}
    scores = separation_scores(few(table | codes), data_name=None, seed=0)
    for suffix in VARIANTS:
        # Four members; where they are told in training, a probe finds its way by chance at best.
        assert scores[f"probe.client_from_shared{suffix}"].value < 0.55, suffix
    assert scores["probe.client_from_shared"].learnt_on == "training samples"
    # Newcomers have enough.
    assert scores["probe.client_from_shared.newcomers"].learnt_on == "held-out samples"


def test_probes_learn_from_samples_that_the_encoder_did_not_see():
    table = small()
    seen = told_in("train", table)
    codes = {"shared": seen, "untrained_shared": seen, "shared_std": np.full((240, 6), 0.01)}
    scores = separation_scores(table | codes, data_name=None, seed=0)
    for suffix in VARIANTS:
        score = scores[f"probe.client_from_shared{suffix}"]
        assert score.value < 0.45, suffix
        assert score.n == 80  # every test sample of the four members
        assert score.learnt_on == "held-out samples"
    assert scores["probe.client_from_shared.newcomers"].n == 40
    unseen = told_in("test", table)
    codes = {"shared": unseen, "untrained_shared": unseen, "shared_std": np.full((240, 6), 0.01)}
    scores = separation_scores(table | codes, data_name=None, seed=0)
    for suffix in VARIANTS:
        assert scores[f"probe.client_from_shared{suffix}"].value > 0.9, suffix


def test_halves_share_no_sample_and_have_every_clients():
    latents = small(split=np.tile(np.repeat(["train", "val", "test"], [10, 10, 20]), 6))
    rows = CodeRows.of(latents, "member", 0)
    first, second = (fold.test for fold in rows.folds)
    assert not set(first) & set(second)
    assert (
        sorted({*first, *second})
        == np.flatnonzero((latents["kind"] == "member") & (latents["split"] != "train")).tolist()
    )
    for half in (first, second):
        assert np.unique(latents["client"][half], return_counts=True)[1].tolist() == [15] * 4
    assert [fold.train.tolist() for fold in rows.folds] == [second.tolist(), first.tolist()]


def test_what_the_label_tells_is_learnt_from_other_samples():
    table = few(small())
    even = table["client"].astype(int) % 2
    # Groups are the even and the odd clients. In training the label is the group, in tests it is
    # the other one: whoever trusts the label as it was is always wrong.
    table["label"] = np.where(table["split"] == "train", even, 1 - even)
    scores = separation_scores(table, data_name=None, seed=0)
    for part in ("shared", "local"):
        assert scores[f"probe.group_from_{part}.label"].value == 0
        assert scores[f"probe.client_from_{part}.label"].value == 0


def test_chance_is_the_most_frequent_answer_of_the_samples_learnt_from():
    table = few(small())
    is_train, number = table["split"] == "train", table["index"]
    # The first of each twenty is left out of one client's test samples: 19 of 80 have label 0.
    table["label"] = np.where(is_train, number % 4 == 0, number % 4 > 0).astype(int)
    scores = separation_scores(table, data_name=None, seed=0)
    # Three quarters of the training samples have label 0, and a quarter of the others.
    assert scores["probe.label_from_shared.chance"].value == pytest.approx(19 / 79)


def test_the_control_reads_answers_that_were_dealt_out_anew():
    table = small()
    scores = separation_scores(table | {"shared": one_hot(table["client"])}, data_name=None, seed=0)
    name = "probe.client_from_shared"
    assert scores[name].value > 0.95
    assert scores[f"{name}.control"].value == pytest.approx(0.25, abs=0.03)
    assert scores[f"{name}.control"].n == 99
    mean, point, bar = (scores[f"{name}.{word}"].value for word in ("control", "control95", "bar"))
    assert mean < point <= bar < 0.6
    # Groups are known where clients are, whichever they are.
    assert scores["probe.group_from_shared"].value > 0.95
    assert scores["probe.group_from_shared.control"].value > 0.95


def test_parts_that_say_the_same_depend_on_each_other_and_shuffled_ones_do_not():
    table = small()
    copied = table["shared"][:, :2]
    scores = separation_scores(table | {"local": copied}, data_name=None, seed=0)
    for name in ("parts.hsic", "parts.total_correlation"):
        assert scores[name].value > 3 * scores[f"{name}.control"].value


def test_a_part_of_width_zero_has_no_scores():
    scores = separation_scores(small(local=np.zeros((240, 0))), data_name=None, seed=0)
    assert "probe.client_from_shared" in scores
    assert "groups.ari.shared" in scores
    assert not [name for name in scores if "local" in name or name.startswith("parts.")]
    assert not {"groups.nmi", "groups.newcomers"} & scores.keys()


def test_a_diverged_network_has_no_scores():
    broken = np.full((240, 3), np.nan)
    scores = separation_scores(small(shared=broken, local=broken), data_name=None, seed=0)
    assert scores == {}


def test_a_single_group_or_label_is_not_asked_for():
    scores = separation_scores(
        small(group=np.full(240, "g"), label=np.zeros(240, int)), data_name=None, seed=0
    )
    assert {name.partition("_from_")[0] for name in scores if name.startswith("probe")} == {
        "probe.client"
    }
    assert not [name for name in scores if name.startswith("groups")]


def test_a_float_label_is_an_amount_and_an_unknown_factor_has_no_direction():
    target = np.linspace(-1, 1, 240).astype(np.float32)
    table = small(label=target, factor_hue=target)
    table["shared"][:, 0] = target
    scores = separation_scores(table, data_name="mine", seed=0)
    assert scores["probe.label_from_shared"].value > 0.9
    assert scores["probe.label_from_shared.chance"].value == 0
    assert scores["probe.label_from_shared"].direction == "higher"
    assert scores["probe.hue_from_shared"].direction == "reference"


def test_codes_of_one_encoder_are_read_where_clients_have_their_own():
    table = small()
    own = one_hot(table["client"])  # what differs are the encoders, not the samples
    scores = separation_scores(
        table | {"local": own, "common_local": table["local"]}, data_name=None, seed=0
    )
    assert scores["probe.client_from_local"].value < 0.5


def test_untrained_codes_samples_and_fedavg_stand_beside_the_scores():
    table = small()
    told = one_hot(table["client"])
    scores = separation_scores(
        table
        | {"untrained_local": told, "fedavg": told, "local_std": np.full((240, 2), 0.1)}
        | {"local": told[:, :2]},
        data_name=None,
        seed=0,
    )
    assert scores["probe.client_from_local.untrained"].value > 0.9
    assert scores["probe.client_from_local.untrained"].direction == "reference"
    assert scores["probe.client_from_local.samples"].value > 0.6
    assert scores["probe.client_from_local.samples"].direction == "higher"
    assert scores["groups.ari.fedavg"].direction == "reference"
    assert "groups.silhouette.untrained" in scores
    assert "probe.client_from_shared.samples" not in scores


def test_newcomers_of_unknown_groups_are_not_asked_for_their_group():
    table = small()
    table["group"][table["kind"] == "newcomer"] = "g9"
    scores = separation_scores(table, data_name=None, seed=0)
    assert "probe.group_from_local.newcomers" not in scores
    assert "groups.newcomers" not in scores
    assert scores["probe.label_from_local.newcomers"].n == 40


def test_scores_are_bit_equal_for_any_number_of_threads():
    with threadpool_limits(2):
        first = separation_scores(small(), data_name=None, seed=0)
    with threadpool_limits(1):
        again = separation_scores(small(), data_name=None, seed=0)
    assert first == again
