"""Samples of a client's model, drawn from a finished run."""

from __future__ import annotations

import numpy as np
import pytest

import duotone
from duotone.errors import ConfigError, RunError, UnknownNameError
from duotone.methods.feddva.feddva import FedDVA
from duotone.runs.generate import contact_sheet

pytestmark = pytest.mark.usefixtures("brief_measures_throughout")

SETTINGS = {
    "data": "mini-digits",
    "style": "marks",
    "partition": {"scheme": "pathological", "clients": 5, "newcomers": 1, "classes_per_client": 4},
    "rounds": 1,
    "latents": 0,
    "curve": (),
    "backend": "serial",
}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    method = {"name": "feddva", "shared_dim": 2, "local_dim": 2, "newcomer_epochs": 1}
    return duotone.run({**SETTINGS, "method": method}, out=tmp_path_factory.mktemp("r") / "run")


def test_samples_have_the_form_of_the_data_and_follow_the_seed(drawn):
    first = drawn.generate("0", count=3)
    assert first.shape == (3, 8, 8, 1)
    assert first.dtype == np.uint8
    np.testing.assert_array_equal(first, drawn.generate("0", count=3))
    assert not np.array_equal(first, drawn.generate("0", count=3, seed=1))
    assert not np.array_equal(first, drawn.generate("1", count=3)), "clients draw in their manner"


def test_drawing_leaves_the_run_as_it_is(drawn):
    files = sorted(path for path in drawn.path.rglob("*") if path.is_file())
    before = {path: path.read_bytes() for path in files}
    drawn.generate("0")
    assert sorted(path for path in drawn.path.rglob("*") if path.is_file()) == files
    assert {path: path.read_bytes() for path in files} == before


def test_members_and_newcomers_are_asked_for_labels_they_never_had(drawn):
    config = drawn.config.model_dump()
    population = duotone.runs.plan_population(
        {k: config[k] for k in ("data", "style", "partition")}
    )
    for client in ("0", "4"):
        had = set(population.data(client).labels.tolist())
        new = min(set(range(10)) - had)
        assert duotone.generate(drawn, client, label=new, count=2).is_seen is False
        assert duotone.generate(drawn, client, label=min(had), count=2).is_seen is True
        assert duotone.generate(drawn, client, count=2).is_seen is None


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"client": "9"}, UnknownNameError, r"has no client '9'.* The first of 5 are: 0, 1, 2"),
        ({"label": 10}, ConfigError, "There is no label 10; the labels are 0 to 9"),
        ({"count": 0}, ConfigError, "0 samples were asked for"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_line(drawn, wrong, error, message):
    with pytest.raises(error, match=message) as raised:
        duotone.generate(drawn, **{"client": "0", **wrong})
    assert "\n" not in str(raised.value)


def test_a_client_whose_name_is_nearly_right_is_suggested(tmp_path):
    settings = {
        **SETTINGS,
        "data": "planted",
        "style": "none",
        "partition": {"scheme": "natural", "max_train": 20},
        "method": {"name": "feddva", "shared_dim": 2, "local_dim": 2},
    }
    run = duotone.run(settings, out=tmp_path / "run")
    with pytest.raises(UnknownNameError, match=r"Did you mean 'c1"):
        run.generate("c1x")


def test_a_method_that_cannot_draw_says_which_can(tmp_path):
    run = duotone.run({**SETTINGS, "method": "fedavg"}, out=tmp_path / "run")
    with pytest.raises(ConfigError, match=r"'fedavg' of .* cannot draw samples; .*feddva"):
        run.generate("0")


def test_a_label_is_refused_where_the_model_cannot_be_told(drawn, monkeypatch):
    monkeypatch.setattr(FedDVA, "draws_labels", False)
    with pytest.raises(ConfigError, match=r"Label 3 was asked for, but .* cannot be told one"):
        drawn.generate("0", label=3)


def test_an_unfinished_run_is_refused(drawn, monkeypatch):
    monkeypatch.setattr(duotone.Run, "status", "interrupted")
    with pytest.raises(RunError, match="is interrupted; finish it first: duotone resume"):
        drawn.generate("0")


def test_samples_are_laid_out_in_rows_of_ten():
    images = np.zeros((12, 8, 8, 1), np.uint8)
    page = contact_sheet(images)
    assert page.shape == (2, 10, 8, 8, 1)
    assert page[1, 1].max() == 0
    assert page[1, 2].min() == 255
    assert contact_sheet(images[:3]).shape == (1, 3, 8, 8, 1)
