"""What the page is told about a run."""

from __future__ import annotations

import base64
import io
import json

import numpy as np
import pytest
import torch
from explored_pages import TOKEN, Page
from PIL import Image

import duotone
from duotone.explorer.asked_of import AskedSample
from duotone.explorer.map_view import _places
from duotone.explorer.moving import typical_code
from duotone.measures.sheet import pixels
from duotone.types import Latents


def contents(path):
    return {file: file.stat().st_mtime_ns for file in path.rglob("*")}


def as_pixels(uri):
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))))


def test_about_says_who_the_clients_are_and_what_can_be_shown(page):
    found = page.ask("about")
    assert [(c["name"], c["role"]) for c in found["clients"]] == [
        ("0", "member"),
        ("1", "member"),
        ("2", "newcomer"),
    ]
    assert found["can"] == {
        "draw": None,
        "labels": False,
        "exchange": False,
        "concepts": False,
        "shares": False,
        "maps": True,
    }
    assert found["missing"] == []


def test_looking_changes_nothing_in_the_run(page, fedbn):
    before = contents(fedbn.path)
    for view in ("about", "federation", "thumbnails", "map-colours", "correctness", "training"):
        page.ask(view)
    page.ask("client", client="0")
    page.ask("grid", client="0")
    page.ask("sample", client="0", sample=1)
    page.ask("why", client="0", sample=1, against="1")
    page.ask("policy", client="0", amount=0.5)
    page.ask("pca", part="local")
    assert contents(fedbn.path) == before


def test_the_federation_is_its_card_and_a_map_of_clients(page, fedbn):
    found = page.ask("federation")
    assert found["card"] == json.loads(json.dumps(fedbn.card().as_json()))
    assert {one["by"] for one in found["maps"]} >= {"answers", "local codes"}
    for one in found["maps"]:
        assert set(one["places"]) == {"0", "1", "2"}


def test_a_sample_is_answered_as_the_clients_answer_it(page, fedbn):
    found = page.ask("sample", client="1", sample=3)
    x = fedbn.client("1").opened.plan.population.data("1", "test")
    image = x.x[3:4].permute(0, 2, 3, 1).numpy()
    for said in found["strip"]:
        client = fedbn.client(said["client"])
        assert said["probabilities"] == pytest.approx(client.predict_proba(image)[0], abs=1e-5)
        assert said["answer"] == client.class_names[int(client.predict(image)[0])]
    assert found["label"] == str(int(x.labels[3]))
    assert found["samples"] == 20


def test_a_sample_of_one_client_can_be_asked_of_another(page):
    own = page.ask("sample", client="1", sample=3)
    asked = page.ask("sample", client="0", of="1", sample=3)
    assert asked["picture"] == own["picture"]
    assert asked["label"] == own["label"]
    assert asked["here"].items() <= own["strip"][0].items()
    card = page.ask("why", client="0", of="1", sample=3)["card"]
    assert card["client"] == "0"
    assert card["answer"] == asked["here"]["answer"]


def test_the_card_is_that_of_explain(page, fedbn):
    found = page.ask("why", client="0", sample=2, against="1")
    expected = fedbn.client("0").explain(sample=2, against="1").as_json()
    assert found["card"]["sentences"] == list(expected["sentences"])
    assert found["card"]["difference"]["against"] == "1"
    assert found["pictures"]["sample"].startswith("data:image/png")


