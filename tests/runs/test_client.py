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
