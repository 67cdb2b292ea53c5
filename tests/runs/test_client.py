"""A finished run is used: its clients predict as they were scored, from the folder alone."""

from __future__ import annotations

import json
import shutil
import tomllib
import warnings

import numpy as np
import pytest
import torch

import duotone
from duotone.config import write_toml
from duotone.federation.protocols import ExchangesCodes
from duotone.measures.metrics import classification_metrics, regression_metrics
from duotone.methods import METHODS
from duotone.runs.plan import plan_run
from duotone.runs.pooled import identity

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


def test_every_method_explains_its_answers_and_parts_add_up(any_run):
    """A member and the newcomer, against another member; nothing in the run changes."""
    before = sorted((p, p.stat().st_mtime_ns) for p in any_run.path.rglob("*"))
    member, other, newcomer = "0", "1", "3"
    for name in (member, newcomer):
        card = any_run.client(name).explain(sample=0, against=other)
        content = card.as_json()
        for own in content["classes"]:
            parts = own["mean"] + own["sample"] + own["habit"] + own["reading"]
            assert parts == pytest.approx(own["answer"], abs=1e-5)
        answer = any_run.client(name).class_names[
            int(any_run.client(name).predict(samples(population_of(any_run), name)[0][:1])[0])
        ]
        assert content["answer"] == content["classes"][0]["name"] == answer
        layers = content["difference"]["layers"]
        if layers is not None:
            change = content["difference"]["after"] - content["difference"]["before"]
            assert sum(layers["values"]) == pytest.approx(change, abs=1e-5)
        assert f"Client {name} says {answer}" in str(card)
        assert "<html" in card.html()
        assert json.loads(json.dumps(content)) == content
    assert sorted((p, p.stat().st_mtime_ns) for p in any_run.path.rglob("*")) == before


def test_with_its_own_local_code_a_sample_is_answered_as_ever(any_run):
    client = any_run.client("0")
    if not isinstance(client.method, ExchangesCodes):
        pytest.skip("no local code to exchange")
    x = client.inputs(samples(population_of(any_run), "0")[0])
    code = client.encode_from(x).local
    with torch.inference_mode():
        again = client.method.predict_with(client.model(), x, code)
    assert torch.allclose(again.double(), client.scores_from(x), atol=1e-4)


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


