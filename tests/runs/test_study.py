from __future__ import annotations

import json
import shutil
import signal

import polars as pl
import pytest

import duotone
from duotone.errors import ConfigError, RunError, TrainingError
from duotone.runs import Interrupted, RunFolder, load_run, study_plan
from duotone.runs.compare import compare_entries, runs_below
from duotone.runs.pooled import choose_reference, identity, pool, pooled_scores
from duotone.runs.result_tables import PlainTable, comparison_table, curve_table, score_table
from duotone.runs.study import Study, planned_runs, validation_score
from duotone.runs.study_file import slug
from duotone.runs.study_plan import plan_study

SETTINGS = {
    "data": "mini-digits",
    "model": "mlp",
    "rounds": 2,
    "sampled": 2,
    "backend": "serial",
    "latents": 0,
    "partition": {"scheme": "iid", "clients": 4, "newcomers": 1, "max_train": 40},
    "method": {"epochs": 1},
}


def small(**changes):
    study = {"seeds": [0, 1], "methods": ["local", "fedavg"], "settings": SETTINGS}
    return {**study, **changes}


class Watch:
    """Remembers how runs ended; presses Ctrl-C in the first round of one of them."""

    def __init__(self, stop_in=None):
        self.stop_in = stop_in
        self.started = []
        self.ended = []

    def run_started(self, folder, plan, round):
        self.started.append((plan.method.name, plan.config.seed, round))

    def round_committed(self, progress):
        if progress.round == 1 and len(self.started) == self.stop_in:
            signal.raise_signal(signal.SIGINT)

    def message(self, line):
        pass

    def run_ended(self, ended):
        self.ended.append(ended)


@pytest.fixture(scope="module")
def done(tmp_path_factory) -> Study:
    return duotone.study(small(title="Two methods"), tmp_path_factory.mktemp("studies") / "s")


def test_a_study_runs_every_entry_with_every_seed(done):
    results = done.results
    assert results["complete"]
    assert [entry["name"] for entry in results["entries"]] == ["local", "fedavg"]
    assert results["entries"][1]["runs"] == ["fedavg/seed0", "fedavg/seed1"]
    assert results["reference"] == "fedavg"
    for entry in results["entries"]:
        runs = [load_run(done.path / run) for run in entry["runs"]]
        values = [run.summary["scores"]["member.accuracy"]["value"] for run in runs]
        spreads = [run.summary["scores"]["member.accuracy"]["std"] for run in runs]
        score = entry["scores"]["member.accuracy"]
        assert score["mean"] == pytest.approx(sum(values) / 2)
        assert score["std"] == pytest.approx(sum(spreads) / 2)
        assert (score["n"], score["clients"], score["direction"]) == (2, 3, "higher")
        assert score["low"] <= score["mean"] <= score["high"]
    assert results["settings"]["method.epochs"] == 1
    assert results["entries"][0]["settings"] == {"method.name": "local"}


def test_entries_are_compared_on_the_same_clients(done):
    (members, newcomers) = done.results["comparisons"]
    assert [(c["role"], c["metric"], c["score"]) for c in (members, newcomers)] == [
        ("member", "accuracy", "member.accuracy"),
        ("newcomer", "accuracy", "newcomer.accuracy"),
    ]
    assert (members["entry"], members["reference"]) == ("local", "fedavg")
    assert (members["pairs"], newcomers["pairs"]) == (6, 2), "(seed, client), not client"
    means = [entry["scores"]["member.accuracy"]["mean"] for entry in done.results["entries"]]
    assert members["difference"]["mean"] == pytest.approx(means[0] - means[1])
    assert (members["corrected_p"], members["verdict"]) == (None, "exploratory")
    ranks = done.results["mean_ranks"]["member.accuracy"]
    assert sum(ranks.values()) == pytest.approx(3)


