"""Flower's own programs, started as a federation needs them: TLS and node keys, no telemetry."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any

import tomli_w

from duotone.errors import MissingExtraError, RunError
from duotone.files import disk_errors, write_atomically
from duotone.runs.flower_folder import Federation
from duotone.runs.result_files import read_json, write_json

CONNECTION = "duotone"
"""What Flower's command line calls the way to the server."""
START_SECONDS = 60.0
REFUSED = "2004"
"""What Flower calls it when a node is turned away."""
POLL_SECONDS = "0.25"
"""How often a node looks whether a message has come for a process to be started."""


def environment(federation: Federation) -> dict[str, str]:
    """Return the environment of Flower's programs: nothing is told to anybody, or downloaded."""
    home = federation.folder / "server" / "flower"
    beside = str(Path(sys.executable).parent)  # Flower's programs start one another by name
    return {
        **os.environ,
        "PATH": os.pathsep.join([beside, os.environ.get("PATH", "")]),
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "OMP_NUM_THREADS": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": POLL_SECONDS,
    }


def program(name: str) -> str:
    """Return the path of one of Flower's programs.

    Raises:
        MissingExtraError: Flower is not installed.
    """
    path = Path(sys.executable).with_name(name)
    if find_spec("flwr") is None or not path.exists():
        raise MissingExtraError(
            f"{name} is not installed; install Flower: pip install 'duotone[flower]'"
        )
    return str(path)


def run_server(federation: Federation, say: Callable[[str], None]) -> int:
    """Run the server until it is stopped; return its exit code."""
    place = federation.folder / "server"
    with disk_errors(place):
        place.mkdir(exist_ok=True)
    _write_connection(federation)
    keys = federation.keys
    command = [
        *(program("flower-superlink"), "--host", federation.host, "--port", str(federation.port)),
        *("--ssl-ca-certfile", str(keys / "ca.crt"), "--ssl-certfile", str(keys / "server.crt")),
        *("--ssl-keyfile", str(keys / "server.key"), "--enable-supernode-auth"),
        *("--database", str(place / "state.db"), "--disable-runtime-dependency-installation"),
    ]
    with child_of(command, federation, lambda line: _refused(federation, line, say)) as server:
        wait_for_port(federation, server)
        register(federation)
        say(f"The server listens on {federation.address} for {', '.join(federation.clients)}.")
        return server.wait()


@contextmanager
def child_of(
    command: Sequence[str], federation: Federation, hear: Callable[[str], None]
) -> Iterator[subprocess.Popen[str]]:
    """Run a program in a process group of its own, which ends with this process's work.

    Args:
        command: The program.
        federation: Whose it is.
        hear: Told every line that it says, after the user has seen it.
    """
    child = subprocess.Popen(
        command,
        env=environment(federation),
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        preexec_fn=_ends_with_parent(),
    )
    saying = Thread(target=_repeat, args=(child, hear), daemon=True)
    saying.start()

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield child
    finally:
        signal.signal(signal.SIGTERM, before)
        _end(child)
        saying.join(5)


def _repeat(child: subprocess.Popen[str], hear: Callable[[str], None]) -> None:
    assert child.stdout is not None
    for line in child.stdout:
        sys.stderr.write(line)
        sys.stderr.flush()
        hear(line)


