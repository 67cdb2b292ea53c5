"""The card of one client: what is typical of it, beside the federation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from duotone.data.dataset import Array
from duotone.errors import DuotoneError
from duotone.explain.card import plain
from duotone.explain.card_page import html_page, html_part
from duotone.explain.witnesses import Federation
from duotone.measures.asked import as_answers
from duotone.measures.sheet import pixels
from duotone.runs import Run
from duotone.runs.client import Client
from duotone.types import ClientData

_NEAR = 3
_LOOKED_AT = 500
_WRITTEN_DOWN = "what the run wrote down of all clients' answers and codes"


@dataclass(frozen=True, slots=True)
class Habit:
    """How often a client names a class, beside the others.

    Attributes:
        name: The class, or "value".
        own: Mean of what it says of the federation's samples.
        members: The same over those it is compared with, see :attr:`ClientCard.others`; ``None``
            where there is nobody.
        held: Share of the class among its own training samples; ``None`` where that is unknown.
    """

    name: str
    own: float
    members: float | None
    held: float | None


@dataclass(frozen=True, slots=True)
class CodeLine:
    """One dimension of the local code.

    Attributes:
        dimension: Its number.
        own: The client's mean.
        members: Mean of members' means.
        away: Their difference in standard deviations of members' means.
    """

    dimension: int
    own: float
    members: float
    away: float


@dataclass(frozen=True, slots=True)
class ClientCard:
    """What is typical of a client.

    Attributes:
        client: Its name.
        role: Member or newcomer.
        group: Its group.
        method: The method of the run.
        sentences: The card in plain words.
        habits: What it says of anything.
        nearest: Clients that answer most like it, with their distance.
        farthest: Clients that answer least like it.
        flips: How often other members decide differently on its samples, by name.
        concepts: Its weights of the concepts, beside the members' mean, where there are any.
        codes: The dimensions of its local code that lie farthest from the members'.
        prototypes: Numbers of own training samples that are most typical, by class.
        pictures: Those samples, if they are images; only ever its own.
        unlike_shared: Share of its own samples on which the shared model decides differently;
            ``None`` where there is no such model.
        needed: What was needed for it.
        others: Whom its habits are compared with: members, or the shared model where the client
            keeps the run alone.
    """

    client: str
    role: str
    group: str
    method: str
    sentences: tuple[str, ...]
    habits: tuple[Habit, ...]
    nearest: tuple[tuple[str, float], ...]
    farthest: tuple[tuple[str, float], ...]
    flips: dict[str, float]
    concepts: tuple[tuple[str, float, float], ...]
    codes: tuple[CodeLine, ...]
    prototypes: tuple[tuple[str, int], ...]
    pictures: Array | None
    unlike_shared: float | None
    needed: tuple[str, ...]
    others: str = "members"

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    def as_json(self) -> dict[str, Any]:
        """Return everything but pictures, for machines."""
        content: dict[str, Any] = plain(asdict(replace(self, pictures=None)))
        content.pop("pictures")
        return content

    def html(self) -> str:
        """Return the card as a page that needs nothing else."""
        return html_page(f"What is typical of client {self.client}", self._repr_html_())

    def _repr_html_(self) -> str:
        return html_part(self, "client.html.j2")


def client_card(run: Run, name: str) -> ClientCard:
    """Return what is typical of a client of a finished run.

    Raises:
        RunError: The run is not finished, or what is needed is not at hand.
        UnknownNameError: It has no such client.
    """
    opened = run.client(name).opened
    assert opened is not None
    return client_card_within(Federation(opened), name)


def client_card_within(federation: Federation, name: str) -> ClientCard:
    """Return the same with models that are open already, for those who ask more than once."""
    run, client = federation.opened.run, federation.client(name)
    own = federation.own_samples(name)
    others = _others(federation)
    habits = _habits(federation, client, own, others)
    near = tuple(sorted(federation.distances(name).items(), key=lambda pair: pair[1]))
    flips = {} if federation.table is None else federation.table.flips.get(name, {})
    unlike = _unlike_shared(federation, client, own)
    prototypes, pictures = _prototypes(client, own)
    return ClientCard(
        client=name,
        role=client.role,
        group=client.facts.group,
        method=client.method.name,
        sentences=tuple(_sentences(client, habits, near, flips, unlike, federation)),
        habits=habits,
        nearest=near[:_NEAR],
        farthest=tuple(reversed(near[-_NEAR:])) if len(near) > _NEAR else (),
        flips=flips,
        concepts=_concepts(run, federation, name),
        codes=_codes(run, name),
        prototypes=prototypes,
        pictures=pictures,
        unlike_shared=unlike,
        needed=(
            *(() if federation.is_one_client else (_WRITTEN_DOWN,)),
            *(() if own is None else (f"own training samples of {name}",)),
        ),
        others="shared" if federation.is_one_client else "members",
    )


def _others(federation: Federation) -> list[Client]:
    """Return whom a client is compared with: members, or the shared model where it is alone."""
    if not federation.is_one_client:
        return [federation.client(name) for name in federation.members]
    try:
        return [federation.shared_model]
    except DuotoneError:  # the shared part alone answers nothing
        return []


def _habits(
    federation: Federation, client: Client, own: ClientData | None, others: list[Client]
) -> tuple[Habit, ...]:
    usual = federation.usual(client)
    members: list[float | None] = [None] * len(usual)
    if others:
        members = np.mean([federation.usual(other) for other in others], axis=0).tolist()
    names = client.class_names
    if not names:
        return (Habit("value", float(usual[0]), members[0], None),)
    held: list[float | None] = [None] * len(names)
    if own is not None:
        labels = own.labels.numpy()
        counts = np.bincount(labels[labels >= 0], minlength=len(names))
        held = [float(count) / max(1, int(counts.sum())) for count in counts]
    return tuple(
        Habit(name, float(mine), mean, share)
        for name, mine, mean, share in zip(names, usual, members, held, strict=True)
    )


def _unlike_shared(federation: Federation, client: Client, own: ClientData | None) -> float | None:
    """Return how often the shared model decides differently on own samples."""
    if own is None or client.facts.info.task != "classes":
        return None
    try:
        shared = federation.shared_model
    except DuotoneError:  # the shared part alone answers nothing
        return None
    x = own.x[:_LOOKED_AT]
    mine, theirs = (as_answers(c.scores_from(x), own.info).argmax(axis=1) for c in (client, shared))
    return float((mine != theirs).mean())


def concept_weights(run: Run) -> dict[str, dict[str, float]]:
    """Return the weights of each concept by client, as of the last round; empty without any."""
    if run.metrics.is_empty():  # a client that keeps the run alone has no scores in it
        return {}
    last = run.metrics.filter(
        (run.metrics["round"] == run.metrics["round"].max())
        & run.metrics["metric"].str.starts_with("concept.")
    )
    weights: dict[str, dict[str, float]] = {}
    for client, metric, value in last.select("client", "metric", "value").iter_rows():
        weights.setdefault(metric, {})[client] = value
    return weights


def _concepts(run: Run, federation: Federation, name: str) -> tuple[tuple[str, float, float], ...]:
    """Return a client's weights of the concepts beside the members' mean."""
    weights = concept_weights(run)
    found = []
    for metric, by_client in weights.items():
        members = [by_client[n] for n in federation.members if n in by_client]
        if name in by_client and members:
            mean = float(np.mean(members))
            found.append((metric.removeprefix("concept."), by_client[name], mean))
    return tuple(found)


def _codes(run: Run, name: str) -> tuple[CodeLine, ...]:
    """Return the dimensions of the local code in which a client lies farthest from members."""
    if not (run.path / "latents.npz").exists():
        return ()
    codes: Mapping[str, Array] = run.latents
    local, client, kind = codes["local"], codes["client"], codes["kind"]
    members = [n for n in dict.fromkeys(client.tolist()) if (kind[client == n] == "member").all()]
    if not local.shape[1] or name not in client or len(members) < 2:
        return ()
    means = np.stack([local[client == n].mean(axis=0) for n in members])
    mine, mean, spread = local[client == name].mean(axis=0), means.mean(axis=0), means.std(axis=0)
    away = np.divide(mine - mean, spread, out=np.zeros_like(mean), where=spread > 1e-12)
    order = np.argsort(-np.abs(away))[:_NEAR]
    return tuple(CodeLine(int(d), float(mine[d]), float(mean[d]), float(away[d])) for d in order)


def _prototypes(
    client: Client, own: ClientData | None
) -> tuple[tuple[tuple[str, int], ...], Array | None]:
    """Return the own sample of each class whose code is nearest to the class's mean code."""
    if own is None or client.facts.info.task != "classes":
        return (), None
    own = own.first(_LOOKED_AT)
    latents = client.encode_from(own.x)
    parts = [part.flatten(1) for part in (latents.shared, latents.local) if part.shape[1]]
    labels = own.labels.numpy()
    found: list[tuple[str, int]] = []
    for number, name in enumerate(client.class_names):
        rows = np.flatnonzero(labels == number)
        if len(rows):
            codes = np.concatenate([part[rows].double().numpy() for part in parts], axis=1)
            distance = np.linalg.norm(codes - codes.mean(axis=0), axis=1)
            found.append((name, int(rows[distance.argmin()])))
    chosen = [row for _, row in found]
    return tuple(found), pixels(own.x[chosen]) if own.info.is_image else None


