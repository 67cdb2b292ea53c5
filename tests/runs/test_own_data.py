"""Data that people have, from the file or object to the finished run."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from report_pages import figures_of
from torch.utils.data import TensorDataset

import duotone
from duotone.data import save_mapped
from duotone.errors import ConfigError, DataError, PartitionError, RunError
from duotone.runs.draft import plan_population
from duotone.runs.plan import plan_run

pytestmark = pytest.mark.usefixtures("brief_measures_throughout")

QUICK = {
    "method": {"name": "fedavg", "epochs": 1},
    "rounds": 1,
    "latents": 5,
    "curve": [],
    "backend": "serial",
}
COLUMNS = {"label": "sick", "client": "hospital"}


def patients(count=240, unknown="no"):
    """Rows of three hospitals; the last has a job that nobody else has, on request."""
    rng = np.random.default_rng(0)
    hospital = np.array(["east", "north", "south"])[np.arange(count) % 3]
    job = rng.choice(["clerk", "nurse"], count)
    if unknown == "yes":
        job[hospital == "south"] = "pilot"
    age = rng.normal(50, 10, count).round(1)
    return pl.DataFrame(
        {
            "hospital": hospital,
            "age": [None if n % 10 == 0 else float(value) for n, value in enumerate(age)],
            "job": job,
            "sick": np.where(age > 50, "yes", "no"),
        }
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    place = tmp_path_factory.mktemp("own")
    patients().write_csv(place / "patients.csv")
    return duotone.run(QUICK, data=place / "patients.csv", table=COLUMNS, out=place / "run")


def test_a_csv_file_becomes_a_run_that_knows_its_classes_and_its_features(finished):
    assert finished.status == "finished"
    assert finished.config.partition["scheme"] == "natural"
    assert set(finished.metrics["client"]) - {""} == {"east", "north", "south"}
    assert finished.folder.class_names() == ("no", "yes")
    preparation = finished.folder.preparation()
    assert preparation.features == ("age", "job=clerk", "job=nurse")
    raw = (finished.path / "run.json").read_text()
    assert json.loads(raw)["preparation"] == preparation.as_json()


def test_the_report_calls_classes_by_their_names(finished, tmp_path):
    page = finished.report(tmp_path / "r.html").read_text(encoding="utf-8")
    figure = figures_of(page[page.index('id="partition"') :])[0]
    assert figure["layout"]["xaxis"]["ticktext"] == ["no", "yes"]


def test_new_rows_are_prepared_as_in_training(finished):
    values = {**finished.config.model_dump()}
    population = plan_population(values)
    member = population.partition["north"].train[:5]
    dataset = population.dataset
    # The same rows, found again in the table by what the preparation makes of them.
    features = finished.folder.preparation().apply(patients())
    known = {row.tobytes() for row in features}
    assert all(row.tobytes() in known for row in dataset.x[member])


def test_new_rows_of_a_table_are_predicted(finished, tmp_path):
    rows = patients().head(7)
    features = finished.folder.preparation().apply(rows)
    client = finished.client("north")
    expected = client.predict_proba(features)
    assert np.array_equal(client.predict_proba(rows), expected)
    rows.write_csv(tmp_path / "new.csv")
    assert np.array_equal(client.predict_proba(tmp_path / "new.csv"), expected)
    client.export(tmp_path / "exported")
    again = duotone.load_client(tmp_path / "exported")
    assert np.array_equal(again.predict_proba(rows), expected)


def test_a_table_without_a_column_of_the_run_is_refused(finished):
    with pytest.raises(duotone.DataError, match="no column 'age'"):
        finished.client("north").predict(patients().drop("age"))


def test_every_frame_gives_the_run_that_the_file_gives(finished, tmp_path):
    for number, frame in enumerate((patients(), pd.DataFrame(patients().to_dict(as_series=False)))):
        run = duotone.run(QUICK, data=frame, table=COLUMNS, out=tmp_path / str(number))
        was, now = finished.folder.facts(), run.folder.facts()
        assert now["data_fingerprint"] == was["data_fingerprint"]
        assert run.summary["scores"] == finished.summary["scores"]
        assert run.config.data == "object:frame"


def test_the_configuration_repeats_the_run_from_another_folder(finished, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    again = duotone.run(finished.path / "config.toml", out=tmp_path / "again")
    assert again.summary["scores"] == finished.summary["scores"]


def test_a_relative_path_in_a_configuration_is_kept_in_full(tmp_path, monkeypatch):
    patients().write_csv(tmp_path / "patients.csv")
    monkeypatch.chdir(tmp_path)
    plan = plan_run({**QUICK, "data": "patients.csv", "table": COLUMNS})
    assert plan.config.data == str(tmp_path / "patients.csv")
    assert plan.config.table == COLUMNS


def test_what_is_learnt_of_features_is_learnt_from_members_training_rows_alone():
    frame = patients()
    values = {
        **QUICK,
        "table": COLUMNS,
        "partition": {"scheme": "natural", "newcomers": ["south"]},
    }
    plan = plan_run(values, data=frame)
    population = plan.population
    preparation = population.dataset.preparation
    kept = {
        (client, split): getattr(population.partition[client], split)
        for client in population.partition
        for split in ("train", "val", "test")
    }
    trained = np.concatenate([kept["east", "train"], kept["north", "train"]])
    ages = population.dataset.x[trained, 0].astype(np.float64) * preparation.columns[0].scale
    # Gaps are 0 and do not count; what is left has mean 0 on these rows, and on no others.
    present = ages[ages != 0]
    assert abs(present.mean()) < 1e-4
    np.testing.assert_allclose(present.std(), preparation.columns[0].scale, rtol=1e-6)
    assert abs(population.dataset.x[:, 0].mean()) > 1e-4


def test_rounds_driven_by_hand_have_the_same_features(finished):
    dataset = duotone.load_dataset(finished.config.data, table=COLUMNS)
    partition = duotone.build_partition(dataset, "natural", {}, seed=0)
    population = duotone.Population(dataset, partition)
    fingerprint = finished.folder.facts()["data_fingerprint"]
    assert population.dataset.fingerprint() == fingerprint


def test_a_category_that_only_newcomers_have_is_said(tmp_path):
    values = {**QUICK, "partition": {"scheme": "natural", "newcomers": ["south"]}}
    with pytest.warns(UserWarning, match=r"no training row of a member .*job \(80 rows\)"):
        run = duotone.run(values, data=patients(unknown="yes"), table=COLUMNS, out=tmp_path / "run")
    assert run.folder.preparation().unknown == {"job": 80}
    assert "job (80 rows)" in (run.path / "log.txt").read_text()


def test_a_stopped_run_on_a_table_is_resumed_and_other_rows_are_noticed(tmp_path):
    values = {**QUICK, "rounds": 2, "table": COLUMNS}
    plan = plan_run(values, data=patients())
    folder = duotone.runs.prepare(plan, tmp_path / "run")
    with pytest.raises(RunError, match=r"data of .* is no longer what the run began with"):
        duotone.resume(folder.path, data=patients().with_columns(pl.col("age") * 2 + 1))
    assert duotone.resume(folder.path, data=patients()).status == "finished"


def test_torch_and_float_images_and_mapped_folders_run(tmp_path):
    x = torch.rand(120, 1, 8, 8)
    images = TensorDataset(x, torch.arange(120) % 3)
    settings = {**QUICK, "partition": {"scheme": "iid", "clients": 3}}
    run = duotone.run(settings, data=images, out=tmp_path / "torch")
    assert run.config.model == "cnn-bn"
    digits = duotone.load_dataset("mini-digits")
    save_mapped(digits, tmp_path / "digits")
    mapped = duotone.run(settings, data=tmp_path / "digits", out=tmp_path / "mapped")
    named = duotone.run(settings, data="mini-digits", out=tmp_path / "named")
    assert mapped.summary["scores"] == named.summary["scores"]


def test_float_images_reach_the_network_as_they_are():
    x = np.random.default_rng(0).uniform(size=(40, 4, 4)).astype(np.float32)
    y = np.arange(40) % 2
    arrays = {"x_train": x[:30], "y_train": y[:30], "x_test": x[30:], "y_test": y[30:]}
    plan = plan_run({**QUICK, "partition": {"scheme": "iid", "clients": 1}}, data=arrays)
    data = plan.population.data("0", "train")
    assert data.x.shape[1:] == (1, 4, 4)
    rows = plan.population.partition["0"].train
    np.testing.assert_array_equal(data.x[:, 0].numpy(), x[rows])
    with pytest.raises(DataError, match="images of 8 bits, but 'arrays' is images with more"):
        plan_run(
            {**QUICK, "style": "marks", "partition": {"scheme": "iid", "clients": 1}}, data=arrays
        )


def test_data_without_names_says_so(tmp_path):
    plan = plan_run({**QUICK, "data": "mini-digits", "partition": {"scheme": "iid", "clients": 3}})
    folder = duotone.runs.prepare(plan, tmp_path / "run")
    assert folder.class_names() is None
    assert folder.preparation() is None
    assert "table" not in (folder.path / "config.toml").read_text()


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"table": {"label": "ill"}}, DataError, "no column 'ill'"),
        ({"table": {"lable": "sick"}}, ConfigError, r"no setting table\.lable"),
        ({"table": {"label": "sick"}, "partition": "natural"}, PartitionError, r"table\.client"),
        (
            {"table": COLUMNS, "partition": {"scheme": "natural", "min_train": 500}},
            PartitionError,
            "3 of 3 clients have fewer than 500 train samples",
        ),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_written(
    changes, error, message, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        duotone.run({**QUICK, **changes}, data=patients())
    assert list(tmp_path.iterdir()) == []


def test_a_client_of_one_row_is_named():
    frame = pl.concat(
        [
            patients(),
            pl.DataFrame({"hospital": ["west"], "age": [3.0], "job": ["clerk"], "sick": ["no"]}),
        ]
    )
    with pytest.raises(PartitionError, match=r"smallest, 'west', has 1.*skip_small"):
        plan_run({**QUICK, "table": COLUMNS}, data=frame)