def _ends_with_parent() -> Callable[[], object] | None:
    """Return what makes a child end with a parent that was killed, on Linux.

    Otherwise a node would stay connected without its worker, and its key be refused anew.
    """
    if sys.platform != "linux":
        return None
    control = ctypes.CDLL(None).prctl
    return lambda: control(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def _end(child: subprocess.Popen[str]) -> None:
    """End a program with all that it started: kindly, then at once."""
    for number, patience in ((signal.SIGTERM, 10.0), (signal.SIGKILL, 10.0)):
        try:
            os.killpg(child.pid, number)
        except ProcessLookupError:
            break
        try:
            child.wait(patience)
        except subprocess.TimeoutExpired:
            continue
    child.wait()


def _refused(federation: Federation, line: str, say: Callable[[str], None]) -> None:
    """Say whose node was turned away, where Flower says that one was."""
    if REFUSED not in line:
        return
    plain = line.replace("\\n", "")
    for client in federation.clients:
        key = (federation.keys / client / "node.pub").read_bytes()
        if _pem(key).replace("\n", "") in plain:
            say(
                f"A node was refused: it has the key of {client!r}, whose node is connected "
                "already, or was killed less than two minutes ago."
            )
            return
    say("A node was refused: its key is not registered.")


def _pem(key: bytes) -> str:
    from cryptography.hazmat.primitives import serialization as form

    public = form.load_ssh_public_key(key)
    pem, info = form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo
    return str(public.public_bytes(pem, info).decode())


def wait_for_port(federation: Federation, server: subprocess.Popen[str]) -> None:
    """Wait until the server listens.

    Raises:
        RunError: It ended, or does not listen.
    """
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        if server.poll() is not None:
            raise RunError(f"The server ended with code {server.returncode} while it started.")
        try:
            socket.create_connection((federation.host, federation.port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.2)
    raise RunError(f"The server does not listen on {federation.address}.")


def register(federation: Federation) -> None:
    """Register the keys of all clients under their names, unless they are already."""
    known = _registered(federation)
    for client in federation.clients:
        if client not in known:
            key = str(federation.keys_of(client) / "node.pub")
            told = flower(federation, "supernode", "register", key, CONNECTION, "--name", client)
            known[client] = str(told["node-id"])
            write_json(_registry(federation), known)


def states_of_clients(federation: Federation) -> dict[str, str]:
    """Return whether each client's node is connected, in Flower's words."""
    listed = flower(federation, "supernode", "list", CONNECTION).get("nodes", [])
    found = {str(node["node-id"]): str(node["status"]) for node in listed}
    known = _registered(federation)
    return {
        client: found.get(known.get(client, ""), "not registered") for client in federation.clients
    }


def _registry(federation: Federation) -> Path:
    # Flower knows the names as well, but its list does not say them.
    return federation.folder / "server" / "nodes.json"


def _registered(federation: Federation) -> dict[str, str]:
    path = _registry(federation)
    return read_json(path) if path.exists() else {}


def runs(federation: Federation) -> list[dict[str, Any]]:
    """Return the submitted runs, as Flower lists them."""
    found: list[dict[str, Any]] = flower(federation, "list", CONNECTION).get("runs", [])
    return found


def flower(federation: Federation, *arguments: str) -> dict[str, Any]:
    """Ask Flower's command line; return what it answers.

    Raises:
        RunError: It fails.
    """
    _write_connection(federation)
    command = [program("flwr"), *arguments, "--format", "json"]
    done = subprocess.run(
        command, env=environment(federation), capture_output=True, text=True, check=False
    )
    start = done.stdout.find("{")
    try:
        content: dict[str, Any] = json.loads(done.stdout[start:]) if start >= 0 else {}
    except ValueError:
        content = {}
    if done.returncode or not content or content.get("success") is False:
        said = content.get("error-message") or done.stderr.strip() or done.stdout.strip()
        raise RunError(f"Flower's {' '.join(arguments[:2])} failed: {str(said)[-400:]}")
    return content


def _write_connection(federation: Federation) -> None:
    home = Path(environment(federation)["FLWR_HOME"])
    with disk_errors(home):
        home.mkdir(parents=True, exist_ok=True)
    root = str(federation.keys / "ca.crt")
    ways = {CONNECTION: {"address": federation.address, "root-certificates": root}}
    content = tomli_w.dumps({"superlink": {"default": CONNECTION, **ways}})
    write_atomically(home / "config.toml", content.encode())


def free_port() -> int:
    """Return a port that nobody uses on this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
