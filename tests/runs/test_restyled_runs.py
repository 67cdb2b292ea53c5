"""Samples of one client as another would have them, from a finished run."""

from __future__ import annotations

import numpy as np
import pytest

import duotone
from duotone.errors import ConfigError, UnknownNameError
from duotone.runs.restyle import pair_sheet

pytestmark = pytest.mark.usefixtures("brief_measures_throughout")

SETTINGS = {
    "data": "mini-digits",
    "style": "padpaf4",
    "partition": {"scheme": "iid", "clients": 5, "newcomers": 1, "max_train": 60, "max_test": 30},
    "rounds": 1,
    "latents": 0,
    "curve": (),
    "backend": "serial",
}
METHODS = {
    "padpaf": {"name": "padpaf"},
    "without a lens": {"name": "padpaf", "lens": "none"},
    "conditional": {"name": "padpaf", "variant": "paper", "conditional": True, "epochs": 1},
    "feddva": {"name": "feddva", "shared_dim": 2, "local_dim": 2, "newcomer_epochs": 1},
    "content-style": {"name": "content-style", "style_epochs": 1},
}


@pytest.fixture(scope="module")
def run_of(tmp_path_factory):
    found = {}

    def get(name):
        if name not in found:
            out = tmp_path_factory.mktemp("runs") / "run"
            found[name] = duotone.run({**SETTINGS, "method": METHODS[name]}, out=out)
        return found[name]

    return get


@pytest.mark.parametrize("name", METHODS)
def test_every_method_that_can_re_styles_members_and_newcomers(run_of, name):
    run = run_of(name)
    files = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
    for source, target in (("0", "1"), ("0", "4"), ("4", "2")):
        found = duotone.restyle(run, source=source, target=target, count=3)
        assert found.x.shape == found.original.shape == (3, 8, 8, 1)
        assert found.x.dtype == np.uint8
        assert found.y.shape == (3,)
    again = run.restyle(found.original, source="4", target="2")
    np.testing.assert_array_equal(again, found.x)
    after = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
    assert after == files, "nothing in the run's folder changes"


def test_the_seed_chooses_among_the_targets_styles(run_of):
    first = run_of("padpaf").restyle(source="0", target="1")
    assert not np.array_equal(first, run_of("padpaf").restyle(source="0", target="1", seed=1))


def test_images_may_come_without_their_one_channel(run_of):
    images = duotone.restyle(run_of("padpaf"), source="0", target="1", count=2).original
    flat = run_of("padpaf").restyle(images[..., 0], source="0", target="1")
    np.testing.assert_array_equal(flat, run_of("padpaf").restyle(images, source="0", target="1"))


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"source": "9"}, UnknownNameError, "has no client '9'"),
        ({"target": "9"}, UnknownNameError, "has no client '9'"),
        ({"count": 0}, ConfigError, "0 samples were asked for"),
        ({"images": np.zeros((2, 9, 8), np.uint8)}, ConfigError, r"here \(…, 8, 8, 1\)"),
        ({"images": np.zeros((2, 8, 8))}, ConfigError, "given as uint8.* Got float64"),
        ({"images": np.zeros((0, 8, 8), np.uint8)}, ConfigError, r"Got uint8 \(0, 8, 8\)"),
    ],
)
def test_what_cannot_be_re_styled_is_refused_in_one_line(run_of, wrong, error, message):
    with pytest.raises(error, match=message) as raised:
        duotone.restyle(run_of("padpaf"), **{"source": "0", "target": "1", **wrong})
    assert "\n" not in str(raised.value)


def test_a_method_that_cannot_re_style_says_which_can(tmp_path):
    run = duotone.run({**SETTINGS, "method": "fedavg"}, out=tmp_path / "run")
    with pytest.raises(ConfigError, match=r"'fedavg' of .* cannot re-style .*feddva.*padpaf"):
        run.restyle(source="0", target="1")
    with pytest.raises(ConfigError, match="cannot re-style"):
        run.anonymise(client="0", reference="1")


def test_what_anonymised_samples_give_away_is_measured_on_test_samples(run_of, monkeypatch):
    monkeypatch.setattr("duotone.measures.attackers._STEPS", 20)
    monkeypatch.setattr("duotone.measures.judges._STEPS", 20)
    found = run_of("padpaf").anonymise(client="0", reference="2")
    assert not np.array_equal(found.x, run_of("padpaf").restyle(source="0", target="2")), (
        "restyle keeps the strokes of the originals"
    )
    exposed = found.exposure
    assert (exposed.source, exposed.target, exposed.clients) == ("0", "2", 5)
    assert exposed.samples == 30
    assert exposed.others == 4 * 30
    assert "30 held-out samples of client 0, drawn as client 2 would have them" in exposed.statement
    assert run_of("padpaf").anonymise(client="0", reference="2").exposure == exposed


def test_a_client_is_not_anonymised_as_itself(run_of):
    with pytest.raises(ConfigError, match="in its own style hide nothing; choose another client"):
        run_of("padpaf").anonymise(client="0", reference="0")


def test_a_run_that_draws_leaves_a_sheet_of_its_last_evaluation(run_of):
    assert (run_of("padpaf").path / "samples.png").read_bytes().startswith(b"\x89PNG")
    assert not (run_of("content-style").path / "samples.png").exists()


def test_pairs_stand_above_each_other_in_rows_of_ten():
    original = np.arange(12, dtype=np.uint8).reshape(12, 1, 1, 1)
    page = pair_sheet(original, original + 100)[..., 0, 0, 0]
    assert page.shape == (4, 10)
    assert page[0].tolist() == [*range(10)]
    assert page[1].tolist() == [*range(100, 110)]
    assert page[2].tolist() == [10, 11, *[255] * 8]
    assert page[3].tolist() == [110, 111, *[255] * 8]
