"""Three hospitals on this machine, over TLS and with node keys: the true thing, on loopback."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from recording_proxy import RecordingProxy
from safetensors.torch import load_file

import duotone as library
from duotone.federation.backends import ClientResult, Failure
from duotone.federation.backends.serial import Serial
from duotone.federation.jobs import TrainJob
from duotone.federation.journal import state_file
from duotone.federation.manifest import read_manifest
from duotone.runs import plan_run, prepare
from duotone.runs.execute import execute

pytest.importorskip("flwr")
pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "examples" / "three_hospitals"
HOSPITALS = ("north", "south", "west")


def duotone(*arguments, cwd, check=True, timeout=900):
    done = subprocess.run(
        [sys.executable, "-m", "duotone", *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def descendants(pid):
    """Return a process and all that it started, also those in sessions of their own."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


class Hospitals:
    """A federation in a folder, with its processes."""

    def __init__(self, place):
        self.place = place
        self.processes = {}
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{probe.getsockname()[1]}"
        named = [part for name in HOSPITALS for part in ("--client", name)]
        duotone("flower", "init", "hospitals", *named, "--address", address, cwd=place)
        duotone("flower", "certs", "--folder", "hospitals", cwd=place)
        # Nodes know the server by the address of a proxy that keeps what passes.
        self.proxy = RecordingProxy(address, place / "hospitals" / "keys")
        shutil.copytree(place / "hospitals", place / "nodes")
        settings = place / "nodes" / "federation.toml"
        settings.write_text(settings.read_text().replace(address, self.proxy.address))
        subprocess.run([sys.executable, EXAMPLE / "make_data.py", place / "data"], check=True)

    def start(self, name):
        data = () if name == "server" else (name, "--data", f"data/{name}.npz")
        verb = "server" if name == "server" else "client"
        folder = "hospitals" if name == "server" else "nodes"
        with (self.place / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", "duotone", "flower", verb, *data, "--folder", folder],
                cwd=self.place,
                stdout=log,
                stderr=log,
            )

    def start_again(self, name):
        """Start a node until it stays: Flower first has to miss the one that was killed."""
        until = time.monotonic() + 300
        while True:
            self.start(name)
            time.sleep(20)
            if self.processes[name].poll() is None:
                return
            assert time.monotonic() < until

    def kill(self, name):
        process = self.processes.pop(name)
        for pid in descendants(process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()

    def stop(self):
        for process in self.processes.values():
            process.terminate()
        for name, process in list(self.processes.items()):
            try:
                process.wait(40)
            except subprocess.TimeoutExpired:
                self.kill(name)
        self.proxy.close()

    def kept_by(self, client, run):
        """Return the folder of a run at a client's node."""
        federation = json.loads((run / "run.json").read_text())["federation"]
        return self.place / "nodes" / "states" / client / federation

    def states(self):
        told = duotone("flower", "status", "--json", "--folder", "hospitals", cwd=self.place)
        return json.loads(told.stdout)["clients"]

    def wait_until_online(self, seconds=180):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with suppress(AssertionError):
                if set(self.states().values()) == {"online"}:
                    return
            time.sleep(2)
        raise AssertionError((self.place / "server.log").read_text()[-2000:])

    def submitting(self, *arguments):
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "duotone", "flower", "submit"),
                *(*map(str, arguments), "--folder", "hospitals"),
            ],
            cwd=self.place,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


@pytest.fixture(scope="module")
def hospitals(tmp_path_factory):
    found = Hospitals(tmp_path_factory.mktemp("federation"))
    try:
        found.start("server")
        until = time.monotonic() + 120
        while "listens on" not in (found.place / "server.log").read_text():
            assert time.monotonic() < until, (found.place / "server.log").read_text()[-2000:]
            time.sleep(0.5)
        for name in HOSPITALS:
            found.start(name)
        found.wait_until_online()
        yield found
    finally:
        found.stop()


def simulated(hospitals, config, name):
    duotone(
        *("run", "--config", config, "--data", "data/together.npz", "--partition", "natural"),
        *("--backend", "serial", "--out", f"runs/{name}", "-q"),
        cwd=hospitals.place,
    )
    return hospitals.place / "runs" / name


def assert_same(hospitals, run, simulation):
    """Everything a run leaves is equal, byte by byte; states are where they belong."""
    for name in ("metrics.csv", "summary.json", "calibration.json"):
        assert (run / name).read_bytes() == (simulation / name).read_bytes(), name
    for file in (simulation / "checkpoints").glob("server-*"):
        assert (run / "checkpoints" / file.name).read_bytes() == file.read_bytes()
    assert not list((run / "checkpoints" / "clients").iterdir())
    (last,) = read_manifest(simulation / "checkpoints").states(simulation / "checkpoints", "last")
    assert last.keys() == set(HOSPITALS)
    for client, state in last.items():
        file = simulation / "checkpoints" / state_file(client, state.round)
        kept = hospitals.kept_by(client, run) / file.name
        assert kept.read_bytes() == file.read_bytes(), file.name


