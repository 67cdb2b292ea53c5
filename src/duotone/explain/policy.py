"""A policy: limits on what the local part may do to predictions, and what they cost.

A TOML file says it::

    [layers]
    norm1 = 0.5            # half way from the client's own layer to the members' mean
    [habit]
    toward_mean = 1.0      # takes off what the client says of anything, all of it
    [codes]                # dimensions of the local code, or concepts, by number
    freeze = [0]           # always the client's own mean
    blank = [1]            # always the members' mean
    toward_mean = { 2 = 0.5 }
    cap = { 3 = 2.0 }      # at most so many of its standard deviations from its mean
    merge = [[4, 5]]       # concepts that count as one
    names = { 4 = "portable X-ray" }
    [flag]
    outside = 4.0          # inputs whose code lies farther from what the client ever showed

Nothing in the run is changed; the report says what would be different.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from duotone.config import read_toml
from duotone.errors import ConfigError
from duotone.explain.card import plain
from duotone.explain.card_page import html_page, html_part
from duotone.explain.layers import local_layers
from duotone.explain.witnesses import Federation
from duotone.federation.backends.serial import one_thread
from duotone.federation.protocols import ExchangesCodes
from duotone.networks.reading import BATCH
from duotone.runs import Run
from duotone.runs.client import Client
from duotone.types import Params

Amount = Annotated[float, Field(ge=0, le=1)]


class _Rules(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class HabitRules(_Rules):
    """What is done to habits."""

    toward_mean: Amount = 0.0


class CodeRules(_Rules):
    """What is done to dimensions of the local code."""

    freeze: tuple[int, ...] = ()
    blank: tuple[int, ...] = ()
    toward_mean: Mapping[int, Amount] = Field(default_factory=dict)
    cap: Mapping[int, Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    merge: tuple[tuple[int, ...], ...] = ()
    names: Mapping[int, str] = Field(default_factory=dict)

    @property
    def changed(self) -> set[int]:
        """The dimensions that are touched."""
        merged = {number for group in self.merge for number in group}
        return {*self.freeze, *self.blank, *self.toward_mean, *self.cap} | merged


class FlagRules(_Rules):
    """Which inputs are flagged."""

    outside: Annotated[float, Field(gt=0)] | None = None


class Policy(_Rules):
    """Limits on what the local part may do."""

    layers: Mapping[str, Amount] = Field(default_factory=dict)
    habit: HabitRules = HabitRules()
    codes: CodeRules = CodeRules()
    flag: FlagRules = FlagRules()


def read_policy(path: Path) -> Policy:
    """Read a policy.

    Raises:
        ConfigError: The file is missing or says what no policy can.
    """
    try:
        return Policy.model_validate(read_toml(path))
    except ValidationError as error:
        problems = [
            f"{path}: {'.'.join(map(str, e['loc']))}: {e['msg'].lower()}. Got {e['input']!r}."
            for e in error.errors()
        ]
        raise ConfigError(*problems) from error


@dataclass(frozen=True, slots=True)
class GroupEffect:
    """What a policy does to the clients of one group, on their test samples.

    Attributes:
        group: The group.
        clients: How many clients it has.
        samples: How many test samples.
        before: Accuracy without the policy.
        after: Accuracy with it.
        changed: Share of decisions that change.
        flagged: Share of inputs that are flagged.
    """

    group: str
    clients: int
    samples: int
    before: float
    after: float
    changed: float
    flagged: float


@dataclass(frozen=True, slots=True)
class PolicyCard:
    """What a policy does, group by group.

    Attributes:
        rules: The policy, in words.
        groups: What it does to each group.
    """

    rules: tuple[str, ...]
    groups: tuple[GroupEffect, ...]

    def __str__(self) -> str:
        width = max(8, *(len(own.group) for own in self.groups))
        lines = [*self.rules, "", f"{'group':<{width}}   before    after  changed  flagged"]
        for own in self.groups:
            values = (own.before, own.after, own.changed, own.flagged)
            lines.append(f"{own.group:<{width}}" + "".join(f"{value:9.1%}" for value in values))
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """Return the card for machines."""
        content: dict[str, Any] = plain(asdict(self))
        return content

    def html(self) -> str:
        """Return the card as a page that needs nothing else."""
        return html_page("What the policy does", self._repr_html_())

    def _repr_html_(self) -> str:
        return html_part(self, "policy.html.j2")


def policy_card(run: Run, policy: Policy, client: str | None = None) -> PolicyCard:
    """Try a policy on test samples; nothing in the run changes.

    Args:
        run: A finished run that predicts classes.
        policy: The policy.
        client: One client, by default all.

    Raises:
        ConfigError: The run has no such layer or dimension, or predicts numbers.
        RunError: The data is not at hand.
    """
    opened = run.client(client or _first(run)).opened
    assert opened is not None
    if opened.info.task != "classes":
        raise ConfigError("A policy is judged by decisions; this run predicts numbers.")
    names = [client] if client is not None else list(opened.plan.population.partition)
    return tried(Federation(opened), policy, names)


def tried(federation: Federation, policy: Policy, names: Sequence[str]) -> PolicyCard:
    """Try a policy on the test samples of some clients, with models that are open already."""
    population = federation.opened.plan.population
    found: dict[str, list[tuple[float, float, float, float, int]]] = {}
    for name in names:
        own = population.data(name, "test")
        if not len(own):
            continue
        governed = Governed(federation, federation.client(name), policy)
        before = federation.client(name).scores_from(own.x).argmax(dim=1)
        after = governed.scores_from(own.x).argmax(dim=1)
        shares = (before == own.labels, after == own.labels, before != after, governed.flags(own.x))
        one, two, three, four = (float(share.double().sum()) for share in shares)
        group = population.partition[name].group or "all"
        found.setdefault(group, []).append((one, two, three, four, len(own)))
    return PolicyCard(tuple(_words(policy)), tuple(_effect(*pair) for pair in found.items()))


def _first(run: Run) -> str:
    return str(next(iter(run.metrics.filter(run.metrics["client"] != "")["client"])))


def _effect(group: str, rows: Sequence[tuple[float, float, float, float, int]]) -> GroupEffect:
    *sums, samples = np.sum(rows, axis=0)
    before, after, changed, flagged = (float(value / samples) for value in sums)
    return GroupEffect(group, len(rows), int(samples), before, after, changed, flagged)


class Governed:
    """A client that predicts under a policy.

    Args:
        federation: The run.
        client: The client.
        policy: The policy.

    Raises:
        ConfigError: There is no such layer or dimension.
    """

    def __init__(self, federation: Federation, client: Client, policy: Policy) -> None:
        self.policy = policy
        others = [c.params for c in federation.others(client)]
        params = _toward_mean(client, others, policy.layers)
        self.client = Client(client.facts, client.method, params, client.opened)
        share = policy.habit.toward_mean
        self.shift: Tensor | float = 0.0
        if share:
            members = [federation.usual(federation.client(name)) for name in federation.members]
            own, usual = federation.usual(client), np.mean(members, axis=0)
            ratio = np.log(np.clip(usual, 1e-6, 1) / np.clip(own, 1e-6, 1))
            self.shift = share * torch.from_numpy(ratio)
        self.needs_codes = bool(policy.codes.changed or policy.flag.outside)
        if self.needs_codes:
            self._learn_codes(federation)

    def _learn_codes(self, federation: Federation) -> None:
        """Find what the client's local codes usually are, and those of everybody."""
        name, method = self.client.name, self.client.method
        own = federation.own_samples(name)
        if own is None or (self.policy.codes.changed and not isinstance(method, ExchangesCodes)):
            raise ConfigError(
                f"The policy changes codes, which {method.name} cannot exchange, or the samples of "
                f"client {name!r} are not at hand."
            )
        codes = self.client.encode_from(own.x).local.double()
        width = codes.shape[1]
        wrong = sorted(number for number in self.policy.codes.changed if not 0 <= number < width)
        if not width or wrong:
            raise ConfigError(
                f"The local code of {method.name} has {width} dimensions, from 0; the policy names "
                f"{wrong or 'its codes'}."
            )
        self.mean, self.std = codes.mean(dim=0), codes.std(dim=0).clamp_min(1e-9)
        self.everybody = self.client.encode_from(federation.background).local.double().mean(dim=0)

    def scores_from(self, x: Tensor) -> Tensor:
        """Return scores under the policy."""
        if not self.policy.codes.changed:
            return self._without_habit(self.client.scores_from(x))
        network, method = self.client.model(), self.client.method
        assert isinstance(method, ExchangesCodes)
        with torch.inference_mode(), one_thread():
            pieces = [
                method.predict_with(network, part, self._codes(part))
                for part in torch.split(x, BATCH)
            ]
        return self._without_habit(torch.cat(pieces).double())

    def _without_habit(self, scores: Tensor) -> Tensor:
        return scores.log_softmax(dim=1) + self.shift

    def _codes(self, x: Tensor) -> Tensor:
        """Return local codes as the policy has them."""
        rules, codes = self.policy.codes, self.client.encode_from(x).local.double().clone()
        for number in rules.freeze:
            codes[:, number] = self.mean[number]
        for number in rules.blank:
            codes[:, number] = self.everybody[number]
        for number, amount in rules.toward_mean.items():
            codes[:, number] += amount * (self.everybody[number] - codes[:, number])
        for number, most in rules.cap.items():
            reach = most * self.std[number]
            codes[:, number] = codes[:, number].clamp(
                self.mean[number] - reach, self.mean[number] + reach
            )
        for group in rules.merge:
            codes[:, group] = codes[:, group].mean(dim=1, keepdim=True).expand(-1, len(group))
        return codes.float()

    def flags(self, x: Tensor) -> Tensor:
        """Say of each input whether its local code lies outside what the client ever showed."""
        most = self.policy.flag.outside
        if most is None:
            return torch.zeros(len(x), dtype=torch.bool)
        codes = self.client.encode_from(x).local.double()
        return (((codes - self.mean) / self.std).abs() > most).any(dim=1)


