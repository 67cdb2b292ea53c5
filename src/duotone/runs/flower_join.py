"""Nodes that come when a run has ended join it as newcomers: nothing shared moves.

Each gets the last shared part, makes its model by the run's rule on its own machine, keeps it
there, and says how good it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from duotone.errors import PartitionError, RunError, TrainingError
from duotone.federation.answers import AnswerLog, answers
from duotone.federation.backends import ClientJob, ClientTask
from duotone.federation.backends.flower import Flower
from duotone.measures.evaluation import EvaluateJob
from duotone.runs.flower_jobs import EnrolJob, RunWords
from duotone.runs.folder import RunFolder
from duotone.runs.last_round import serving_after
from duotone.runs.own_part import keep_job
from duotone.types import DataInfo


def welcome(backend: Flower, folder: RunFolder, clients: Sequence[str]) -> None:
    """Let clients that are connected join a finished run; write their scores beside it.

    Args:
        backend: The way to the nodes, with what they must know of the run.
        folder: The run.
        clients: Who joins.

    Raises:
        RunError: The run is not finished, or a client took part in it.
        TrainingError: A client does not answer.
        PartitionError: Its data have another form.
    """
    facts, config = folder.facts(), folder.config()
    if facts["status"] != "finished":
        raise RunError(f"{folder.path} is {facts['status']}; finish it first.")
    form = facts["form"]
    info = DataInfo(tuple(form["shape"]), form["task"], form["outputs"])
    backend.level = "scores"
    for client, (_, own) in _asked(backend, EnrolJob(), clients).items():
        same = (own.shape, own.task) == (info.shape, info.task) and own.outputs <= info.outputs
        if not same:
            raise PartitionError(
                f"The data of {client!r} are {own.task} of shape {own.shape} with {own.outputs} "
                f"outputs, those of the run {info.task} of shape {info.shape} with {info.outputs}."
            )
    words = RunWords.read(backend.run)
    backend.run = replace(words, data=info, method=config.method, model=config.model).text()
    with folder.reading() as last:
        members = int(facts["members"])
        serving = serving_after(last, config, info, members, facts["newcomer_rule"])
        scores = _asked(backend, EvaluateJob(serving), clients)
        _asked(backend, keep_job(serving, config, members, last), clients)
    known = folder.table("joined") or {}
    folder.write_table("joined", {**known, **scores})
    for client in clients:
        folder.log(f"client {client!r} joined")


def _asked(backend: Flower, job: ClientJob, clients: Sequence[str]) -> dict[str, Any]:
    """Return what each client answers; all must."""
    log = AnswerLog()
    tasks = [ClientTask(client, None) for client in clients]
    found = dict(answers(backend, job, tasks, clients, log))
    if log.refused:
        client, reason = min(log.refused.items())
        raise TrainingError(f"Client {client!r} could not join: {reason}.")
    return found