def test_only_declared_comparisons_get_a_verdict(done, tmp_path):
    shutil.copytree(done.path, tmp_path / "s")
    (tmp_path / "s" / "study.json").unlink()  # as if it had been declared before the runs
    again = duotone.study(small(title="Two methods", primary={"member": ["local"]}), tmp_path / "s")
    members, newcomers = again.results["comparisons"]
    assert members["corrected_p"] == members["p"]
    assert members["verdict"] in ("better", "worse", "not shown")
    assert newcomers["verdict"] == "exploratory"
    # The same entry for both roles: two comparisons, and p counts twice.
    (tmp_path / "s" / "study.json").unlink()
    both = {"member": ["local"], "newcomer": ["local"]}
    twice = duotone.study(small(title="Two methods", primary=both), tmp_path / "s").results
    p_values = sorted(found["p"] for found in twice["comparisons"])
    corrected = sorted(found["corrected_p"] for found in twice["comparisons"])
    assert corrected[0] == pytest.approx(min(1, 2 * p_values[0]))


def test_what_is_primary_cannot_be_declared_after_the_results(done, tmp_path):
    shutil.copytree(done.path, tmp_path / "s")
    with pytest.raises(duotone.RunError, match="declared primary = nothing before them"):
        duotone.study(small(title="Two methods", primary={"member": ["local"]}), tmp_path / "s")


@pytest.mark.parametrize(
    ("primary", "words"),
    [
        ({"member": ["locl"]}, "'locl', which is not an entry of the study. Did you mean"),
        ({"member": ["local", "local"]}, "names an entry twice"),
        ({"member": ["fedavg"]}, "which the others are compared with"),
    ],
)
def test_what_is_declared_must_be_there(primary, words):
    with pytest.raises(duotone.ConfigError, match=words):
        plan_study(small(primary=primary))


def test_every_value_of_every_client_is_kept(done):
    for entry in done.results["entries"]:
        for seed, run in zip(("0", "1"), entry["runs"], strict=True):
            table = entry["values"]["member"][seed]
            found = load_run(done.path / run)
            last = found.metrics.filter(
                (pl.col("round") == found.summary["rounds"]) & (pl.col("kind") == "member")
            )
            for client, value in zip(table["clients"], table["accuracy"], strict=True):
                rows = last.filter((pl.col("client") == client) & (pl.col("metric") == "accuracy"))
                assert rows["value"].item() == pytest.approx(value, abs=1e-6)
            mean = sum(table["accuracy"]) / len(table["accuracy"])
            whole = found.summary["scores"]["member.accuracy"]["value"]
            assert mean == pytest.approx(whole, abs=1e-6)


def test_the_page_shows_what_the_file_says(done):
    page = (done.path / "study.md").read_text(encoding="utf-8")
    assert page.startswith("# Two methods\n")
    score = done.results["entries"][0]["scores"]["member.accuracy"]
    half = (score["high"] - score["low"]) / 2
    cell = f"{score['mean'] * 100:.1f} ± {half * 100:.1f} ({score['std'] * 100:.1f})"
    assert cell in page
    for word in ("## Against fedavg", "exploratory", "newcomers give", "| labels"):
        assert word in page
    assert "## Search" not in page
    assert "chosen" not in page


def test_calling_again_makes_nothing_anew(done, tmp_path):
    shutil.copytree(done.path, tmp_path / "s")
    watch = Watch()
    again = duotone.study(small(title="Two methods"), tmp_path / "s", [watch])
    assert watch.started == []
    assert all(ended.was_finished for ended in watch.ended)
    assert again.results == done.results


def test_an_interrupted_study_continues_to_the_same_results(done, tmp_path):
    with pytest.raises(Interrupted):
        duotone.study(small(title="Two methods"), tmp_path / "s", [Watch(stop_in=3)])
    assert not Study(tmp_path / "s").results["complete"]
    statuses = [r["status"] for r in planned_runs(plan_study(small(), tmp_path / "s"))]
    assert statuses == ["finished", "finished", "interrupted", "to do"]
    watch = Watch()
    duotone.study(small(title="Two methods"), tmp_path / "s", [watch])
    assert watch.started == [("local", 1, 1), ("fedavg", 1, 0)]
    assert [(e.done, e.total) for e in watch.ended] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert watch.ended[-1].seconds_left == 0
    assert without_seconds(Study(tmp_path / "s").results) == without_seconds(done.results)


def without_seconds(results):
    for entry in results["entries"]:
        entry.pop("seconds")
    return results


