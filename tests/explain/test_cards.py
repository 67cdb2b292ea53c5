"""Cards of one answer: words, numbers, and one clear line where there is none."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from explained_runs import finished

import duotone
from duotone.explain.layers import as_layers, differing_tensors, layer_words
from duotone.networks.classifiers import cnn_bn
from duotone.types import DataInfo


def dependent_sample(run, client):
    """Return the number of a test sample of a client whose class depends on the client."""
    population = run.client(client).opened.plan.population
    gates = population.factors(population.rows(client, "test"))["gate"]
    evidence = population.factors(population.rows(client, "test"))["evidence"]
    return int(np.flatnonzero((gates == 1) & (evidence == 0))[0])


def test_a_card_says_who_says_what_and_where_it_comes_from(ruled):
    card = ruled.client("c1").explain(sample=dependent_sample(ruled, "c1"), against="c2")
    text = str(card)
    assert text.startswith("Client c1 says 1 (")
    assert "c1's reading of this sample, and can only come from its last linear layer" in text
    assert card.difference.only == "head"
    assert card.difference.answer == "2"
    assert {control.relation for control in card.difference.controls} == {
        "same group",
        "other group",
    }
    assert not any(c.differs for c in card.difference.controls if c.relation == "same group")
    assert "what they say of test samples of all members" in " ".join(card.needed)


def test_support_is_of_own_samples_alone(ruled):
    client = ruled.client("c1")
    card = client.explain(sample=0)
    own = client.opened.plan.population.data("c1").x.numpy()
    for neighbour, shown in zip(card.support.nearest, card.support.pictures, strict=True):
        assert np.array_equal(own[neighbour.number], shown)


def test_attributions_add_up_to_what_they_explain(ruled):
    card = ruled.client("c1").explain(sample=dependent_sample(ruled, "c1"))
    for found in (card.sample_pixels, card.reading_pixels):
        assert found.values.sum() + found.left == pytest.approx(found.total)
        assert abs(found.left) < 0.05
        assert found.faithfulness > 0.3


def test_a_newcomer_is_compared_with_the_members(ruled):
    card = ruled.client("c11").explain(sample=0)
    assert card.needed[0] == "the local parts of 11 members"


def test_without_local_parts_all_clients_answer_alike(alike):
    card = alike.client("c0").explain(sample=0, against="c1")
    assert "fedavg gives everybody the same model" in str(card)
    assert card.layers is None
    assert card.reading_pixels is None
    for own in card.classes:
        assert (own.habit, own.reading) == pytest.approx((0, 0), abs=1e-6)
    assert card.difference.before == card.difference.after


def test_against_the_shared_model_no_other_local_part_is_needed(alike, ruled):
    card = alike.client("c0").explain(sample=0, reference="shared")
    assert "against the shared model" in str(card)
    assert not any("members" in line for line in card.needed)
    assert card.through_input is None
    assert alike.client("c0").explain(sample=0).through_input is not None
    with pytest.raises(duotone.ConfigError, match="reference='members'"):
        ruled.client("c0").explain(sample=0, reference="shared")


def test_a_number_is_explained_like_a_class(tmp_path):
    run = finished(tmp_path / "run", "fedavg-ft", "simpson", 1, {"scheme": "natural"})
    card = run.client("c1").explain(sample=0, against="c2")
    (own,) = card.classes
    assert own.mean + own.sample + own.habit + own.reading == pytest.approx(own.answer)
    assert own.name == "value"
    json.dumps(card.as_json())


X = np.zeros((1, 16), np.float32)
MISTAKES = {
    "no sample": ({}, "not both"),
    "two samples": ({"x": np.zeros((2, 16), np.float32)}, "one is explained at a time"),
    "wrong width": ({"x": np.zeros((1, 3), np.float32)}, "16 features"),
    "not a number": ({"x": X * np.nan}, "NaN"),
    "itself": ({"x": X, "against": "c0"}, "from itself"),
    "nobody": ({"x": X, "against": "zz"}, "no client 'zz'"),
    "no such sample": ({"sample": 999}, "0 to 39"),
    "reference": ({"x": X, "reference": "all"}, "'members' or 'shared'"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_one_clear_line(ruled, mistake):
    given, words = MISTAKES[mistake]
    with pytest.raises(duotone.DuotoneError, match=words) as error:
        ruled.client("c0").explain(**given)
    assert "\n" not in str(error.value)


def test_an_exported_client_has_nobody_to_be_compared_with(ruled, tmp_path):
    exported = duotone.load_client(ruled.client("c0").export(tmp_path / "c0"))
    with pytest.raises(duotone.RunError, match="where the run is"):
        exported.explain(X)


def test_two_members_explain_each_other(tmp_path):
    partition = {"scheme": "iid", "clients": 2, "max_train": 30, "max_test": 10}
    run = finished(tmp_path / "run", "fedavg-ft", "mini-digits", 1, partition)
    card = run.client("0").explain(sample=0, against="1")
    assert card.needed[0] == "the local parts of 2 members"
    assert [own.relation for own in card.difference.controls] == []
    assert card.picture.shape == (8, 8, 1)


def test_without_the_data_a_card_says_what_it_lacks(tmp_path):
    data = duotone.load_dataset("mini-digits")
    rows = {"train": data.train_rows[:90], "test": data.test_rows[:30]}
    arrays = {f"x_{split}": data.x[own] for split, own in rows.items()}
    arrays |= {f"y_{split}": data.y[own] for split, own in rows.items()}
    np.savez(tmp_path / "own.npz", **arrays)
    partition = {"scheme": "iid", "clients": 3}
    run = finished(tmp_path / "run", "fedbn", str(tmp_path / "own.npz"), 1, partition)
    (tmp_path / "own.npz").unlink()
    run = duotone.load_run(run.path)
    card = run.client("0").explain(arrays["x_test"][:1])
    assert card.support is None
    assert card.sample_pixels is None
    assert "not at hand" in card.notes[0]
    assert set(card.layers.names) == {"norm1", "norm2", "norm3"}
    assert card.layers.total == pytest.approx(sum(card.layers.values))
    with pytest.raises(duotone.RunError, match="give a sample as x"):
        run.client("0").explain(sample=0)
    assert run.card("0").prototypes == ()


def test_a_missing_local_part_is_one_clear_line(ruled, tmp_path):
    copy = shutil.copytree(ruled.path, tmp_path / "copy")
    (copy / "served" / "last" / "c2.safetensors").unlink()
    with pytest.raises(duotone.CheckpointError, match="c2") as error:
        duotone.load_run(copy).client("c0").explain(X)
    assert "\n" not in str(error.value)


def test_a_damaged_table_is_one_clear_line(ruled, tmp_path):
    copy = shutil.copytree(ruled.path, tmp_path / "copy")
    (copy / "answers.json").write_text('{"members": 3}')
    run = duotone.load_run(copy)
    for question in (lambda: run.client("c0").explain(X), run.card, lambda: run.card("c0")):
        with pytest.raises(duotone.RunError, match=r"answers\.json is damaged") as error:
            question()
        assert "\n" not in str(error.value)


def test_layers_are_named_in_words():
    network = cnn_bn(DataInfo((1, 8, 8), "classes", 3))
    assert layer_words(network, "norm1") == "its first normalisation layer (norm1)"
    assert layer_words(network, "head") == "its last linear layer (head)"
    assert layer_words(network, "a … b") == "its layers a … b"


def test_many_layers_are_put_together():
    layers = as_layers([f"layer{i}.weight" for i in range(5)], most=2)
    assert list(layers) == ["layer0 … layer1", "layer2 … layer4"]
    assert sum(map(len, layers.values())) == 5


def test_counters_do_not_count_as_a_difference():
    first = cnn_bn(DataInfo((1, 8, 8), "classes", 3)).state_dict()
    second = {name: tensor.clone() for name, tensor in first.items()}
    second["norm1.num_batches_tracked"] += 7
    assert differing_tensors(first, second) == []
    second["norm1.bias"] += 1
    assert differing_tensors(first, second) == ["norm1.bias"]
