from __future__ import annotations

import numpy as np
import pytest
import torch
from federations import server_of

import duotone
from duotone.errors import ConfigError, RunError

pytestmark = pytest.mark.usefixtures("brief_measures_throughout")

SETTINGS = {
    "data": "planted",
    "model": "cnn",
    "partition": {
        "scheme": "dirichlet",
        "alpha": 0.1,
        "clients": 5,
        "newcomers": 1,
        "max_train": 60,
        "max_test": 30,
    },
    "rounds": 3,
    "curve": (),
    "latents": 30,
    "backend": "serial",
}


@pytest.fixture(scope="module")
def fedavg(tmp_path_factory):
    return duotone.run(SETTINGS, method="fedavg", out=tmp_path_factory.mktemp("runs") / "fedavg")


def test_an_aligned_run_is_the_fedcd_run_that_would_have_been(fedavg, tmp_path):
    read = duotone.align(fedavg, rank=2, out=tmp_path / "read")
    trained = duotone.run(SETTINGS, method={"name": "fedcd", "rank": 2}, out=tmp_path / "trained")
    assert read.status == "finished"
    name = "head.basis"
    ours, theirs = (server_of(item).shared[name] for item in (read, trained))
    cosines = torch.linalg.svdvals(ours[:, :2].T @ theirs[:, :2])
    assert cosines.min() > 0.999
    accuracy = [item.summary["scores"]["member.accuracy"] for item in (fedavg, read, trained)]
    assert accuracy[0] == accuracy[1] == accuracy[2]


def test_the_model_stays_and_codes_are_written(fedavg, tmp_path):
    before = server_of(fedavg).shared
    read = duotone.align(fedavg.path, layer="fc1", rank=2, out=tmp_path / "read")
    latents = read.latents
    assert latents["local"].shape[1] == 2
    assert np.isfinite(latents["shared"]).all()
    assert "probe.client_from_local" in read.summary["scores"]
    after = server_of(fedavg).shared
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert read.folder.facts()["aligned_from"] == str(fedavg.path)
    assert read.report().exists()


def test_a_run_of_fedcd_can_be_read_at_another_layer(tmp_path):
    settings = {**SETTINGS, "model": "thesis-cnn", "rounds": 2}
    method = {"name": "fedcd", "layer": "fc1", "complement": "bottleneck"}
    run = duotone.run(settings, method=method, out=tmp_path / "fc1")
    read = duotone.align(run, layer="fc2")
    assert read.latents["shared"].shape[1] == 64
    before, after = (item.summary["scores"]["member.loss"]["value"] for item in (run, read))
    assert before == pytest.approx(after, abs=1e-5)


def test_by_default_the_reading_lies_beside_the_run(fedavg):
    read = duotone.align(fedavg)
    assert read.path == fedavg.path.with_name("fedavg-aligned")
    with pytest.raises(RunError, match="never overwrites"):
        duotone.align(fedavg)


def test_alike_clients_are_said_to_be_so(tmp_path):
    alike = {"scheme": "iid", "clients": 6, "max_train": 60, "max_test": 30}
    settings = {**SETTINGS, "partition": alike}
    fedavg = duotone.run(settings, method="fedavg", out=tmp_path / "fedavg")
    with pytest.warns(UserWarning, match="Nothing that tells clients apart was found"):
        read = duotone.align(fedavg, out=tmp_path / "read")
    assert read.latents["local"].shape[1] == 0
    assert not any("_from_local" in name for name in read.summary["scores"])
    (line,) = read.summary["warnings"]
    page = read.report().read_text()
    assert line in page
    assert "This run has no local code" in page


def test_a_layer_that_does_not_exist_is_an_error_and_leaves_nothing(fedavg, tmp_path):
    with pytest.raises(ConfigError, match="fc7"):
        duotone.align(fedavg, layer="fc7", out=tmp_path / "read")
    assert not (tmp_path / "read").exists()


def test_models_with_local_parts_are_not_read(tmp_path):
    run = duotone.run(SETTINGS, method="fedper", out=tmp_path / "fedper")
    with pytest.raises(RunError, match="change the model before they use it"):
        duotone.align(run)


@pytest.mark.parametrize("method", ["fedavg-ft", "ditto"])
def test_models_that_clients_change_are_not_read(method, tmp_path):
    short = {**SETTINGS, "rounds": 1, "latents": 0}
    run = duotone.run(short, method=method, out=tmp_path / method)
    with pytest.raises(RunError, match="Train fedavg"):
        duotone.align(run)


def test_a_run_that_is_not_finished_is_not_read(fedavg, tmp_path):
    fedavg.folder.update_facts(status="interrupted")
    try:
        with pytest.raises(RunError, match="duotone resume"):
            duotone.align(fedavg, out=tmp_path / "read")
    finally:
        fedavg.folder.update_facts(status="finished")


def test_the_scores_of_the_last_layer_can_be_read_too(fedavg, tmp_path):
    read = duotone.align(fedavg, layer="head", rank=2, out=tmp_path / "read")
    assert read.latents["local"].shape[1] == 2
    accuracy = [item.summary["scores"]["member.accuracy"] for item in (fedavg, read)]
    assert accuracy[0] == accuracy[1]
