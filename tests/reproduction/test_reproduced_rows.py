"""A row from its study to its table beside the paper's, on a small study in place of its own."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest

from duotone.errors import ConfigError, RunError
from duotone.reproduction import drawn as drawing
from duotone.reproduction import gathered, reproduce
from duotone.reproduction.gathered import gather, keep
from duotone.reproduction.reproduce import (
    default_folder,
    draw_row,
    draw_script,
    plan_row,
    script_of,
)
from duotone.reproduction.rows import row_of
from duotone.runs import Interrupted
from duotone.runs.forecast import seconds_left
from duotone.runs.study import execute_study

SMALL = {
    "title": "small",
    "seeds": [0, 1],
    "settings": {
        "data": "mini-digits",
        "model": "mlp",
        "rounds": 10,
        "evaluate_every": 1,
        "sampled": 2,
        "backend": "serial",
        "latents": 5,
        "curve": [],
        "partition": {"scheme": "iid", "clients": 4, "newcomers": 1, "max_train": 40},
        "method": {"epochs": 1},
    },
    "entries": {
        "FedVC": {"method": {"name": "fedvc", "variant": "paper"}},
        "FedBN": {"method": "fedavg"},
    },
}


@pytest.fixture(autouse=True)
def small_study(monkeypatch):
    for module in (reproduce, drawing):
        monkeypatch.setattr(module, "study_values", lambda name: SMALL)


@pytest.fixture(scope="module")
def trained_once(tmp_path_factory):
    out = tmp_path_factory.mktemp("rows") / "thesis-6-mnist"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reproduce, "study_values", lambda name: SMALL)
        execute_study(plan_row(row_of("thesis-table-6.1"), out, scale=0.2))
    return out


@pytest.fixture
def finished(trained_once, tmp_path):
    return Path(shutil.copytree(trained_once, tmp_path / "thesis-6-mnist"))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_row_ends_in_the_paper_s_table_beside_ours(finished):
    row = row_of("thesis-table-6.1")
    drawn = draw_row(row, finished)
    lines = {line[0]: line for line in drawn.lines}
    assert drawn.heads[:3] == ["method", "avg. accuracy, paper", "avg. accuracy, here"]
    assert lines["FedBN"][1] == "98.43 (0.86)"
    assert "2 seeds" in lines["FedBN"][2]
    assert lines["Ditto"][2] == "–"
    content = json.loads((finished / "thesis-6-mnist.json").read_text())
    entry = content["entries"][0]
    assert entry["settings"]["scale"] == 0.2
    assert len(entry["values"]["member.accuracy"]) == 2
    page = (finished / "thesis-table-6.1.md").read_text()
    assert "after 20 % of the rounds" in page
    assert "<table>" in (finished / "thesis-table-6.1.html").read_text()
    clients = (finished / "thesis-6-mnist.csv").read_text().splitlines()
    # entries × seeds × clients × (one metric in the first round, three in the last)
    assert len(clients) == 1 + 2 * 2 * 4 * (1 + 3)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_everybody_s_mean_is_that_of_all_clients(finished):
    values = gather(finished)["entries"][1]["values"]
    for seed in (0, 1):
        member, newcomer = (values[f"{role}.accuracy"][seed] for role in ("member", "newcomer"))
        mean = (3 * member + newcomer) / 4
        assert values["all.accuracy"][seed] == pytest.approx(mean, abs=1e-5)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_curves_and_maps_are_drawn(finished):
    for key in ("thesis-fig-6.9", "thesis-fig-6.7"):
        drawn = draw_row(row_of(key), finished)
        assert finished / f"{key}.png" in drawn.files


def test_who_holds_what_is_drawn_without_a_run(tmp_path):
    drawn = draw_row(row_of("thesis-fig-6.5"), tmp_path / "out")
    assert [path.name for path in drawn.files] == ["thesis-fig-6.5.png"]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_paused_row_goes_on_and_needs_less_time(tmp_path):
    plan = plan_row(row_of("thesis-table-6.1"), tmp_path / "out", scale=0.2)
    before = seconds_left(plan)
    assert before > 0

    class Stop:
        def run_started(self, folder, plan, round):
            self.method = plan.method.name

        def round_committed(self, progress):
            if self.method == "fedavg" and progress.round == 1:
                signal.raise_signal(signal.SIGINT)

        def message(self, line):
            pass

    with pytest.raises(Interrupted):
        execute_study(plan, [Stop()])
    assert (tmp_path / "out" / "fedbn" / "seed0" / "run.json").exists()
    execute_study(plan)
    assert seconds_left(plan) == 0


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_finished_study_is_kept_for_the_page(finished, tmp_path, monkeypatch):
    (tmp_path / "docs" / "results").mkdir(parents=True)
    path = keep(finished, tmp_path)
    assert path == tmp_path / "docs" / "results" / "reproduced" / "thesis-6-mnist.json"
    assert path.with_suffix(".csv").exists()
    with pytest.raises(RunError, match="not the folder of a study of the list"):
        gathered.keep(tmp_path / "other", tmp_path)


def test_a_drawing_has_nothing_to_run(tmp_path):
    with pytest.raises(ConfigError, match="A drawing of the method"):
        plan_row(row_of("thesis-fig-6.3"), tmp_path)


def test_a_row_with_a_script_is_run_by_it_in_a_checkout(tmp_path, monkeypatch):
    (tmp_path / "studies").mkdir()
    row = row_of("padpaf-section-c.1")
    monkeypatch.setattr(reproduce, "repository", lambda: tmp_path)
    assert script_of(row, tmp_path / "out") is None
    (tmp_path / "studies" / "simpson_router.py").touch()
    _, *command = script_of(row, tmp_path / "out")
    assert command == ["-m", "studies.simpson_router", f"{tmp_path}/out/simpson-router.json"]
    assert script_of(row_of("thesis-table-6.1"), tmp_path) is None


def test_what_a_script_found_stands_beside_the_paper_s(tmp_path):
    found = {
        "routed by x and y, 50 passes, test": 0.003,
        "routed by x, 50 passes, test": 0.04,
        "one line, test": 0.05,
    }
    (tmp_path / "simpson-router.json").write_text(json.dumps({"simpson": {"seed1": found}}))
    drawn = draw_script(row_of("padpaf-section-c.1"), tmp_path)
    assert drawn.lines[0][1:3] == ["0.004", "0.003 (1 seed)"]
    assert [line[-1].split()[0] for line in drawn.lines] == ["exceeded", "not", "exceeded"]
    assert (tmp_path / "padpaf-section-c.1.html").exists()


def test_shortened_studies_have_folders_of_their_own():
    row = row_of("thesis-table-6.2")
    assert default_folder(row, 1.0).name == "thesis-6-mnist"
    assert default_folder(row, 0.1).name == "thesis-6-mnist@0.1"