def test_runs_made_with_other_settings_are_refused_and_kept(done, tmp_path):
    shutil.copytree(done.path, tmp_path / "s")
    before = (tmp_path / "s" / "local" / "seed0" / "summary.json").read_bytes()
    longer = small(settings={**SETTINGS, "rounds": 3})
    with pytest.raises(RunError, match=r"local.seed0 was made with rounds = 2, .* says rounds = 3"):
        duotone.study(longer, tmp_path / "s")
    assert (tmp_path / "s" / "local" / "seed0" / "summary.json").read_bytes() == before
    elsewhere = small(settings={**SETTINGS, "backend": "processes", "workers": 1})
    assert plan_study(elsewhere, tmp_path / "s"), "how it is computed makes no other result"


def test_runs_on_data_that_has_changed_since_are_not_mixed(done, tmp_path):
    shutil.copytree(done.path, tmp_path / "s")
    path = tmp_path / "s" / "local" / "seed0" / "run.json"
    facts = json.loads(path.read_text())
    path.write_text(json.dumps({**facts, "data_fingerprint": "other"}))
    with pytest.raises(RunError, match="cannot be compared: the data fingerprint differs"):
        duotone.study(small(title="Two methods"), tmp_path / "s")


def test_more_seeds_and_entries_extend_a_study(done, tmp_path):
    shutil.copytree(done.path, tmp_path / "s")
    watch = Watch()
    more = small(seeds=[0, 1, 2], entries={"Long": {"method": "local", "rounds": 3}})
    duotone.study(more, tmp_path / "s", [watch])
    made = [(seed, name) for name, seed, _ in watch.started]
    assert made == [(0, "local"), (1, "local"), (2, "local"), (2, "fedavg"), (2, "local")]
    assert load_run(tmp_path / "s" / "long" / "seed0").config.rounds == 3


def test_a_search_chooses_by_validation_and_makes_its_run_once(tmp_path):
    watch = Watch()
    searched = small(methods=["fedavg"], search={"lr": [1e-6, 0.3]}, search_seeds=[0])
    results = duotone.study(searched, tmp_path / "s", [watch]).results
    assert len(watch.started) == 3, "two tries with the seed of the search, then the second seed"
    (entry,) = results["entries"]
    assert entry["chosen"] == {"lr": 0.3}
    assert entry["runs"] == ["fedavg/lr=0.3/seed0", "fedavg/lr=0.3/seed1"]
    assert results["search_seeds"] == [0]
    for tried in entry["search"]:
        scores = [validation_score(load_run(tmp_path / "s" / run))[0] for run in tried["runs"]]
        assert tried["scores"] == {"0": tried["score"]}
        assert [tried["score"]] == scores
    assert entry["search"][1]["score"] > entry["search"][0]["score"]
    assert [tried["chosen"] for tried in entry["search"]] == [False, True]
    assert "## Search" in (tmp_path / "s" / "study.md").read_text(encoding="utf-8")
    own = runs_below([tmp_path / "s"])
    assert list(own.values()) == ["fedavg", "fedavg"]
    assert tmp_path / "s" / "fedavg" / "lr=1e-06" / "seed0" not in own


def spoil(run, metric, kind, value):
    """Write a value over one metric of a run's last round."""
    lines = (run / "metrics.csv").read_text().splitlines()
    changed = [
        ",".join([*line.split(",")[:-1], str(value)]) if f",{kind},both,{metric}," in line else line
        for line in lines
    ]
    (run / "metrics.csv").write_text("\n".join(changed) + "\n")


def test_test_scores_have_no_part_in_a_search(tmp_path):
    searched = small(seeds=[0], methods=["fedavg"], search={"lr": [0.1, 0.2, 0.3]})
    duotone.study(searched, tmp_path / "s")
    for place, (validation, test) in enumerate([(0.2, 0.9), (0.6, 0.1), (0.6, 0.8)]):
        run = tmp_path / "s" / "fedavg" / f"lr=0.{place + 1}" / "seed0"
        spoil(run, "val_accuracy", "member", validation)
        spoil(run, "val_accuracy", "newcomer", 1 - validation)
        spoil(run, "accuracy", "member", test)
    (entry,) = duotone.study(searched, tmp_path / "s").results["entries"]
    assert entry["chosen"] == {"lr": 0.2}, "best on validation, the first of equals"


