"""The server of a Flower federation: the app that the SuperLink runs for each submitted run.

It waits for the clients, enrols them, and then does what every run does: the same rounds, the same
screening, the same files in an ordinary run folder. It has no samples, and no client's state.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from duotone.config import RunConfig
from duotone.errors import ConfigError, DuotoneError, RunError, TrainingError
from duotone.federation.answers import AnswerLog, answers
from duotone.federation.backends import ClientTask
from duotone.federation.backends.flower import Flower
from duotone.partition.roster import Enrolled, Roster
from duotone.runs import facts_of, prepare
from duotone.runs.draft import with_tables
from duotone.runs.execute import execute
from duotone.runs.flower_jobs import EnrolJob, RunWords, TellJob
from duotone.runs.flower_join import welcome
from duotone.runs.folder import RunFolder
from duotone.runs.plan import Plan, plan_run

PAUSE = 0.5
"""Seconds between two looks for nodes or replies."""


@dataclass(frozen=True, slots=True)
class Submission:
    """What was submitted.

    Attributes:
        config: The run's settings.
        out: The run's folder.
        clients: The clients that take part, by the names their nodes are registered under.
        deadline: Seconds a client has for an answer.
        patience: Seconds to wait for all clients to be connected.
        resume: Whether to go on with a run that is in the folder already.
        join: Clients whose nodes came later, and join the finished run in the folder.
    """

    config: Mapping[str, Any]
    out: str
    clients: Sequence[str]
    deadline: float = 3600.0
    patience: float = 300.0
    resume: bool = False
    join: Sequence[str] = ()


app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Carry out the run that was submitted."""
    submission = Submission(**json.loads(str(context.run_config["submission"])))
    try:
        serve(grid, submission, context.run_id)
    except Exception as error:  # who follows the run reads it there
        out = Path(submission.out)
        if submission.join or not (out / "run.json").exists():
            out.with_name(f"{out.name}.failed").write_text(f"{error}\n", encoding="utf-8")
        raise


def serve(grid: Grid, submission: Submission, number: int = 0) -> None:
    """Enrol the clients and train with them.

    Args:
        grid: Flower's way to the nodes.
        submission: What was submitted.
        number: Flower's number for it.

    Raises:
        DuotoneError: Clients are missing, settings are wrong, or training failed.
    """
    values = with_tables({**submission.config, "backend": "flower"})
    values["partition"] = {**values["partition"], "scheme": "natural"}
    out = Path(submission.out)
    folder = RunFolder.open(out) if submission.resume or submission.join else None
    name = uuid.uuid4().hex if folder is None else str(folder.facts()["federation"])
    words = first_words(values, name)
    connected = _Connected(grid)
    backend = Flower(grid, connected, run=words.text(), deadline=submission.deadline, pause=PAUSE)
    if folder is not None and submission.join:
        backend.run = replace(words, newcomers=tuple(submission.join)).text()
        connected.wait_for(submission.join, submission.patience)
        welcome(backend, folder, submission.join)
        return
    connected.wait_for(submission.clients, submission.patience)
    roster = enrol(backend, submission.clients, words)
    plan = plan_run(values, population=roster.population())
    backend.run = replace(words, data=roster.data, **_of_plan(plan)).text()
    if folder is None:
        folder = prepare(plan, out, command=["duotone", "flower", "submit"])
        folder.update_facts(federation=name, form=asdict(roster.data))
    elif folder.facts()["partition_fingerprint"] != facts_of(plan)["partition_fingerprint"]:
        raise RunError(
            f"The clients of {out} or their numbers of samples are no longer what the run began "
            "with; results would be mixed. Restore them, or start a new run."
        )
    folder.update_facts(flower=str(number))
    execute(folder, plan, [_Quiet()], backend)


def first_words(values: Mapping[str, Any], name: str) -> RunWords:
    """Return what nodes must know to be enrolled.

    Raises:
        ConfigError: The settings ask for what a federation cannot do.
    """
    config = RunConfig(**{k: v for k, v in values.items() if k not in ("method", "partition")})
    if config.level != "scores":
        raise ConfigError(
            f"level = {config.level!r} is for simulations: measures of that level need samples at "
            "the server. Set level = 'scores'."
        )
    if config.style != "none":
        raise ConfigError("style gives made looks to samples, which the server does not have.")
    partition = {key: value for key, value in values["partition"].items() if key != "scheme"}
    newcomers = partition.pop("newcomers", None) or []
    if not isinstance(newcomers, list):
        raise ConfigError("partition.newcomers must name the newcomers: ['east']")
    method = dict(values["method"])
    return RunWords(
        name, method, config.model, config.seed, config.labels, partition, tuple(newcomers)
    )


def enrol(backend: Flower, clients: Sequence[str], words: RunWords) -> Roster:
    """Ask every client for the number of its samples, and their form.

    Raises:
        TrainingError: A client does not answer.
        PartitionError: Their data do not go together.
    """
    backend.level = "scores"
    log = AnswerLog()
    tasks = [ClientTask(client, None) for client in clients]
    found = dict(answers(backend, EnrolJob(), tasks, clients, log))
    try:
        if log.refused:
            client, reason = min(log.refused.items())
            raise TrainingError(f"Client {client!r} could not be enrolled: {reason}.")
        return Roster.of(
            [
                Enrolled(c, "all", "newcomer" if c in words.newcomers else "member", *found[c])
                for c in clients
            ]
        )
    except DuotoneError as error:  # the nodes' owners should read it as well
        list(backend.map_clients(TellJob(f"no run was begun. {error}"), tasks))
        raise


def _of_plan(plan: Plan) -> dict[str, Any]:
    """Return what is only known when everything is checked: resolved settings and the model."""
    own = type(plan.method).own_model is not None
    return {"method": plan.config.method, "model": None if own else plan.config.model}


class _Connected:
    """The nodes that are connected, by the names under which the server registered their keys."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid

    def __call__(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for node in self.grid.get_nodes():
            if node.name in found:
                raise TrainingError(
                    f"Two nodes are connected under the name {node.name!r}; unregister one of "
                    "them: flwr supernode unregister NODE-ID"
                )
            if node.name:
                found[node.name] = node.node_id
        return found

    def wait_for(self, clients: Sequence[str], patience: float) -> None:
        """Wait until all clients are connected.

        Raises:
            TrainingError: Some are not.
        """
        until = time.monotonic() + patience
        while missing := [client for client in clients if client not in self()]:
            if time.monotonic() > until:
                raise TrainingError(
                    f"After {patience:g} seconds {', '.join(missing)} of {len(clients)} clients "
                    "were not connected; start their nodes: duotone flower client NAME"
                )
            time.sleep(PAUSE)


class _Quiet:
    """Sees a run and says nothing: who submitted it reads the run's own files."""

    def run_started(self, folder: RunFolder, plan: Plan, round: int) -> None:
        return

    def round_committed(self, progress: Any) -> None:
        return

    def message(self, line: str) -> None:
        return
