"""Wrong commands: one clear line each, the right exit code, and what to write instead."""

from __future__ import annotations

import shlex

import pytest

RUN = "run fedavg --data mini-digits --partition iid --clients 4 --rounds 1"
WRONG = {
    "frobnicate": (2, "No such command 'frobnicate'."),
    "rn fedavg": (2, "'run'"),
    "--versions": (2, "'--version'"),
    "run": (2, "List them with: duotone methods"),
    "run fedavgg": (2, "Did you mean 'fedavg'?"),
    "run FedAvg": (2, "Did you mean 'fedavg'?"),
    "run fed-avg": (2, "Did you mean 'fedavg'?"),
    "run fedavg extra": (2, "extra"),
    "run fedavg --data minidigits": (2, "Did you mean 'mini-digits'?"),
    "run fedavg --data nothing.npz": (2, "There is no file or folder 'nothing.npz'"),
    "run fedavg --data bad.npz": (2, "this is not an npz file"),
    "run fedavg --data notes.txt": (2, "this is not an npz file"),
    "run fedavg --data empty": (2, "CLIENT/CLASS/*.png"),
    "run fedavg --data bad.csv": (2, "Set table.label to one of: a, b."),
    "run fedavg --data https://example.org/x.npz": (2, "There is no file or folder"),
    f"{RUN} --alpha 0.1": (2, "Write: --set partition.alpha=0.1"),
    f"{RUN} --lr 0.1": (2, "Write: --set lr=0.1"),
    f"{RUN} --learning-rate 0.1": (2, "Write: --set lr=0.1"),
    f"{RUN} --batch-size=8": (2, "Write: --set batch_size=8"),
    f"{RUN} --local_epochs 2": (2, "Write: --set epochs=2"),
    f"{RUN} --newcomers 1": (2, "Write: --set partition.newcomers=1"),
    f"{RUN} --dataset digits": (2, "Did you mean --data digits?"),
    f"{RUN} --num-clients 5": (2, "Did you mean --clients 5?"),
    f"{RUN} --set learning_rate=0.1": (2, "Did you mean 'lr'?"),
    f"{RUN} --set local_epochs=2": (2, "Did you mean 'epochs'?"),
    f"{RUN} --set alpha=0.1": (2, "Did you mean 'partition.alpha'?"),
    f"{RUN} --set dataset=digits": (2, "Did you mean 'data'?"),
    f"{RUN} --set num_clients=3": (2, "Did you mean 'partition.clients'?"),
    f"{RUN} --set global_rounds=3": (2, "Did you mean 'rounds'?"),
    f"{RUN} --set optimiser=adam": (2, "Did you mean 'optimizer'?"),
    f"{RUN} --set lr=fast": (2, "should be a valid number"),
    f"{RUN} --set lr=-1": (2, "should be greater than 0"),
    f"{RUN} --set lr": (2, "--set takes key=value, such as --set lr=0.05. Got 'lr'."),
    f"{RUN} --set =3": (2, "--set takes key=value"),
    f"{RUN} --set epochs=0": (2, "greater than or equal to 1"),
    f"{RUN} --set epochs=1.5": (2, "should be a valid integer"),
    f"{RUN} --set partition.alpa=1": (2, "It has: clients, validation, max_train"),
    f"{RUN} --set partition.clents=3": (2, "Did you mean 'clients'?"),
    f"{RUN} --set partitio.alpha=1": (2, "Did you mean 'partition'?"),
    f"{RUN} --set partition.newcomers=9": (2, "lower partition.newcomers to at most 3"),
    f"{RUN} --set style.name=marks": (2, "should be a valid string"),
    f"{RUN} --style mark": (2, "Did you mean 'marks'?"),
    f"{RUN} --model cnnn": (2, "Did you mean 'cnn'?"),
    f"{RUN} --model nets:Net": (2, "No module named 'nets'"),
    f"{RUN} --sampled 99": (2, "there are only 4 members; lower --sampled"),
    f"{RUN} --sampled 0": (2, "sampled = 0 is wrong"),
    f"{RUN} --rounds 0": (2, "rounds = 0 is wrong"),
    f"{RUN} --rounds many": (2, "'many' is not a valid integer"),
    f"{RUN} --seed -1": (2, "seed = -1 is wrong"),
    f"{RUN} --seeds 2-0": (2, "--seeds takes different numbers"),
    f"{RUN} --seed 1 --seeds 0-2": (2, "Give --seed or --seeds, not both."),
    f"{RUN} --backend gpu": (
        2,
        "'auto', 'serial', 'processes', 'batched', 'flower' or 'flower-ray'",
    ),
    f"{RUN} --device tpu": (2, "'auto', 'cpu', 'cuda'"),
    f"{RUN} --partition dirichle": (2, "Did you mean 'dirichlet'?"),
    f"{RUN} --config nothing.toml": (2, "There is no configuration file nothing.toml."),
    f"{RUN} --config broken.toml": (2, "cannot be read"),
    f"{RUN} --config unknown.toml": (2, "Did you mean 'rounds'?"),
    f"{RUN} --set newcomers=few": (2, "'zero-shot', 'label-free' or 'few-shot'"),
    f"{RUN} --set newcomers=few-shot": (2, "it can do zero-shot"),
    f"{RUN} --set personalise=yes": (2, "'prior', 'norm', 'context' or 'auto'"),
    f"{RUN} --set level=all": (2, "'scores', 'codes' or 'simulation'"),
    f"{RUN} --model mlp --set method.name=fedbn": (2, "model=mlp-bn"),
    f"{RUN} --config empty": (2, "empty is a folder, not a configuration file."),
    f"{RUN} --seeds ''": (2, "--seeds takes different numbers"),
    f"{RUN} --seeds 0-": (2, "--seeds takes different numbers"),
    f"{RUN} --rounds 1e3": (2, "'1e3' is not a valid integer"),
    f"{RUN} --clients 99999999999999": (2, "less than or equal to 1000000"),
    f"{RUN} --set attack=evil": (2, "it has settings of its own; give attack.KEY = VALUE."),
    f"{RUN} --set attack.name=evil": (2, "it should be 'nan', 'times-10'"),
    f"{RUN} --set attack.share=0.1": (2, "An attack needs attack.name"),
    f"{RUN} --set system.speeds=[]": (2, "it should have at least one entry."),
    f"{RUN} --set 'system.speeds=[1, 4]' --set 'system.shares=[1]'": (2, "one share for each"),
    f"{RUN} --set system.sped=3": (2, "Did you mean 'speeds'?"),
    f"{RUN} --set curve=5": (2, "it should be a list, such as [1, 5]."),
    f"{RUN} --set lr=nan": (2, "it should be a finite number"),
    f"{RUN} --set rounds.x=3": (2, "should be a valid integer"),
    f"{RUN} --set __class__=3": (2, "has no setting method.__class__"),
    f"{RUN} --set head=fc99": (2, "Its layers: conv1, norm1"),
    f"{RUN} --set quorum=99": (2, "only 4 members are drawn per round"),
    f"{RUN} --set aggregation=median": (2, "Did you mean 'aggregate'?"),
    f"{RUN} --measure nothing": (2, "Unknown measure 'nothing'. Known: holdings"),
    "run ../fedavg": (2, "Did you mean 'fedavg'?"),
    "run fedavg feddva --data mini-digits": (2, "feddva"),
    "run fedavg --data pics --partition natural": (2, "pics/a/x/1.png: the image cannot be read"),
    "run fedavg --data zero.csv --partition natural": (2, "the table cannot be read (empty CSV)"),
    "run fedavg --data mini-digits --partition domains": (2, "which domain its samples are from"),
    "run feddva --data planted-table --partition natural": (2, "needs images of at least 8×8"),
    "show nothing": (1, "List runs with: duotone runs"),
    "show empty": (1, "is not the folder of a run"),
    "resume empty": (1, "is not the folder of a run"),
    "report": (2, "Missing argument 'RUN...'."),
    "report empty": (1, "is not the folder of a run"),
    "compare empty": (1, "is not the folder of a run"),
    "explain": (2, "Missing argument 'RUN'."),
    "explain empty": (1, "is not the folder of a run"),
    "predict empty --client 0 notes.txt": (1, "is not the folder of a run"),
    "export empty --client 0 out": (1, "is not the folder of a run"),
    "study nothing.toml": (2, "There is no configuration file nothing.toml."),
    "study unknown.toml": (2, "It has: title, seeds, methods"),
    "methods fedavgg": (2, "Did you mean 'fedavg'?"),
    "data import mnist nothing": (2, "give the folder with the files of 'mnist'"),
    "partition --partition dirichle": (2, "Did you mean 'dirichlet'?"),
    "partition --data mini-digits --partition iid --clients 0": (2, "clients = 0 is wrong"),
    "doctor extra": (2, "extra"),
    "flower init": (2, "Missing argument 'FOLDER'."),
    "flower server --folder empty": (1, "federation (it has no federation.toml); make one with"),
    "flower submit": (2, "Give a file of settings for a new run"),
    "study empty": (2, "empty is a folder, not a configuration file."),
    "reproduce nothing": (2, "List them with: duotone reproduce"),
    "partition --data mini-digits --partition iid --picture empty": (2, "ends in .png, .svg, .pdf"),
    "explore empty --port 99999": (2, "is not in the range 0<=x<=65535"),
}


