"""A finished run at one client's own machine: its model and samples, the shared part, nobody else.

When a run of a federation ends, every client is handed the last shared part. Its node makes the
client's model and lays down an ordinary run folder, in which ``duotone predict``, ``explain`` and
``join`` answer without the server. The samples are read where the client has them.
"""

from __future__ import annotations

import logging
import shutil
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from duotone.config import RunConfig, validated, write_toml
from duotone.data import load_dataset
from duotone.data.dataset import Dataset
from duotone.errors import ClientError, RunError
from duotone.federation.backends import Backend, ClientTask
from duotone.federation.backends.codec import travels
from duotone.federation.levels import Level
from duotone.federation.method import Method
from duotone.federation.serving import Serving, by_client
from duotone.federation.store import CommittedRound
from duotone.methods import METHODS
from duotone.partition import Population, resolve_settings
from duotone.partition.build import own_population
from duotone.runs.last_round import last_serving
from duotone.runs.plan import Plan
from duotone.runs.published import published_share
from duotone.runs.served import Index, Who, keep_own, write_index
from duotone.types import DataInfo, Role

if TYPE_CHECKING:
    from duotone.runs.opened import OpenedRun

_LOG = logging.getLogger("duotone.node")


@travels
@dataclass(frozen=True, slots=True)
class KeepJob:
    """Hand a client the end of a run, to be kept where it is; only a receipt comes back.

    Attributes:
        serving: The last shared part, and how a client gets its model.
        config: The run's settings as TOML.
        members: How many members the run has.
        notes: What was committed with the last round that the model depends on.
    """

    level: ClassVar[Level] = "scores"
    sends: ClassVar[str] = "receipt"

    serving: Serving
    config: str
    members: int
    notes: Mapping[str, Any]

    def __call__(self, method: Method, population: Population, task: ClientTask) -> bool:
        """Lay the run down.

        Raises:
            ClientError: The client has no place of its own.
        """
        # Named here, because what makes run folders stands above this.
        from duotone.runs import prepare

        if task.home is None:
            raise ClientError("it keeps nothing: this is a simulation")
        serving, role = self.serving, population.partition[task.client].role
        values = {**tomllib.loads(self.config), "data": task.home.data}
        config = validated(RunConfig, values, owner="the run")
        params = serving.personal(method, population, task)
        out = task.home.folder / "run"
        if out.exists():  # of a server that was killed and did this again
            shutil.rmtree(out)
        plan = Plan(config, method, population, serving.rule, ())
        folder = prepare(plan, out, command=["duotone", "flower", "client", task.client])
        with folder.locked(), folder.writing() as store:
            notes = {"config": store.last.notes["config"], **self.notes}
            store.commit(serving.info.round, serving.server, notes)
            who = Who(role, "all", population.partition.size(task.client))
            index = Index(
                population.info,
                population.dataset.class_names,
                serving.rule,
                {task.client: who},
                {"last": {task.client: keep_own(out, task.client, params, serving.server.shared)}},
            )
            write_index(out, index)
            folder.write_summary(_no_scores(config, serving))
            folder.update_facts(status="finished", members=self.members, client=task.client)
        _LOG.info(
            "A run has ended. Its model is kept here; try: duotone predict %s --client %s FILES…",
            out,
            task.client,
        )
        return True


def _no_scores(config: RunConfig, serving: Serving) -> dict[str, Any]:
    """Return the summary of a run at one client's machine: its scores are with the server."""
    return {
        "scores": {},
        "headline": "accuracy" if serving.info.data.task == "classes" else "mse",
        "rounds": serving.info.round,
        "scale": config.scale,
        "published_share": published_share(config),
        "selected_round": None,
        "newcomer_rule": serving.rule,
        "warnings": [],
    }


def leave_with_clients(plan: Plan, last: CommittedRound, backend: Backend) -> None:
    """Hand every client of a federation the end of its run."""
    partition = plan.population.partition
    job = keep_job(last_serving(plan, last), plan.config, len(partition.members), last)
    by_client(job, partition.clients, plan.population, last, backend)


def keep_job(serving: Serving, config: RunConfig, members: int, last: CommittedRound) -> KeepJob:
    """Return what hands a client the end of a run."""
    notes = {name: last.notes[name] for name in ("election",) if name in last.notes}
    return KeepJob(serving, write_toml(config.model_dump()), members, notes)


def population_at_node(
    dataset: Dataset,
    client: str,
    role: Role,
    config: RunConfig,
    info: DataInfo | None,
) -> Population:
    """Return a client with the samples it holds alone, as the rounds of a run see them.

    Args:
        dataset: Its samples.
        client: Its name.
        role: Member or newcomer.
        config: The run's settings: partition, seed and labels count.
        info: The form of all clients' data, if it is known.
    """
    table = {k: v for k, v in config.partition.items() if k not in ("scheme", "newcomers")}
    settings = resolve_settings("natural", table)
    population = own_population(dataset, client, role, settings, seed=config.seed)
    if info is not None:
        population.info = info
    population.labelled = config.labels
    population.keeps_unlabelled = METHODS.load(str(config.method["name"])).uses_unlabelled
    return population


def plan_at_node(opened: OpenedRun) -> Plan | None:
    """Return the plan of a run that one client keeps; ``None`` for an ordinary run.

    Raises:
        RunError: Its data has changed since.
    """
    facts, config = opened.run.folder.facts(), opened.run.config
    name = facts.get("client")
    if name is None:
        return None
    dataset = load_dataset(config.data)
    if dataset.fingerprint() != facts["data_fingerprint"]:
        raise RunError(f"The data {config.data} is no longer what {name!r} trained on; restore it.")
    role = opened.clients[str(name)].role
    population = population_at_node(dataset, str(name), role, config, opened.info)
    return Plan(config, opened.method, population, opened.rule, ())
