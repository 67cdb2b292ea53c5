"""The worker of a client's node: it has data and networks loaded, and answers message by message.

Flower starts a process for every message; loading torch there takes longer than most answers. So
``duotone flower client`` is itself the worker, and those processes only hand their message over:
:mod:`duotone.messenger`. It answers one message after the other, as a node gets them.
"""

from __future__ import annotations

import logging
import secrets
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from safetensors import SafetensorError

from duotone.data import load_dataset
from duotone.errors import RunError
from duotone.federation.backends.flower import answered
from duotone.federation.backends.node import Node
from duotone.messenger import receive, send
from duotone.runs.flower_client import NodeSettings, make_node
from duotone.runs.flower_folder import Federation
from duotone.runs.flower_jobs import RunWords
from duotone.runs.flower_processes import REFUSED, child_of, free_port, program

_LOOK_SECONDS = 0.5
_LOG = logging.getLogger("duotone.node")


class Worker:
    """Answers the messages of one node.

    Args:
        settings: What the node says of itself.

    Raises:
        DataError: Its data cannot be read.
    """

    def __init__(self, settings: NodeSettings) -> None:
        self.settings = settings
        self.dataset = load_dataset(settings.data)
        self._node: tuple[str, Node] | None = None

    def node(self, run: str) -> Node:
        """Return the node for a run; that of the last one is kept."""
        if self._node is None or self._node[0] != run:
            self._node = None  # two would need twice the memory
            self._node = run, make_node(self.settings, RunWords.read(run), self.dataset)
        return self._node[1]

    def serve(self, listening: socket.socket, is_wanted: Callable[[], bool]) -> None:
        """Answer message after message.

        Args:
            listening: Where they arrive.
            is_wanted: Asked every now and then; the worker ends when it is not.
        """
        listening.settimeout(_LOOK_SECONDS)
        while is_wanted():
            try:
                way, _ = listening.accept()
            except TimeoutError:
                continue
            way.settimeout(None)
            with Connection(way.detach()) as connection:
                try:
                    send(connection, *answered(self.node, *receive(connection)))
                except (OSError, EOFError, ValueError, KeyError, SafetensorError) as error:
                    # Who asked is gone, or was nobody of ours.
                    _LOG.warning("a message was lost on this machine: %s", error)


@contextmanager
def socket_for_worker() -> Iterator[tuple[socket.socket, Path]]:
    """Listen on a socket that only this user can reach; yield it and where it is."""
    with (
        tempfile.TemporaryDirectory(prefix="duotone-") as folder,
        socket.socket(socket.AF_UNIX) as listening,
    ):
        place = Path(folder) / "worker"
        listening.bind(str(place))
        listening.listen()
        yield listening, place


def run_client(federation: Federation, settings: NodeSettings, port: int) -> int:
    """Run a client's node until it is stopped; return its exit code.

    Raises:
        DataError: The client's data cannot be read.
        RunError: The server refused the node, or one of its programs ended.
    """
    _LOG.addHandler(logging.StreamHandler())
    _LOG.setLevel(logging.INFO)
    refused: list[str] = []

    def hear(line: str) -> None:
        if f"[code: {REFUSED}]" in line:
            refused.append(line)

    keys = federation.keys_of(settings.client)
    port = port or free_port()
    worker = Worker(settings)
    with socket_for_worker() as (listening, place):
        secret = place.with_name("secret")
        secret.write_bytes(secrets.token_bytes(32))
        together = ("--superexec-auth-secret-file", str(secret))
        node_command = [
            *(program("flower-supernode"), "--superlink", federation.address),
            *("--root-certificates", str(keys / "ca.crt")),
            *("--auth-supernode-private-key", str(keys / "node")),
            *("--ssl-ca-certfile", str(keys / "ca.crt")),
            *("--ssl-certfile", str(keys / "runtime.crt")),
            *("--ssl-keyfile", str(keys / "runtime.key"), "--port", str(port)),
            *("--node-config", settings.text(worker=place), "--isolation", "process", *together),
        ]
        launcher_command = [
            # Not as a module: every process would load a program's main module once more.
            *(sys.executable, "-c", "from duotone.launcher import main; main()", *together),
            *("--runtime-api-address", f"127.0.0.1:{port}"),
            *("--root-certificates", str(keys / "ca.crt")),
        ]
        with (
            child_of(node_command, federation, hear) as node,
            child_of(launcher_command, federation, hear) as launcher,
        ):
            worker.serve(listening, lambda: node.poll() is None and launcher.poll() is None)
            code = node.poll()
    if code is None:
        raise RunError(
            f"What starts the processes for this node's messages ended (code {launcher.poll()}), "
            "so the node was ended, too. Its states are on disk; start it again."
        )
    if refused:
        raise RunError(
            f"The server refused this node: its key is not registered, or a node of "
            f"{settings.client!r} is connected already. After a kill, try again in two minutes."
        )
    return code