@pytest.fixture
def odd_files(folder):
    (folder / "broken.toml").write_text("rounds = [")
    (folder / "unknown.toml").write_text("roundz = 3\n")
    (folder / "notes.txt").write_text("x")
    (folder / "bad.csv").write_text("a,b\n1,2\n")
    (folder / "bad.npz").write_bytes(b"nope")
    (folder / "zero.csv").write_text("")
    (folder / "pics" / "a" / "x").mkdir(parents=True)
    (folder / "pics" / "a" / "x" / "1.png").write_bytes(b"no picture")
    (folder / "empty").mkdir()
    return folder


@pytest.mark.parametrize("command", WRONG, ids=lambda command: command.replace(RUN, "RUN"))
def test_a_wrong_command_is_answered_in_one_line(command, cli, odd_files):
    code, words = WRONG[command]
    said = cli(*shlex.split(command), code=code)
    assert said.stdout == ""
    assert said.stderr.startswith("error: ")
    assert said.stderr.count("\n") == 1
    assert words in said.stderr
    assert not (odd_files / "runs").exists()


def test_there_are_sixty_of_them():
    assert len(WRONG) >= 60


def test_all_wrong_settings_are_reported_together(cli, folder):
    more = "--set lr=-1 --set epochs=0 --style mark --model cnnn"
    said = cli(*shlex.split(f"{RUN} {more}"), code=2)
    assert said.stderr.startswith("error: 4 settings are wrong:\n")
    assert said.stderr.count("\n  - ") == 4


def test_a_command_alone_shows_the_help(cli, folder):
    said = cli(code=2)
    assert "See personalisation work" in said.stdout


def test_tab_offers_methods_and_run_folders(folder):
    from duotone.cli.completing import methods, partitions, run_folders

    assert methods("fedb") == ["fedbn"]
    assert partitions("d") == ["dirichlet", "domains"]
    (folder / "runs" / "first").mkdir(parents=True)
    (folder / "runs" / "first" / "run.json").write_text("{}")
    assert run_folders("") == ["runs/first"]
    assert run_folders("runs/f") == ["runs/first"]
    assert run_folders("runs/x") == []