def _sentences(
    client: Client,
    habits: tuple[Habit, ...],
    near: tuple[tuple[str, float], ...],
    flips: Mapping[str, float],
    unlike: float | None,
    federation: Federation,
) -> list[str]:
    name = client.name
    they, do, where = "others", "do", "the federation's samples"
    if federation.is_one_client:
        they, do, where = "the shared model", "does", "its own test samples"
    seen = f"{client.facts.samples} training samples"
    lines = [f"Client {name} is a {client.role} with {seen}."]
    compared = [(own, own.members) for own in habits if own.members is not None]
    if client.class_names and compared:
        most, members = max(compared, key=lambda pair: pair[0].own - pair[1])
        if most.own - members < 0.02:
            lines.append(f"It names classes as often as {they} {do}.")
        else:
            lines.append(
                f"It says {most.name} more often than {they}: {most.own:.0%} of {where} against "
                f"{members:.0%}."
            )
    if near:
        lines.append(f"It answers most like {near[0][0]} and least like {near[-1][0]}.")
    if flips:
        mean = sum(flips.values()) / len(flips)
        lines.append(f"On its own samples, other members decide differently in {mean:.0%}.")
    if unlike is not None:
        lines.append(f"The shared model decides differently on {unlike:.0%} of them.")
    return lines


