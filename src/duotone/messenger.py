"""Carries messages between Flower and a client, and hands them to the client's worker.

Flower starts a fresh process for every message. This file is all that such a process loads of
duotone: no torch, no methods, no data. It hands the message to the worker that ``duotone flower
client`` keeps ready, over a socket on the client's own machine, and brings back the answer. Without
a worker the process loads everything and answers itself.

A message is a few facts and some arrays, here and on the socket; nothing is pickled. All arrays of
a message travel as one: Flower sends each array apart, with requests and a database's transactions
of its own, which took longer than all else with a network of twenty tensors.
"""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Callable, Mapping
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from safetensors.numpy import load, save

from duotone.registry import import_object

Facts: TypeAlias = Mapping[str, Any]
Arrays: TypeAlias = Mapping[str, np.ndarray[Any, Any]]
Answer: TypeAlias = tuple[Facts, Arrays]
MESSAGE = "query.job"
"""Flower's name for what is asked: a job of duotone's."""
VERSION = version("duotone")
_TOGETHER = "safetensors"
_LOG = logging.getLogger("duotone.node")


def record_of(arrays: Arrays) -> ArrayRecord:
    """Return arrays as Flower has them; several messages may hold the same."""
    return ArrayRecord({_TOGETHER: Array(np.frombuffer(_saved(arrays), np.uint8))})


def _saved(arrays: Arrays) -> bytes:
    # Safetensors writes down the memory of an array, in whatever order it lies there.
    saved: bytes = save({name: np.asarray(array, order="C") for name, array in arrays.items()})
    return saved


def content_of(name: str, facts: Facts, tensors: ArrayRecord) -> RecordDict:
    """Return facts, under a name, and arrays as a message's content."""
    return RecordDict({name: ConfigRecord(dict(facts)), "tensors": tensors})


def facts_of(name: str, content: RecordDict) -> Facts:
    """Return the facts that a message's content holds under a name.

    Raises:
        KeyError: It holds none.
    """
    return dict(content.config_records[name])


def arrays_of(content: RecordDict) -> Arrays:
    """Return the arrays that a message's content holds.

    Raises:
        KeyError: It holds something else.
        SafetensorError: They cannot be read.
    """
    together = content.array_records["tensors"][_TOGETHER].numpy()
    arrays: Arrays = load(together.tobytes())
    return arrays


def client_app(answer: Callable[[Context, Facts, Arrays], Answer]) -> ClientApp:
    """Return a Flower app that answers requests.

    Args:
        answer: Returns the reply to a request, as facts and arrays.
    """
    app = ClientApp()

    @app.query(MESSAGE.partition(".")[2])
    def reply(message: Message, context: Context) -> Message:
        facts = facts_of("request", message.content)
        theirs = facts.get("duotone")
        if theirs == VERSION:
            told, found = answer(context, facts, arrays_of(message.content))
        else:  # before anything else is read: another version may mean something else by it
            told, found = _other_version(facts, str(theirs)), {}
        return Message(content_of("reply", told, record_of(found)), reply_to=message)

    return app


def _other_version(facts: Facts, theirs: str) -> Facts:
    reason = (
        f"its node has duotone {VERSION} and the server {theirs}; install the same version on both"
    )
    _LOG.error("The server's job was refused: %s.", reason)
    names = {"client": str(facts.get("client", "")), "token": str(facts.get("token", ""))}
    return {**names, "failure": reason, "error": "ClientError"}


def send(connection: Connection, facts: Facts, arrays: Arrays) -> None:
    """Send facts and arrays over a socket."""
    connection.send_bytes(json.dumps(dict(facts)).encode())
    connection.send_bytes(_saved(arrays))


def receive(connection: Connection) -> Answer:
    """Receive what :func:`send` sent.

    Raises:
        EOFError: The other side is gone.
        SafetensorError: What it sends are no arrays.
    """
    return json.loads(connection.recv_bytes()), load(connection.recv_bytes())


def ask_worker(place: Path, facts: Facts, arrays: Arrays) -> Answer:
    """Return a worker's reply to a request.

    Args:
        place: The worker's socket.
        facts: The request.
        arrays: Its arrays.

    Raises:
        OSError: There is no worker.
        EOFError: It died.
    """
    with socket.socket(socket.AF_UNIX) as way:
        way.connect(str(place))
        connection = Connection(way.detach())
    with connection:
        send(connection, facts, arrays)
        return receive(connection)


def _answer(context: Context, facts: Facts, arrays: Arrays) -> Answer:
    worker = context.node_config.get("worker")
    if worker:
        try:
            return ask_worker(Path(str(worker)), facts, arrays)
        except (OSError, EOFError):  # it was killed, by a machine that had no memory left perhaps
            pass
    # Named, not imported: it loads torch.
    cold: Callable[..., Answer] = import_object("duotone.runs.flower_client:answer")
    return cold(context.node_config, facts, arrays)


app = client_app(_answer)