def test_a_search_on_numbers_takes_the_smallest_error(tmp_path):
    even = {"scheme": "iid", "clients": 4, "max_train": 40}
    settings = {**SETTINGS, "data": "simpson", "model": "linear", "partition": even}
    searched = small(
        seeds=[0], methods=["fedavg"], settings=settings, search={"lr": [1e-6, 0.05, 1e-5]}
    )
    (entry,) = duotone.study(searched, tmp_path / "s").results["entries"]
    scores = [tried["score"] for tried in entry["search"]]
    assert scores[1] == min(scores)
    assert entry["chosen"] == {"lr": 0.05}


def test_a_try_that_diverges_cannot_win(tmp_path):
    searched = small(seeds=[0], methods=["fedavg"], search={"lr": [1e30, 0.1]})
    study = duotone.study(searched, tmp_path / "s", [Watch()])
    (entry,) = study.results["entries"]
    assert entry["chosen"] == {"lr": 0.1}
    assert "nobody sent a usable update" in entry["search"][0]["error"]
    assert study.failed == {}, "the entry has its run"


def test_a_failing_entry_stops_no_other(tmp_path):
    broken = {"method": {"name": "fedavg", "lr": 1e30}}
    watch = Watch()
    study = duotone.study(
        small(methods=["local"], entries={"broken": broken}), tmp_path / "s", [watch]
    )
    assert list(study.failed) == ["broken, seed 0", "broken, seed 1"]
    assert study.results["entries"][0]["seeds"] == [0, 1]
    assert [ended.error is None for ended in watch.ended] == [True, False, True, False]
    assert "broken, seed 1: Round 1" in (tmp_path / "s" / "study.md").read_text(encoding="utf-8")
    assert study.results["comparisons"] == []


def test_without_a_winner_the_other_seeds_fail_too(tmp_path):
    searched = small(methods=["fedavg"], search={"lr": [1e30, 1e31]})
    study = duotone.study(searched, tmp_path / "s", [Watch()])
    assert list(study.failed) == ["fedavg, seed 0", "fedavg, seed 1"]
    assert study.results["complete"]
    assert study.results["headline"] is None


def test_a_validation_score_that_is_no_number_cannot_be_chosen(done, tmp_path):
    shutil.copytree(done.path / "local" / "seed0", tmp_path / "run")
    spoil(tmp_path / "run", "val_accuracy", "member", "NaN")
    with pytest.raises(TrainingError, match="no finite validation accuracy"):
        validation_score(load_run(tmp_path / "run"))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sedes": [0]}, ["Did you mean 'seeds'"]),
        ({"seeds": []}, ["seeds"]),
        ({"seeds": [0, 0]}, ["seed 0 more than once"]),
        ({"methods": []}, ["no entries"]),
        ({"methods": ["fedavg", "fedavg"]}, ["entry fedavg more than once"]),
        ({"reference": "fedagv"}, ["Did you mean 'fedavg'"]),
        ({"settings": {**SETTINGS, "seed": 3}}, ["'settings' holds a seed"]),
        ({"entries": {"A b": {}, "a-B": {}}}, ["share the folder 'a-b'"]),
        ({"entries": {"!": {}}}, ["letters or digits"]),
        ({"search": {"lr": 0.1}}, ["search.lr = 0.1", "list"]),
        ({"search": {"lr": [0.1, 0.1]}}, ["twice"]),
        ({"search": {"partition": {"alpha": [0.1, 1]}}}, ["search.partition.alpha", "same data"]),
        ({"search": {"finetune_epochs": [1, 2]}}, ["'fedavg' has no setting"]),
        ({"search": {"lr": [0.1, -1]}}, ["method.lr = -1"]),
        ({"methods": ["fedagv", "locla"]}, ["Did you mean 'fedavg'", "Did you mean 'local'"]),
        ({"entries": {"x": {"method": "local", "rounds": 0}}}, ["x: rounds = 0"]),
        (
            {"entries": {"x": {"method": "local", "partition": {"clients": 5}}}},
            ["'local' and 'x' differ in partition"],
        ),
        ({"settings": {**SETTINGS, "data": "mnits"}}, ["Did you mean 'mnist'"]),
        ({"settings": {**SETTINGS, "data": ["mnist"]}}, ["data = ['mnist']"]),
        ({"settings": {**SETTINGS, "method": 3}}, ["method = 3 in 'settings'"]),
    ],
)
def test_all_mistakes_are_found_before_anything_is_trained(changes, words, tmp_path):
    with pytest.raises(ConfigError) as caught:
        duotone.study(small(**changes), tmp_path / "s")
    for word in words:
        assert word in str(caught.value)
    assert not (tmp_path / "s").exists()