@pytest.mark.parametrize("method", ["fedbn", "feddva"])
def test_three_hospitals_get_what_the_simulation_gets(hospitals, method):
    config = EXAMPLE / f"{method}.toml"
    out = f"runs/{method}"
    done = duotone(
        *("flower", "submit", config, "--folder", "hospitals", "--out", out), cwd=hospitals.place
    )
    assert "round 2 committed" in done.stderr
    simulation = simulated(hospitals, config, f"{method}-simulated")
    run = hospitals.place / out
    assert_same(hospitals, run, simulation)
    x = np.load(hospitals.place / "data" / "south.npz")["x_test"]
    at_node = library.load_run(hospitals.kept_by("south", run) / "run").client("south")
    there = library.load_run(simulation).client("south")
    assert torch.equal(at_node.scores(x), there.scores(x))


def test_no_local_tensor_was_in_any_message(hospitals):
    """What the proxy saw of the runs above, decrypted; whole tensors, as messages hold them."""
    seen = hospitals.proxy.seen
    local = shared = 0
    for method in ("fedbn", "feddva"):
        run = hospitals.place / "runs" / method
        for client in HOSPITALS:
            for file in hospitals.kept_by(client, run).glob("*.safetensors"):
                for name, tensor in load_file(file).items():
                    # Counters and constants are the same everywhere.
                    if tensor.is_floating_point() and tensor.unique().numel() > 8:
                        local += 1
                        assert tensor.numpy().tobytes() not in seen, (method, client, name)
        for tensor in load_file(run / "checkpoints" / "server-00002.safetensors").values():
            shared += tensor.numel() > 8 and tensor.numpy().tobytes() in seen
    assert local > 20
    assert shared > 5  # what is shared was seen, so that the search finds what there is


def test_a_node_with_a_key_nobody_registered_is_refused(hospitals, tmp_path):
    duotone("flower", "init", "strangers", "--client", "north", cwd=tmp_path)
    duotone("flower", "certs", "--folder", "strangers", cwd=tmp_path)
    own = hospitals.place / "hospitals"
    strangers = tmp_path / "strangers"
    (strangers / "federation.toml").write_text((own / "federation.toml").read_text())
    # It trusts the true authority, and has all but the right key.
    for name in ("ca.crt", "runtime.crt", "runtime.key"):
        place = strangers / "keys" / "north" / name
        place.write_bytes((own / "keys" / "north" / name).read_bytes())
    data = hospitals.place / "data" / "north.npz"
    done = duotone(
        *("flower", "client", "north", "--data", data, "--folder", "strangers"),
        cwd=tmp_path,
        check=False,
        timeout=120,
    )
    assert done.returncode not in (0, None)
    assert "The server refused this node: its key is not registered" in done.stderr
    assert "A node was refused: its key is not registered." in one_line(hospitals, "server")


def one_line(hospitals, name):
    return " ".join((hospitals.place / f"{name}.log").read_text(errors="replace").split())


def test_a_second_node_with_one_name_is_refused_on_both_sides(hospitals):
    done = duotone(
        *("flower", "client", "north", "--data", "data/north.npz", "--folder", "nodes"),
        *("--states", "elsewhere"),
        cwd=hospitals.place,
        check=False,
        timeout=120,
    )
    assert done.returncode == 1
    assert "a node of 'north' is connected already" in done.stderr
    assert "it has the key of 'north', whose node is connected already" in one_line(
        hospitals, "server"
    )


def test_nobody_else_on_a_clients_machine_is_handed_its_messages(hospitals, tmp_path):
    """Without the node's secret, or with another, a program is turned away and ends."""
    (port,) = {
        words[words.index("--port") + 1]
        for pid in descendants(hospitals.processes["north"].pid)
        if "--port" in (words := Path(f"/proc/{pid}/cmdline").read_text().split("\0"))
    }
    keys = hospitals.place / "hospitals" / "keys" / "north"
    other = tmp_path / "secret"
    other.write_bytes(bytes(32))
    for secret in ((), ("--superexec-auth-secret-file", str(other))):
        subprocess.run(
            [
                *(sys.executable, "-c", "from duotone.launcher import main; main()", *secret),
                *("--runtime-api-address", f"127.0.0.1:{port}"),
                *("--root-certificates", str(keys / "ca.crt")),
            ],
            check=False,
            timeout=90,
        )
    assert one_line(hospitals, "north").count("SuperExec authentication failed") == 2


