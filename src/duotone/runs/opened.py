"""A finished run, opened to be used: its clients, from the run folder alone where that will do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from duotone.errors import ConfigError, DuotoneError, RunError, UnknownNameError
from duotone.federation.backends import ClientTask
from duotone.federation.backends.serial import one_thread
from duotone.federation.manifest import Which
from duotone.federation.method import Method
from duotone.registry import did_you_mean
from duotone.runs import Run, given_again
from duotone.runs.client import Client, ClientFacts
from duotone.runs.draft import OBJECT
from duotone.runs.last_round import last_serving, method_again
from duotone.runs.own_part import plan_at_node
from duotone.runs.plan import Plan, facts_of, plan_run
from duotone.runs.served import Index, Kept, Who, read_index, read_model, who_is
from duotone.types import DataInfo, NewcomerRule, Params, ServerState


@dataclass
class OpenedRun:
    """A finished run.

    Args:
        run: The run.

    Raises:
        RunError: It is not finished.
    """

    run: Run

    def __post_init__(self) -> None:
        if self.run.status != "finished":
            raise RunError(
                f"{self.run.path} is {self.run.status}; finish it first: "
                f"duotone resume {self.run.path}"
            )

    @property
    def path(self) -> Path:
        """Where it is."""
        return self.run.path

    @cached_property
    def index(self) -> Index | None:
        """What the folder says of its clients, if it was made by a version that writes it."""
        return read_index(self.path)

    def full_index(self) -> Index:
        """Return what the folder says now, or would say if it had been written with the run."""
        found = read_index(self.path)
        if found is not None:
            return found
        return Index(self.info, self.class_names, self.rule, self.clients, {})

    def forget_index(self) -> None:
        """Read the index again when it is next needed: somebody has changed it."""
        self.__dict__.pop("index", None)

    @cached_property
    def plan(self) -> Plan:
        """The run as it was planned, with its data.

        Raises:
            RunError: The data is not at hand, or is not the same; or its clients have their models.
        """
        run = self.run
        if (own := plan_at_node(self)) is not None:
            return own
        if "federation" in run.folder.facts():
            raise RunError(
                f"The models of {self.path} are with its clients, not with the server; ask on the "
                "client's own machine, in the run folder that its node keeps."
            )
        values = given_again(
            run.folder, method=run.method, data=run.data, model=run.model, again="load_run"
        )
        try:
            plan = plan_run(values, data=run.data, model=run.model)
        except DuotoneError as error:
            raise RunError(
                f"{self.path} does not hold this client's model, and its data cannot be read to "
                f"make it again: {error}"
            ) from error
        was, now = run.folder.facts(), facts_of(plan)
        for what in ("data_fingerprint", "partition_fingerprint"):
            if was[what] != now[what]:
                raise RunError(
                    f"The data of {self.path} is no longer what it was trained on, so a client's "
                    "model cannot be made again; restore it."
                )
        return plan

    @cached_property
    def method(self) -> Method:
        """The method, built from what the folder says."""
        run = self.run
        if self.index is None:
            return self.plan.method
        values = given_again(
            run.folder,
            method=run.method,
            data=run.data,
            model=run.model,
            again="load_run",
            needed=("method", "model"),
        )
        model = run.model if run.model is not None else run.config.model
        assert model is not None  # a resolved configuration names it
        return method_again(
            run.config.method | {"name": values["method"]["name"]},
            model,
            self.index.data,
            method=run.method,
            device=run.config.device,
        )

    @property
    def info(self) -> DataInfo:
        """The form of the samples."""
        return self.plan.population.info if self.index is None else self.index.data

    @property
    def rule(self) -> NewcomerRule:
        """What newcomers start from."""
        return self.plan.rule if self.index is None else self.index.rule

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """What the classes are called, if the data says."""
        if self.index is None:
            return self.plan.population.dataset.class_names
        return self.index.class_names

    @cached_property
    def clients(self) -> Mapping[str, Who]:
        """Every client the run was made with; where they are many, those it keeps models of."""
        if self.index is not None:
            return self.index.clients
        partition = self.plan.population.partition
        return {name: who_is(partition, name) for name in partition}

    def who(self, name: str) -> Who | None:
        """Return what the run says of a client, or ``None`` if it has no such client."""
        if name not in self.clients and self.index is not None and self.index.unlisted:
            partition = self.plan.population.partition
            return who_is(partition, name) if name in partition else None
        return self.clients.get(name)

    def which(self, round: Which) -> Which:
        """Return which of the kept rounds is meant: the selected one may be the last.

        Raises:
            ConfigError: It is neither of the two.
            CheckpointError: No round was selected.
        """
        if round not in ("last", "selected"):
            raise ConfigError(f"A model is of the round 'last' or 'selected'. Got {round!r}.")
        manifest = self.run.folder.manifest()
        is_last = manifest.snapshot(round).round == manifest.last.round
        return "last" if is_last else "selected"

    def client(self, name: str, round: Which = "last") -> Client:
        """Return a client with the model it uses.

        Args:
            name: A member, a newcomer, or a client that joined and was kept.
            round: The last round, or the one that validation data would choose.

        Raises:
            RunError: The run lacks what is needed.
            UnknownNameError: It has no such client.
        """
        joined = {} if self.index is None else self.index.joined
        if name in joined:
            assert self.index is not None
            return self._kept(name, joined[name], "last", self.index.joined_models[name], "joined")
        who = self.who(name)
        if who is None:
            known = [*self.clients, *joined]
            raise UnknownNameError(
                f"{self.path} has no client {name!r}.{did_you_mean(name, known)} The first of "
                f"{len(known)} are: {', '.join(known[:5])}."
            )
        which = self.which(round)
        kept_models = {} if self.index is None else self.index.models.get(which, {})
        if name in kept_models:
            return self._kept(name, who, which, kept_models[name], which)
        plan = self.plan
        with self.run.folder.reading(which) as committed, one_thread():
            serving = last_serving(plan, committed)
            task = ClientTask(name, committed.get(name))
            params = serving.personal(plan.method, plan.population, task)
        return self.made(name, who, committed.round, params)

    def _kept(self, name: str, who: Who, which: Which, kept: Kept, place: str) -> Client:
        with self.run.folder.reading(which) as committed:
            server: ServerState = committed.server()
        params = read_model(self.path, place, name, kept, server.shared)
        return self.made(name, who, committed.round, params)

    def made(self, name: str, who: Who, round: int, params: Params) -> Client:
        """Return a client with some parameters."""
        config = self.run.config
        facts = ClientFacts(
            name=name,
            role=who.role,
            group=who.group,
            samples=who.samples,
            gave=None if who.role == "member" else self.rule,
            round=round,
            info=self.info,
            class_names=self.class_names,
            method=dict(config.method),
            model=str(config.model),
            data=Path(config.data.removeprefix(OBJECT)).name,  # where it lay is nobody's affair
            preparation=self.run.folder.preparation(),
        )
        return Client(facts, self.method, params, self)