def test_a_search_needs_validation_samples(tmp_path):
    partition = {**SETTINGS["partition"], "validation": 0.0}
    study = small(settings={**SETTINGS, "partition": partition}, search={"lr": [0.1, 0.2]})
    with pytest.raises(ConfigError, match="needs validation samples"):
        plan_study(study, tmp_path)


def test_the_folder_of_a_run_is_not_taken_for_a_study(done):
    with pytest.raises(RunError, match="is the folder of a run"):
        plan_study(small(), done.path / "local" / "seed0")


def test_a_study_in_use_is_left_alone(done):
    with RunFolder(done.path).locked(), pytest.raises(RunError, match="another process"):
        duotone.study(small(title="Two methods"), done.path)


def test_entries_take_what_is_shared_and_change_it(tmp_path):
    entries = {"wide": {"method": {"name": "fedavg", "lr": 0.5}, "model": "cnn"}}
    plan = plan_study(small(entries=entries, reference="local"), tmp_path)
    local, _, wide = (entry.choices[0].config for entry in plan.entries)
    assert (wide.method["lr"], wide.method["epochs"], wide.model) == (0.5, 1, "cnn")
    assert (local.method["lr"], local.model) == (0.1, "mlp")
    assert plan.reference == "local"
    assert plan.place(plan.entries[2], plan.entries[2].choices[0], 1) == tmp_path / "wide" / "seed1"
    assert plan_study(small(methods=["local"]), tmp_path).reference == "local"


def test_a_study_is_kept_under_the_name_of_its_file(tmp_path):
    text = 'methods = ["local"]\n[settings]\ndata = "mini-digits"\nmodel = "mlp"\n'
    (tmp_path / "shift.toml").write_text(text + '[settings.partition]\nscheme = "iid"\nclients=2')
    assert plan_study(tmp_path / "shift.toml").out.as_posix() == "runs/shift"
    assert plan_study(small(title="Target shift")).out.as_posix() == "runs/target-shift"
    assert slug("FedAvg, no BatchNorm!") == "fedavg-no-batchnorm"


def test_every_combination_is_searched(tmp_path):
    search = {"lr": [0.1, 0.2], "method.momentum": [0.0, 0.9]}
    plan = plan_study(small(search=search, search_seeds=[7]), tmp_path)
    places = [plan.place(plan.entries[0], c, 0).parent.name for c in plan.entries[0].choices]
    assert places[:2] == ["lr=0.1,method.momentum=0.0", "lr=0.1,method.momentum=0.9"]
    assert len(places) == 4
    assert [choice.is_default for choice in plan.entries[0].choices] == [True, False, False, False]
    assert plan.total == 2 * (4 + 2)
    rows = planned_runs(plan)
    assert len(rows) == plan.total
    assert [row["searched"] for row in rows[-2:]] == ["as chosen", "as chosen"]


def test_runs_that_differ_only_in_the_seed_are_one_entry(done):
    names = runs_below([done.path / "local", done.path / "fedavg"])
    runs = [load_run(path) for path in names]
    entries = pool(runs, names)
    assert [(entry.name, len(entry.runs)) for entry in entries] == [("local", 2), ("fedavg", 2)]
    results = compare_entries(entries)
    assert results["reference"] == "fedavg"
    assert results["comparisons"] == done.results["comparisons"]
    ours = compare_entries(entries, reference="local")["comparisons"][0]
    theirs = done.results["comparisons"][0]
    assert ours["difference"]["mean"] == pytest.approx(-theirs["difference"]["mean"])
    with pytest.raises(ConfigError, match="Did you mean 'fedavg'"):
        compare_entries(entries, reference="fedagv")


def test_entries_of_one_method_are_told_apart_by_what_differs(done):
    run = load_run(done.path / "local" / "seed0")
    config = run.config
    assert identity(config) == identity(config.model_copy(update={"seed": 5, "workers": 3}))
    other = load_run(done.path / "local" / "seed1")
    method = {**config.method, "lr": 0.5}
    other.__dict__["config"] = config.model_copy(update={"method": method, "rounds": 9})
    names = [entry.name for entry in pool([run, other], {})]
    assert names == ["local (rounds=2, lr=0.1)", "local (rounds=9, lr=0.5)"]