def test_an_own_image_is_answered_like_a_sample(page, fedbn):
    pixels = np.random.default_rng(0).integers(0, 255, (8, 8), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    name = page.upload(buffer.getvalue()).json()["upload"]
    found = page.ask("sample", client="0", upload=name)
    expected = fedbn.client("0").predict_proba(pixels[np.newaxis])[0]
    assert found["here"]["probabilities"] == pytest.approx(expected, abs=1e-5)
    assert found["label"] is None
    assert page.ask("why", client="0", upload=name)["card"]["truth"] is None


def test_the_grid_shows_what_is_wrong_and_what_is_unlike(page, fedbn):
    every = page.ask("grid", client="0")
    data = fedbn.client("0").opened.plan.population.data("0", "test")
    said = fedbn.client("0").scores_from(data.x).argmax(dim=1)
    assert every["counts"]["wrong"] == int((said != data.labels).sum())
    wrong = page.ask("grid", client="0", only="wrong")
    assert all(sample["label"] != sample["answer"] for sample in wrong["samples"])
    unlike = page.ask("grid", client="0", only="unlike")
    assert all(sample["reference"] != sample["answer"] for sample in unlike["samples"])
    assert unlike["total"] == unlike["counts"]["unlike"]
    assert page.ask("grid", client="0", start=15)["samples"][0]["sample"] == 15


def test_the_policy_slider_begins_with_the_client_as_it_is(page):
    found = page.ask("policy", client="0", amount=0, sample=1)
    assert found["before"]["probabilities"] == pytest.approx(found["after"]["probabilities"])
    assert found["effect"]["before"] == found["effect"]["after"]
    assert found["effect"]["changed"] == 0
    assert page.ask("policy", client="0", amount=1, sample=1)["after"] != found["after"]


def test_dots_lead_to_their_samples(page, fedbn):
    codes, population = fedbn.latents, fedbn.client("0").opened.plan.population
    rows = [0, 25, len(codes["client"]) - 1]
    found = page.ask("tiles", rows=",".join(map(str, rows)))["tiles"]
    for row, tile in zip(rows, found, strict=True):
        own = population.rows(tile["client"], tile["split"])
        assert own[tile["sample"]] == codes["index"][row]
        assert tile["label"] == str(codes["label"][row])
        image = population.dataset.x[codes["index"][row]]
        assert np.array_equal(as_pixels(tile["picture"])[::7, ::7], image)


def test_a_samples_place_counts_its_own_client_and_split_alone():
    codes = {
        "client": np.array(["a", "a", "b", "a", "b"]),
        "split": np.array(["train", "test", "test", "train", "test"]),
    }
    assert _places(codes).tolist() == [0, 0, 0, 1, 1]


def test_correctness_is_that_of_each_client(page, fedbn):
    values = np.array(page.ask("correctness")["values"])
    codes = fedbn.latents
    data = fedbn.client("1").opened.plan.population.data("1", "test")
    said = fedbn.client("1").scores_from(data.x).argmax(dim=1)
    own = values[(codes["client"] == "1") & (codes["split"] == "test")]
    assert own.tolist() == (said == data.labels)[: len(own)].int().tolist()


def test_maps_hold_every_kept_sample_once(page, fedbn):
    found = page.ask("pca", part="local")
    assert sorted(found["rows"]) == list(range(len(fedbn.latents["client"])))
    assert max(map(abs, found["x"])) == 1
    colours = {colour["name"]: colour for colour in page.ask("map-colours")["colours"]}
    assert colours["client"]["names"] == ["0", "1", "2"]
    assert len(colours["label"]["values"]) == len(fedbn.latents["client"])


def test_training_shows_curves_and_who_was_refused(page):
    found = page.ask("training")
    assert found["status"] == "finished"
    assert (found["round"], found["rounds"]) == (1, 1)
    assert found["figures"][0]["metric"] == "accuracy"
    assert found["refused"] == []


def test_a_finished_run_has_no_more_news(page):
    lines = page.raw(f"/{TOKEN}/api/0/follow").text
    assert "event: round" in lines
    assert lines.endswith('event: end\ndata: {"status": "finished"}\n\n')


def test_codes_are_drawn_and_moved(drawn_page):
    sliders = drawn_page.ask("sliders", client="0", sample=1)
    places = {
        part: ",".join(str(one["place"]) for one in sliders[part]) for part in ("shared", "local")
    }
    still = drawn_page.ask("drawn", client="0", sample=1)
    same = drawn_page.ask("drawn", client="0", sample=1, **places)
    apart = np.abs(as_pixels(same["picture"]).astype(int) - as_pixels(still["picture"]))
    assert apart.max() <= 1  # places are rounded for the page
    first = sliders["shared"][0]
    far = [str(first["high"]), *places["shared"].split(",")[1:]]
    moved = drawn_page.ask("drawn", client="0", sample=1, shared=",".join(far))
    assert moved["picture"] != still["picture"]
    assert moved["answer"] == still["answer"]  # it depends on the local code alone
    assert {own["client"] for own in drawn_page.ask("everybody", client="0")["clients"]} == {
        "0",
        "1",
    }
    rows = drawn_page.ask("between", client="0", other="1")["rows"]
    assert [len(row["pictures"]) for row in rows] == [9, 9]


def test_another_client_draws_the_content_with_its_own_local_code(drawn_page):
    explored = drawn_page.explored[0]
    asked = AskedSample(client="0", sample=1)
    shared = explored.client("0").encode_from(explored.inputs(asked)).shared
    local = typical_code(explored, "1", "local")
    own = drawn_page.explored[0].client("1")
    latents = Latents(shared, torch.from_numpy(local[np.newaxis]).float())
    expected = pixels(own.used(lambda network: own.method.decode(network, latents)))[0, ..., 0]
    found = drawn_page.ask("everybody", client="0", sample=1)["clients"][1]
    assert np.array_equal(as_pixels(found["picture"])[::7, ::7], expected)


def test_the_sliders_answer_is_the_clients_own(drawn_page):
    here = drawn_page.ask("sample", client="0", sample=2)["here"]
    answer = drawn_page.ask("drawn", client="0", sample=2)["answer"]
    assert answer["probabilities"] == pytest.approx(here["probabilities"], abs=1e-4)


def test_a_run_without_codes_says_so(drawn_page):
    assert not drawn_page.ask("about")["can"]["maps"]
    status, line = drawn_page.error("map-colours")
    assert status == 409
    assert "latents" in line
    assert drawn_page.ask("federation")["card"] is None


def test_a_run_without_its_data_shows_what_is_left(copied, monkeypatch):
    facts = copied.folder.facts()
    copied.folder.write_facts({**facts, "data_fingerprint": "another"})
    page = Page(copied)
    assert page.ask("about")["clients"]
    assert page.ask("federation")["card"]
    assert page.ask("thumbnails")["pictures"] == {}
    found = page.ask("samples-at-hand")
    assert not found["at_hand"]
    assert "not at hand" in found["why"]
    assert page.error("sample", client="0")[0] == 409
    assert page.ask("pca", part="local")["rows"]
    assert page.ask("tiles", rows="0")["tiles"][0]["picture"] is None


def test_a_run_that_is_deleted_is_said_to_be_gone(copied, tmp_path):
    page = Page(copied)
    page.ask("about")
    copied.path.rename(tmp_path / "elsewhere")
    status, line = page.error("about")
    assert status == 409
    assert "deleted or moved" in line


def test_an_unfinished_run_shows_its_training(copied):
    copied.folder.update_facts(status="interrupted")
    page = Page(duotone.load_run(copied.path))
    found = page.ask("about")
    assert found["status"] == "interrupted"
    assert found["clients"] == []
    assert "training" in found["missing"][0]
    assert page.ask("training")["figures"]
    status, line = page.error("client", client="0")
    assert status == 409
    assert "resume" in line