def _toward_mean(
    client: Client, others: Sequence[Params], amounts: Mapping[str, float]
) -> dict[str, Tensor]:
    """Return a client's parameters with layers moved towards the mean of all members."""
    params = dict(client.params)
    if not amounts:
        return params
    layers = local_layers(client, others)
    for layer, amount in amounts.items():
        if layer not in layers:
            known = ", ".join(layers) or "none"
            raise ConfigError(
                f"The policy names the layer {layer!r}, which is not local. Local layers: {known}."
            )
        for name in layers[layer]:
            if params[name].is_floating_point():
                mean = torch.stack([params[name], *(other[name] for other in others)]).mean(dim=0)
                params[name] = torch.lerp(params[name], mean, amount)
    return params


def _words(policy: Policy) -> list[str]:
    """Return the policy in words, a line for each rule."""
    codes = policy.codes

    def called(number: int) -> str:
        return codes.names.get(number, f"local {number}")

    lines = [f"Layer {name}: {amount:.0%} members' mean." for name, amount in policy.layers.items()]
    if policy.habit.toward_mean:
        lines.append(f"Habits: {policy.habit.toward_mean:.0%} taken off.")
    lines += [f"{called(number)}: frozen at the client's own mean." for number in codes.freeze]
    lines += [f"{called(number)}: blanked to the members' mean." for number in codes.blank]
    lines += [
        f"{called(n)}: {amount:.0%} members' mean." for n, amount in codes.toward_mean.items()
    ]
    lines += [f"{called(n)}: at most {most:g} deviations." for n, most in codes.cap.items()]
    lines += [f"{' and '.join(map(called, group))} count as one." for group in codes.merge]
    if policy.flag.outside is not None:
        lines.append(f"Inputs are flagged beyond {policy.flag.outside:g} deviations.")
    return lines or ["The policy changes nothing."]