def test_a_setting_that_came_later_counts_as_its_default(done):
    config = load_run(done.path / "local" / "seed0").config
    older = {key: value for key, value in config.method.items() if key != "momentum"}
    assert identity(config.model_copy(update={"method": older})) == identity(config)


def test_the_same_seed_twice_is_refused(done, tmp_path):
    shutil.copytree(done.path / "local" / "seed0", tmp_path / "copy")
    runs = [load_run(tmp_path / "copy"), load_run(done.path / "local" / "seed0")]
    with pytest.raises(RunError, match="count twice"):
        compare_entries(pool(runs, {}))


def test_clients_of_different_partitions_are_no_pairs(done, tmp_path):
    partition = {**SETTINGS["partition"], "clients": 5}
    other = duotone.run(
        {**SETTINGS, "partition": partition, "method": {"name": "fedavg"}}, out=tmp_path / "r"
    )
    entries = pool([load_run(done.path / "local" / "seed0"), other], {})
    with pytest.raises(RunError, match="cannot be compared"):
        compare_entries(entries)
    results = compare_entries(entries, anyway=True)
    assert len(results["entries"]) == 2
    assert results["comparisons"] == []


def score(value, **more):
    return {"value": value, "std": 0.1, "direction": "higher", "n": 4, **more}


def test_scores_are_pooled_over_the_seeds_that_have_them():
    found = pooled_scores([{"a": score(0.5, std=0.2)}, {"a": score(0.7), "b": score(1.0)}])
    assert found["a"]["mean"] == pytest.approx(0.6)
    assert found["a"]["std"] == pytest.approx(0.15)
    assert (found["a"]["n"], found["b"]["n"], found["b"]["low"]) == (2, 1, None)


def test_the_newcomer_curve_shows_every_point_that_was_measured():
    def point(name, value):
        return score(value, measure="curve", variant=name)

    names = ("all", "unlabelled", "20", "5", "0")
    points = {f"newcomer.accuracy@{name}": point(name, 0.5) for name in names}
    some = {"newcomer.accuracy@0": point("0", 0.25)}
    results = {
        "headline": "accuracy",
        "entries": [
            {"name": "a", "scores": pooled_scores([points])},
            {"name": "b", "scores": pooled_scores([some, some])},
        ],
    }
    table = curve_table(results)
    assert table.columns == ("entry", ">0", ">5", ">20", ">all", ">unlabelled")
    assert table.rows[1] == ("b", "25.0 ± 0.0 (10.0)", "–", "–", "–", "–")
    results["entries"][0]["scores"] = results["entries"][1]["scores"] = {}
    assert curve_table(results) is None


def test_errors_of_regression_are_no_percentages(done):
    results = json.loads(json.dumps(done.results).replace("accuracy", "mse"))
    table = score_table(results)
    assert table.columns[2] == ">members MSE"
    mean = results["entries"][0]["scores"]["member.mse"]["mean"]
    assert table.rows[0][2].startswith(f"{mean:.4f} ± ")
    assert comparison_table(results).columns[2] == ">difference (mse)"


def test_a_markdown_table_is_aligned_and_escaped():
    table = PlainTable("T", ("name", ">value"), (("a|b", "1"),), "Note.")
    expected = "## T\n\n| name | value |\n| ---- | ----: |\n| a\\|b |     1 |\n\nNote.\n"
    assert table.markdown() == expected


def test_each_data_set_is_read_once(monkeypatch, tmp_path):
    read = []
    load = study_plan.load_dataset
    monkeypatch.setattr(study_plan, "load_dataset", lambda name: read.append(name) or load(name))
    plan = plan_study(small(search={"lr": [0.1, 0.2]}), tmp_path)
    again = plan.plan(plan.entries[0].choices[1], 1)
    assert read == ["mini-digits"]
    assert again.config.data == "mini-digits"
    assert again.config.seed == 1


def test_the_reference_is_the_one_named_else_fedavg_else_the_first():
    assert choose_reference(["local", "fedavg"], None) == "fedavg"
    assert choose_reference(["local", "ditto"], None) == "local"
    assert choose_reference(["local", "fedavg"], "local") == "local"
    with pytest.raises(ConfigError, match="Did you mean 'fedavg'"):
        choose_reference(["local", "fedavg"], "fedagv")
