"""A finished run is used: its clients predict as they were scored, from the folder alone."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import duotone
from duotone.measures.metrics import classification_metrics, regression_metrics
from duotone.methods import METHODS
from duotone.runs.plan import plan_run

DIGITS = {"scheme": "iid", "clients": 4, "newcomers": 1, "max_train": 40, "max_test": 20}
NUMBERS = {"scheme": "natural", "newcomers": 1}
IMAGES_ONLY = [name for name in METHODS if METHODS.load(name).own_model]


def made(name, out, *, data="mini-digits", partition=DIGITS, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without observers, messages are warnings
        return duotone.run(
            method={"name": name, "epochs": 1},
            data=data,
            partition=partition,
            **{
                "rounds": 3,
                "evaluate_every": 1,
                "sampled": 2,
                "latents": 0,
                "curve": [],
                "backend": "serial",
            }
            | settings,
            out=out,
        )


def population_of(run):
    return plan_run(run.config.model_dump()).population


def samples(population, client, split="test"):
    rows = population.rows(client, split)
    return population.dataset.x[rows], population.dataset.y[rows]


def scored(run, round, client):
    rows = run.metrics.filter((run.metrics["round"] == round) & (run.metrics["client"] == client))
    return dict(zip(rows["metric"], rows["value"], strict=True))


def assert_as_scored(run, which):
    population = population_of(run)
    for name in population.partition:
        client = run.client(name, round=which)
        x, y = samples(population, name)
        scores = scored(run, client.facts.round, name)
        if population.info.task == "classes":
            found = classification_metrics(y, client.scores(x).numpy())
            assert float((client.predict(x) == y).mean()) == pytest.approx(found["accuracy"])
        else:
            found = regression_metrics(y.astype(np.float64), client.predict(x))
        assert found == {metric: scores[metric] for metric in found}


@pytest.fixture(scope="module", params=sorted(METHODS))
def any_run(request, tmp_path_factory):
    """A finished run of every method."""
    return made(request.param, tmp_path_factory.mktemp("any") / "run")


def test_clients_predict_classes_as_they_were_scored(any_run):
    assert_as_scored(any_run, "last")
    assert_as_scored(any_run, "selected")


@pytest.mark.parametrize("name", sorted(set(METHODS) - set(IMAGES_ONLY)))
def test_clients_predict_numbers_as_they_were_scored(name, tmp_path):
    try:
        run = made(name, tmp_path / "run", data="simpson", partition=NUMBERS)
    except duotone.ConfigError as error:
        pytest.skip(str(error))
    assert_as_scored(run, "last")


# -- a newcomer joins


def assert_equal(first, second):
    assert first.keys() == second.keys()
    for name in first:
        assert torch.equal(first[name], second[name]), name


def checksums(path):
    return {file: file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def test_a_newcomer_of_the_run_that_joins_again_has_the_same_model(any_run):
    population = population_of(any_run)
    (newcomer,) = population.partition.newcomers
    before = checksums(any_run.path)
    again = any_run.join(*samples(population, newcomer, "train"), name=newcomer)
    assert_equal(any_run.client(newcomer).params, again.params)
    assert checksums(any_run.path) == before


def test_one_sample_is_enough_to_join(any_run):
    x, y = samples(population_of(any_run), "0", "train")
    joined = any_run.join(x[:1], y[:1], name="new")
    assert joined.predict(x[:2]).shape == (2,)


# -- export


NOT_IN_ONNX = ("ditto-gan", "fedvc", "padpaf", "padpaf-vae")
"""Methods whose network decides by its own parameters what to compute."""


def test_an_exported_client_predicts_the_same_without_the_run(any_run, tmp_path):
    client = any_run.client("0")
    x, _ = samples(population_of(any_run), "0")
    again = duotone.load_client(client.export(tmp_path / "out"))
    assert torch.equal(again.scores(x), client.scores(x))
    assert torch.equal(again.encode(x).shared, client.encode(x).shared)
    assert "# The model of client 0" in (tmp_path / "out" / "README.md").read_text("utf-8")


@pytest.mark.slow
def test_an_onnx_graph_of_any_method_predicts_the_same(any_run, tmp_path):
    assert_same_in_onnx(any_run, tmp_path)


@pytest.mark.parametrize("name", ["feddva", "padpaf"])
def test_an_onnx_graph_predicts_the_same_without_duotone(name, tmp_path):
    assert_same_in_onnx(made(name, tmp_path / "run", rounds=1), tmp_path)


def assert_same_in_onnx(any_run, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    client = any_run.client("0")
    if any_run.config.method["name"] in NOT_IN_ONNX:
        with pytest.raises(duotone.ConfigError, match="cannot be expressed in ONNX"):
            client.export(tmp_path / "out", "onnx")
        assert not (tmp_path / "out").exists()
        return
    x, _ = samples(population_of(any_run), "0")
    out = client.export(tmp_path / "out", "onnx")
    session = onnxruntime.InferenceSession(out / "model.onnx")
    for some in (x, x[:1]):
        scores, shares = session.run(["scores", "probabilities"], {"x": some[..., None]})
        np.testing.assert_allclose(scores, client.scores(some), atol=1e-4)
        np.testing.assert_allclose(shares, client.predict_proba(some), atol=1e-4)
