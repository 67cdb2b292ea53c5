"""Three hospitals on this machine, over TLS and with node keys: the true thing, on loopback."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

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
        subprocess.run([sys.executable, EXAMPLE / "make_data.py", place / "data"], check=True)

    def start(self, name):
        data = () if name == "server" else (name, "--data", f"data/{name}.npz")
        verb = "server" if name == "server" else "client"
        with (self.place / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", "duotone", "flower", verb, *data, "--folder", "hospitals"],
                cwd=self.place,
                stdout=log,
                stderr=log,
            )

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
    federation = json.loads((run / "run.json").read_text())["federation"]
    last = json.loads((simulation / "checkpoints" / "manifest.json").read_text())["clients"]
    assert last.keys() == set(HOSPITALS)
    for client, name in last.items():
        file = simulation / "checkpoints" / name
        kept = hospitals.place / "hospitals" / "states" / client / federation / file.name
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
    assert_same(hospitals, hospitals.place / out, simulation)


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
    assert "2004" in done.stdout + done.stderr


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
    config.write_text('rounds = 8\nlevel = "scores"\nevaluate_every = 8\nmethod = "fedbn"\n')
    out = hospitals.place / "runs" / "killed-node"
    submitted = hospitals.submitting(config, "--out", out)
    wait_for_round(out, 1)
    time.sleep(2)
    hospitals.kill("west")
    wait_for_round(out, 2)
    until = time.monotonic() + 300
    while True:  # Flower lets the same key in again when it has missed the node for a while
        hospitals.start("west")
        time.sleep(25)
        if hospitals.processes["west"].poll() is None:
            break
        assert time.monotonic() < until
    said, _ = submitted.communicate(timeout=900)
    assert submitted.returncode == 0, said
    assert "client 'west' was left out" in said
    trained = [
        line.split(",")[:2]
        for line in (out / "ledger.csv").read_text().splitlines()
        if ",update," in line
    ]
    assert ["1", "west"] in trained
    assert ["8", "west"] in trained


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