def _lines(card: ClientCard) -> list[str]:
    width = max(8, *(len(own.name) for own in card.habits))
    lines = [" ".join(card.sentences), "", f"{'':<{width}}     says{card.others:>9}     held"]
    for own in card.habits:
        held = "        –" if own.held is None else f"{own.held:9.3f}"
        mean = "        –" if own.members is None else f"{own.members:9.3f}"
        lines.append(f"{own.name:<{width}}{own.own:9.3f}{mean}{held}")
    for words, pairs in (("Nearest", card.nearest), ("Farthest", card.farthest)):
        if pairs:
            told = ", ".join(f"{name} ({distance:.2f})" for name, distance in pairs)
            lines += ["", f"{words} in how they answer: {told}."]
    if card.concepts:
        told = ", ".join(f"{n}: {own:.2f} (members {mean:.2f})" for n, own, mean in card.concepts)
        lines += ["", f"Weights of concepts: {told}."]
    if card.codes:
        told = ", ".join(f"dimension {own.dimension} {own.away:+.1f}" for own in card.codes)
        lines += ["", f"Local code, in standard deviations from the members' mean: {told}."]
    if card.prototypes:
        told = ", ".join(f"{name} (#{row})" for name, row in card.prototypes)
        lines += ["", f"Its most typical own training samples: {told}."]
    return [*lines, "", f"Needed: {'; '.join(card.needed)}."]