def test_a_table_is_exported_too(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    run = made("fedavg", tmp_path / "run", data="simpson", partition=NUMBERS)
    client, x = run.client("c1"), np.linspace(-2, 2, 7, dtype=np.float32)[:, None]
    session = onnxruntime.InferenceSession(client.export(tmp_path / "a", "onnx") / "model.onnx")
    (scores,) = session.run(None, {"x": x})
    np.testing.assert_allclose(scores[:, 0], client.predict(x), atol=1e-4)
    with pytest.raises(duotone.ConfigError, match="numbers, which have no probabilities"):
        client.predict_proba(x)


def test_a_folder_from_elsewhere_names_no_code_that_then_runs(fedbn, tmp_path, monkeypatch):
    """A folder can hold a module beside the file that names it; importing it would run it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    fedbn.client("0").export(tmp_path / "given")
    shutil.copytree(fedbn.path, tmp_path / "run")
    for place in (tmp_path / "given", tmp_path / "run"):
        (place / "net.py").write_text("raise SystemExit('it ran')")
    facts = json.loads((tmp_path / "given" / "client.json").read_text())
    (tmp_path / "given" / "client.json").write_text(json.dumps({**facts, "model": "given.net:Net"}))
    config = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    for change in ({"model": "run.net:Net"}, {"method": {"name": "run.net:Method"}}):
        (tmp_path / "run" / "config.toml").write_text(write_toml(config | change))
        run = duotone.load_run(tmp_path / "run")
        assert run.summary
        assert identity(run.config)["method.name"], "what is only compared loads nothing"
        for use in (lambda run=run: run.client("0"), lambda run=run: run.join(np.zeros((2, 8, 8)))):
            with pytest.raises(duotone.ConfigError, match=r"run\.net:.*allow_code\(\)"):
                use()
    with pytest.raises(duotone.ConfigError, match=r"given\.net:.*allow_code\(\)"):
        duotone.load_client(tmp_path / "given")
    (tmp_path / "c.toml").write_text('data = "mini-digits"\nmodel = "run.net:Net"\n')
    with pytest.raises(duotone.ConfigError, match=r"run\.net:.*allow_code\(\)"):
        duotone.run(tmp_path / "c.toml", method="fedavg")


def test_wrong_exports_are_one_clear_line(fedbn, tmp_path):
    client = fedbn.client("0")
    client.export(tmp_path / "a")
    with pytest.raises(duotone.ConfigError, match="exists already and is not empty"):
        client.export(tmp_path / "a")
    with pytest.raises(duotone.ConfigError, match=r"'torch' or 'onnx'\. Got 'tflite'"):
        client.export(tmp_path / "b", "tflite")
    with pytest.raises(duotone.RunError, match=r"lacks client\.json"):
        duotone.load_client(tmp_path)
    weights = tmp_path / "a" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\0")
    with pytest.raises(duotone.RunError, match="its checksum differs"):
        duotone.load_client(tmp_path / "a")


# -- the folder alone


@pytest.fixture(scope="module")
def fedbn(tmp_path_factory):
    return made("fedbn", tmp_path_factory.mktemp("fedbn") / "run")


@pytest.fixture
def no_data(monkeypatch):
    """Take all data away: a machine on which nothing was trained."""

    def gone(name, **_):
        raise duotone.DataError(f"{name} is not here.")

    monkeypatch.setattr("duotone.runs.draft.load_dataset", gone)


def test_two_clients_are_used_in_turn(fedbn):
    x, _ = samples(population_of(fedbn), "0")
    a, b = fedbn.client("0"), fedbn.client("1")
    first = a.scores(x)
    assert not torch.equal(first, b.scores(x))
    assert torch.equal(first, a.scores(x))
    models = a.model(), b.model()
    outputs = [model(a.inputs(x)).double() for model in models]
    assert torch.equal(outputs[0], first)
    assert torch.equal(outputs[1], b.scores(x))


def test_a_copied_folder_predicts_where_there_is_no_data(any_run, tmp_path, request):
    x, _ = samples(population_of(any_run), "0")
    wanted = {name: any_run.client(name).scores(x) for name in ("0", "3")}
    request.getfixturevalue("no_data")
    copy = duotone.load_run(shutil.copytree(any_run.path, tmp_path / "elsewhere"))
    before = checksums(copy.path)
    for name, scores in wanted.items():
        assert torch.equal(copy.client(name).scores(x), scores)
    copy.client("0").encode(x)
    assert checksums(copy.path) == before


def test_fedavg_keeps_no_tensor_and_ifca_none_of_its_groups(tmp_path):
    for name in ("fedavg", "ifca"):
        run = made(name, tmp_path / name, rounds=1)
        assert not list((run.path / "served").rglob("*.safetensors"))


def test_the_selected_round_is_another_model(tmp_path):
    for seed in range(5):
        run = made("fedbn", tmp_path / str(seed), seed=seed, rounds=4)
        if run.summary["selected_round"] < 4:
            break
    last, selected = run.client("0"), run.client("0", round="selected")
    assert (last.facts.round, selected.facts.round) == (4, run.summary["selected_round"])
    assert not torch.equal(last.params["head.weight"], selected.params["head.weight"])
    with pytest.raises(duotone.ConfigError, match=r"'last' or 'selected'\. Got 'best'"):
        run.client("0", round="best")


def test_a_run_from_before_is_served_from_its_data_or_says_so(fedbn, tmp_path, request):
    old = shutil.copytree(fedbn.path, tmp_path / "old")
    shutil.rmtree(old / "served")
    x, y = samples(population_of(fedbn), "0")
    run = duotone.load_run(old)
    assert torch.equal(run.client("0").scores(x), fedbn.client("0").scores(x))
    run.join(x, y, name="new", keep=True)
    assert torch.equal(run.client("0").scores(x), fedbn.client("0").scores(x))
    request.getfixturevalue("no_data")
    assert duotone.load_run(old).client("new").predict(x).shape == y.shape
    with pytest.raises(duotone.RunError, match="does not hold this client's model, and its data"):
        duotone.load_run(old).client("0")


def test_models_beyond_the_limit_are_said_to_be_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr("duotone.runs.served.MOST_BYTES", 4_000)
    lines = []

    class Listener:
        def run_started(self, folder, plan, round): ...

        def round_committed(self, progress): ...

        def message(self, line):
            lines.append(line)

    run = made("fedbn", tmp_path / "run", observers=[Listener()])
    (line,) = [line for line in lines if "are kept" in line]
    assert "of 4 clients after round 3" in line
    assert_as_scored(run, "last")  # the data is at hand


def test_a_joined_client_is_kept_on_request_only(fedbn, tmp_path):
    run = duotone.load_run(shutil.copytree(fedbn.path, tmp_path / "run"))
    x, y = samples(population_of(run), "0", "train")
    loose = run.join(x, y, name="new")
    with pytest.raises(duotone.UnknownNameError, match="has no client 'new'"):
        run.client("new")
    kept = run.join(x, y, name="new", keep=True)
    assert_equal(kept.params, loose.params)
    assert_equal(duotone.load_run(run.path).client("new").params, kept.params)
    for name in ("new", "0", "3"):
        with pytest.raises(duotone.ConfigError, match="already; choose another name"):
            run.join(x, y, name=name, keep=True)
    with pytest.raises(duotone.ConfigError, match=r"give labels \(few-shot\); give their labels"):
        run.join(x, name="another")
    with pytest.raises(duotone.DataError, match="Unknown label 77"):
        run.join(x, np.full(len(x), 77), name="another")


def test_what_cannot_be_used_is_one_clear_line(fedbn, tmp_path):
    with pytest.raises(duotone.UnknownNameError, match="has no client '00'"):
        fedbn.client("00")
    stopped = duotone.load_run(shutil.copytree(fedbn.path, tmp_path / "stopped"))
    stopped.folder.update_facts(status="interrupted")
    with pytest.raises(duotone.RunError, match="is interrupted; finish it first"):
        stopped.client("0")
    broken = duotone.load_run(shutil.copytree(fedbn.path, tmp_path / "broken"))
    file = broken.path / "served" / "last" / "0.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"\0")
    with pytest.raises(duotone.CheckpointError, match="its checksum differs"):
        broken.client("0")
    (broken.path / "served" / "index.json").write_text("{")
    with pytest.raises(duotone.CheckpointError, match=r"index\.json is damaged"):
        duotone.load_run(broken.path).client("1")


def test_what_was_made_in_python_is_given_again(tmp_path, request):
    class Mine(METHODS.load("fedper")):
        name = "mine"

    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    run = made(Mine, tmp_path / "run", model=module)
    x, _ = samples(
        plan_run(
            run.config.model_dump() | {"method": {"name": Mine}, "model": None}, model=module
        ).population,
        "0",
    )
    scores = run.client("0").scores(x)
    with pytest.raises(duotone.RunError, match=r"method made in Python.*load_run\(.*method=…\)"):
        duotone.load_run(run.path).client("0")
    with pytest.raises(duotone.RunError, match=r"model made in Python.*load_run\(.*model=…\)"):
        duotone.load_run(run.path, method=Mine).client("0")
    request.getfixturevalue("no_data")
    again = duotone.load_run(run.path, method=Mine, model=module).client("0")
    assert torch.equal(again.scores(x), scores)
    out = again.export(tmp_path / "out")
    with pytest.raises(duotone.RunError, match=r"load_client\(.*method=…\)"):
        duotone.load_client(out)
    loaded = duotone.load_client(out, method=Mine, model=module)
    assert torch.equal(loaded.scores(x), scores)


def test_a_newcomer_that_joins_is_adjusted_as_members_voted(tmp_path, monkeypatch):
    # One standard error less than nothing: whatever was tried wins the vote.
    monkeypatch.setattr("duotone.federation.election._CLEAR", -100.0)
    run = made("fedavg", tmp_path / "run", personalise="norm", rounds=1)
    assert run.summary["election"]["way"] == "norm"
    population = population_of(run)
    (newcomer,) = population.partition.newcomers
    again = run.join(samples(population, newcomer, "train")[0], name=newcomer)
    assert_equal(run.client(newcomer).params, again.params)
    assert not torch.equal(
        again.params["norm1.running_mean"], run.client("0").params["norm1.running_mean"]
    )