def test_a_node_that_comes_later_joins_the_finished_run(hospitals):
    place, run = hospitals.place, hospitals.place / "runs" / "fedbn"
    duotone("flower", "add", "east", "--folder", "hospitals", cwd=place)
    shutil.copytree(place / "hospitals" / "keys" / "east", place / "nodes" / "keys" / "east")
    shutil.copy(place / "data" / "south.npz", place / "data" / "east.npz")
    hospitals.start("east")
    told = duotone("flower", "join", run, "east", "--json", "--folder", "hospitals", cwd=place)
    scores = json.loads(told.stdout)["east"]
    assert scores["accuracy"] > 0.3
    data = np.load(place / "data" / "east.npz")
    own = library.load_run(hospitals.kept_by("east", run) / "run").client("east")
    assert (own.predict(data["x_test"]) == data["y_test"]).mean() == scores["accuracy"]
    hospitals.kill("east")
    # From here on a run asks for everybody who is named.
    settings = place / "hospitals" / "federation.toml"
    settings.write_text(settings.read_text().replace('    "east",\n', ""))


def wait_for_round(run, number, seconds=400):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        manifest = run / "checkpoints" / "manifest.json"
        if manifest.exists() and json.loads(manifest.read_text())["round"] >= number:
            return
        time.sleep(0.2)
    raise AssertionError(f"round {number} was never committed")


def test_a_node_that_is_killed_in_a_round_is_left_out_and_comes_back(hospitals):
    config = hospitals.place / "longer.toml"
    rounds = 18
    config.write_text(
        f'rounds = {rounds}\nlevel = "scores"\nevaluate_every = 18\nmethod = "fedbn"\n'
    )
    out = hospitals.place / "runs" / "killed-node"
    submitted = hospitals.submitting(config, "--out", out)
    wait_for_round(out, 1)
    time.sleep(2)
    hospitals.kill("west")
    wait_for_round(out, 2)
    hospitals.start_again("west")
    said, _ = submitted.communicate(timeout=900)
    assert submitted.returncode == 0, said
    assert "client 'west' was left out" in said
    trained = [
        line.split(",")[:2]
        for line in (out / "ledger.csv").read_text().splitlines()
        if ",update," in line
    ]
    assert ["1", "west"] in trained
    assert [str(rounds), "west"] in trained
    missed = {number for number in range(1, rounds + 1) if [str(number), "west"] not in trained}
    assert missed
    values = {
        **library.config.read_toml(config),
        "data": str(hospitals.place / "data/together.npz"),
    }
    plan = plan_run({**values, "partition": "natural"})
    folder = prepare(plan, hospitals.place / "runs" / "silent")
    execute(folder, plan, [Silent()], SilentInRounds(plan.method, plan.population, "west", missed))
    last = f"server-{rounds:05d}.safetensors"
    expected = (folder.path / "checkpoints" / last).read_bytes()
    assert (out / "checkpoints" / last).read_bytes() == expected
    name = f"west-{rounds:05d}.safetensors"
    kept = hospitals.kept_by("west", out) / name
    assert kept.read_bytes() == (folder.path / "checkpoints" / "clients" / name).read_bytes()


class Silent:
    def run_started(self, folder, plan, round):
        return

    def round_committed(self, progress):
        return

    def message(self, line):
        return


class SilentInRounds(Serial):
    """A simulation in which a client gives no answer in some rounds."""

    def __init__(self, method, population, client, rounds):
        super().__init__(method, population)
        self.client, self.rounds = client, rounds

    def map_clients(self, job, tasks):
        for task in tasks:
            is_silent = isinstance(job, TrainJob) and job.info.round in self.rounds
            if is_silent and task.client == self.client:
                yield ClientResult(task.client, failure=Failure("silent"))
            else:
                yield from super().map_clients(job, [task])


def test_a_server_that_is_killed_is_resumed_to_the_same_end(hospitals):
    config = hospitals.place / "resumed.toml"
    config.write_text('rounds = 4\nlevel = "scores"\nevaluate_every = 1\nmethod = "fedbn"\n')
    out = hospitals.place / "runs" / "killed-server"
    submitted = hospitals.submitting(config, "--out", out)
    wait_for_round(out, 2)
    hospitals.kill("server")
    submitted.kill()
    submitted.communicate()
    hospitals.start("server")
    hospitals.wait_until_online()
    again = hospitals.submitting("--resume", "--out", out)
    said, _ = again.communicate(timeout=900)
    assert again.returncode == 0, said
    assert_same(hospitals, out, simulated(hospitals, config, "killed-server-simulated"))
