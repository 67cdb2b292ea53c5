"""Re-style samples: client A's drawn as client B would have them, and what that gives away.

A client takes its style off its own samples, another puts its own on. Judges say whether the label
is kept and the new style is there. Two attackers say whether the source can still be told: one
learnt from real samples, the other knows the method and learnt from re-styled ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, TypedDict, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from duotone.evaluation.clients import BATCH, Serving, by_client
from duotone.evaluation.decoding import Codes, decode_codes
from duotone.evaluation.judges import Agreement, Judges, agreement, judging_network, measured
from duotone.evaluation.metrics import Direction
from duotone.evaluation.summary import Score
from duotone.evaluation.swap import Agreements, Pair, by_content
from duotone.federation.backends import Backend, ClientTask
from duotone.federation.backends.serial import one_thread
from duotone.federation.engine import ClientStates
from duotone.federation.method import Decodes, Method, Restyles, stored
from duotone.partition.partition import Population
from duotone.seeding import derive, stream
from duotone.types import DataInfo, Kind, Params, Split

Numbers: TypeAlias = NDArray[np.int64]

SAMPLES = 100
"""Test samples of each client that are re-styled and judged."""
SHOWN = 6000
"""Re-styled training samples of all pairs together that the informed attacker learns from."""
_STYLES = 200
_STEPS, _BATCH, _LR = 240, 64, 3e-3


# -- drawing


@dataclass(frozen=True, slots=True)
class Stylist:
    """A client that takes its style off its own samples, and puts it on others'.

    Attributes:
        client: Its name.
        kind: Member or newcomer.
        params: Its model.
        content: By split, what is left of its samples.
        styles: Local codes of its training samples, if the method puts styles on by decoding.
    """

    client: str
    kind: Kind
    params: Params
    content: Mapping[Split, Tensor]
    styles: Codes | None


@dataclass(frozen=True, slots=True)
class TakeOffJob:
    """Take a client's style off its first samples, and hand over what its style is put on with.

    Attributes:
        serving: How the client gets its model.
        counts: How many samples of each split.
        seed: Of every random draw.
        redrawn: Whether no stroke of the samples may be left.
    """

    serving: Serving
    counts: Mapping[Split, int]
    seed: int
    redrawn: bool

    def __call__(self, method: Method, population: Population, task: ClientTask) -> Stylist:
        """Return the client as a stylist."""
        model = self.serving.model(method, population, task)
        client = task.client
        parts = {
            split: population.data(client, split).first(count).x
            for split, count in self.counts.items()
        }
        x = torch.cat([*parts.values()])
        content = taken_off(method, model, x, self.seed, client, redrawn=self.redrawn)
        split_up = torch.split(content, [len(x) for x in parts.values()])
        return Stylist(
            client,
            population.partition[client].kind,
            {name: stored(tensor) for name, tensor in model.state_dict().items()},
            dict(zip(parts, split_up, strict=True)),
            own_styles(method, model, population.data(client).first(_STYLES).x),
        )


def restyles(method: Method) -> bool:
    """Say whether a method can draw one client's samples as another would have them."""
    return isinstance(method, Restyles | Decodes)


@torch.no_grad()
def taken_off(
    method: Method, model: nn.Module, x: Tensor, seed: int, client: str, *, redrawn: bool
) -> Tensor:
    """Return what is left of a client's samples without its style.

    Args:
        method: What was trained.
        model: The client's.
        x: The samples.
        seed: Of every random draw.
        client: Whose samples they are.
        redrawn: Whether no stroke of the samples may be left; codes have none.
    """
    if isinstance(method, Restyles):
        generator = torch.Generator().manual_seed(derive(seed, "restyle", "take-off", client))
        return method.take_off(model, x.to(method.device), generator, redrawn=redrawn).cpu()
    return torch.cat(
        [
            method.encode(model, part.to(method.device)).shared.cpu()
            for part in torch.split(x, BATCH)
        ]
    )


@torch.no_grad()
def own_styles(method: Method, model: nn.Module, x: Tensor) -> Codes | None:
    """Return local codes of a client's samples, if its style is put on by decoding them."""
    if isinstance(method, Restyles):
        return None
    parts = [
        method.encode(model, part.to(method.device)).local.cpu() for part in torch.split(x, BATCH)
    ]
    codes: Codes = torch.cat(parts).numpy()
    return codes


@torch.no_grad()
def put_on(
    method: Method,
    model: nn.Module,
    content: Tensor,
    styles: Codes | None,
    seed: int,
    *names: str,
) -> Tensor:
    """Return samples of some content in a client's style.

    Args:
        method: What was trained.
        model: The client's.
        content: From :func:`taken_off`, of any client.
        styles: From :func:`own_styles`, of this client.
        seed: Of the choice of styles.
        names: Of the random stream: whose content it is, and what for.
    """
    generator = torch.Generator().manual_seed(derive(seed, "restyle", "put-on", *names))
    if isinstance(method, Restyles):
        return method.put_on(model, content.to(method.device), generator).float().cpu()
    assert isinstance(method, Decodes)
    assert styles is not None
    rows = torch.randint(len(styles), (len(content),), generator=generator).numpy()
    return decode_codes(method, model, content.numpy(), styles[rows])


# -- attacking


def train_attacker(
    x: Tensor, source: Numbers, info: DataInfo, seed: int, name: str, *, turns: int = 1
) -> nn.Module:
    """Train a network that says whose a sample is; every source is shown to it as often.

    Args:
        x: Samples.
        source: Of each the number of the client it comes from.
        info: The form of the samples.
        seed: Of weights and batches.
        name: Of the random streams.
        turns: How many times as long as usual it learns.
    """
    steps = turns * _STEPS
    sources, counts = np.unique(source, return_counts=True)
    share = np.zeros(int(sources.max()) + 1)
    share[sources] = 1 / (len(sources) * counts)
    drawn = stream(seed, "attacker", name).choice(
        len(source), size=(steps, _BATCH), p=share[source]
    )
    truth = torch.from_numpy(source)
    with torch.random.fork_rng(devices=[]), one_thread():
        torch.manual_seed(derive(seed, "attacker", name, "network"))
        network = judging_network(info.shape, len(share))
        optimizer = torch.optim.Adam(network.parameters(), _LR)
        for step, batch in enumerate(drawn):
            optimizer.param_groups[0]["lr"] = _LR * (1 - step / steps)
            loss = functional.cross_entropy(network(x[batch]), truth[batch])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return network.eval()


@torch.inference_mode()
def named_source(attacker: nn.Module, x: Tensor) -> Numbers:
    """Return the number of the client that an attacker takes each sample for."""
    with one_thread():
        found: Numbers = torch.cat(
            [attacker(part).argmax(1) for part in torch.split(x, BATCH)]
        ).numpy()
    return found


def guessed_source(labels: Sequence[Numbers], asked: Numbers) -> Numbers:
    """Return whose samples are, as far as their labels alone tell.

    Args:
        labels: For each client the labels of its training samples.
        asked: Labels of the samples in question.
    """
    classes = 1 + max(int(found.max(initial=0)) for found in (*labels, asked))
    shares = [np.bincount(found, minlength=classes) / max(1, len(found)) for found in labels]
    guess: Numbers = np.argmax(np.stack(shares), axis=0)[asked]
    return guess


# -- scoring


class RestyledPair(TypedDict, total=False):
    """What was found of one client's samples in another's style; what was not asked is left out."""

    source: str
    target: str
    label_kept: float
    target_style: float
    attacker: float
    attacker_informed: float


@dataclass(frozen=True, slots=True)
class RestyleResult:
    """What re-styled samples show.

    Attributes:
        scores: By name, see :func:`restyle_scores`.
        pairs: One entry per pair of different clients.
    """

    scores: dict[str, Score]
    pairs: list[RestyledPair]


def find_stylists(
    chosen: Sequence[str],
    serving: Serving,
    population: Population,
    states: ClientStates,
    backend: Backend,
    *,
    shown: int,
    tested: int = SAMPLES,
    redrawn: bool = False,
) -> list[Stylist]:
    """Let some clients take their styles off.

    Args:
        chosen: The clients.
        serving: How they get their models.
        population: Every client's samples.
        states: The members' states.
        backend: Where to compute.
        shown: Training samples of each, for the informed attacker.
        tested: Test samples of each, to be judged.
        redrawn: Whether no stroke of the samples may be left.
    """
    job = TakeOffJob(serving, {"train": shown, "test": tested}, serving.info.seed, redrawn)
    found = by_client(job, chosen, population, states, backend)
    return [found[client] for client in chosen]


def restyle_scores(
    method: Method,
    judges: Judges,
    stylists: Sequence[Stylist],
    population: Population,
    seed: int,
    *,
    for_newcomers: Judges | None = None,
) -> RestyleResult:
    """Re-style test samples of every client as every other would have them, and score them.

    ``restyle.label_kept`` is the share judged to show the label of the original, and
    ``restyle.target_style`` the share judged to be in the style of the target, both over pairs of
    members whose styles differ; methods that decode have them as ``swap.label`` and ``swap.style``.
    ``restyle.attacker`` is the share of samples whose source is named by an attacker who learnt
    from real training samples, ``restyle.attacker_informed`` by one who learnt from re-styled
    training samples of all clients, the target's own among them. Beside them stand ``.judge`` (the
    same judges or attacker on the originals), ``.chance`` (of attackers: what the labels alone
    tell) and ``.newcomers`` (with a newcomer on at least one side).

    Args:
        method: What was trained.
        judges: What reads members' samples.
        stylists: At least two clients.
        population: Every client's samples.
        seed: Of every random draw.
        for_newcomers: What reads samples where a newcomer is concerned, if not the same judges.
    """
    attackers = {
        "attacker": attacker_by_originals(stylists, population, seed),
        "attacker_informed": attacker_by_restyled(
            method, stylists, stylists, population.info, seed
        ),
    }
    is_judged_by_swaps = isinstance(method, Decodes)
    newcomers = {stylist.client for stylist in stylists if stylist.kind == "newcomer"}
    found: dict[Pair, Agreements] = {}
    for target in stylists:
        model = method.load(target.params, population.info).eval()
        for number, source in enumerate(stylists):
            pair = (source.client, target.client)
            if source is target:
                continue
            x = drawn_as(method, model, source, target, "test", seed)
            found[pair] = {name: _named(one, x, number) for name, one in attackers.items()}
            if not is_judged_by_swaps:
                is_new = bool(newcomers & set(pair))
                reader = for_newcomers if is_new and for_newcomers is not None else judges
                found[pair] |= _read(reader, population, pair, x)
    originals = {
        source.client: _named(attackers["attacker"], originals_of(source, population, "test"), i)
        for i, source in enumerate(stylists)
    }
    by_label = _by_label(stylists, population)
    scores: dict[str, Score | None] = {}
    for suffix in ("", ".newcomers"):
        pairs = {p: a for p, a in found.items() if bool(newcomers & set(p)) == bool(suffix)}
        reader = for_newcomers if suffix and for_newcomers is not None else judges
        some = sorted({source for source, _ in pairs})
        rng = stream(seed, "restyle", "bootstrap", suffix)
        scores |= {
            f"restyle.{name}{suffix}": score
            for name, score in _scores(pairs, reader, population, originals, by_label, some, rng)
        }
    known = {name: score for name, score in sorted(scores.items()) if score is not None}
    return RestyleResult(known, [_row(pair, agreed) for pair, agreed in found.items()])


def drawn_as(
    method: Method, model: nn.Module, source: Stylist, target: Stylist, split: Split, seed: int
) -> Tensor:
    """Return a client's samples as another would have them.

    Args:
        method: What was trained.
        model: The target's.
        source: Whose samples.
        target: Whose style.
        split: Which samples.
        seed: Of the choice of styles.
    """
    names = (source.client, target.client, split)
    return put_on(method, model, source.content[split], target.styles, seed, *names)


def originals_of(stylist: Stylist, population: Population, split: Split) -> Tensor:
    """Return the samples that a client took its style off."""
    return population.data(stylist.client, split).first(len(stylist.content[split])).x


def attacker_by_originals(
    stylists: Sequence[Stylist], population: Population, seed: int, *, turns: int = 1
) -> nn.Module:
    """Train an attacker on real training samples."""
    parts = [
        population.data(stylist.client).first(SHOWN // len(stylists)).x for stylist in stylists
    ]
    source = np.repeat(np.arange(len(parts)), [len(x) for x in parts])
    return train_attacker(torch.cat(parts), source, population.info, seed, "real", turns=turns)


def attacker_by_restyled(
    method: Method,
    sources: Sequence[Stylist],
    targets: Sequence[Stylist],
    info: DataInfo,
    seed: int,
) -> nn.Module:
    """Train an attacker on training samples that were re-styled, and whose source it is told."""
    parts: list[Tensor] = []
    for target in targets:
        model = method.load(target.params, info).eval()
        parts += [drawn_as(method, model, source, target, "train", seed) for source in sources]
    numbers = np.tile(np.arange(len(sources)), len(targets))
    source = np.repeat(numbers, [len(x) for x in parts])
    return train_attacker(torch.cat(parts), source, info, seed, "informed", turns=2)


def _named(attacker: nn.Module, x: Tensor, number: int) -> Agreement:
    named = named_source(attacker, x).astype(np.float64)
    return agreement("kinds", np.full(len(x), float(number)), named)


def _read(judges: Judges, population: Population, pair: Pair, x: Tensor) -> Agreements:
    """Judge whether samples show their source's labels in their target's style."""
    source, target = pair
    rows = population.partition[source].test[: len(x)]
    truth = judges.truth(population, source, rows)
    found: Agreements = {}
    verdicts = judges.verdicts(x)
    for trait in judges.traits:
        if trait.name == "label":
            found["label_kept"] = agreement(trait.scale, truth["label"], verdicts["label"])
        elif trait.name == "style" and judges.style_of[target] in judges.styles:
            wanted = np.full(len(x), float(judges.styles.index(judges.style_of[target])))
            found["target_style"] = agreement(trait.scale, wanted, verdicts["style"])
    return found


def _by_label(stylists: Sequence[Stylist], population: Population) -> dict[str, Agreement]:
    """Return for each client how often its labels alone tell that samples are its own."""
    if population.info.task != "classes":
        return {}
    y, partition = population.dataset.y, population.partition
    labels = [y[partition[stylist.client].train] for stylist in stylists]
    found: dict[str, Agreement] = {}
    for number, stylist in enumerate(stylists):
        asked = y[partition[stylist.client].test[: len(stylist.content["test"])]]
        guess = guessed_source(labels, asked).astype(np.float64)
        found[stylist.client] = agreement("kinds", np.full(len(asked), float(number)), guess)
    return found


_DIRECTIONS: dict[str, Direction] = {
    "label_kept": "higher",
    "target_style": "higher",
    "attacker": "lower",
    "attacker_informed": "lower",
}
_JUDGED_BY = {"label_kept": "label", "target_style": "style"}


def _scores(
    pairs: Mapping[Pair, Agreements],
    judges: Judges,
    population: Population,
    originals: Mapping[str, Agreement],
    by_label: Mapping[str, Agreement],
    sources: Sequence[str],
    rng: np.random.Generator,
) -> Iterator[tuple[str, Score | None]]:
    """Yield the scores of some pairs, with what stands beside them."""
    everybody = {client: client for pair in pairs for client in pair}
    clients = [client for client in everybody if client in judges.style_of]
    worth = judges.worth(population, clients) if pairs else {}
    for name, direction in _DIRECTIONS.items():
        some = {pair: agreed[name] for pair, agreed in pairs.items() if name in agreed}
        read = _JUDGED_BY.get(name)
        used = by_content(some, judges.style_of if read else everybody)
        if not used:
            continue
        yield name, measured(used, direction, rng)
        if read:
            yield f"{name}.judge", measured(worth[read], "reference", rng)
            kinds = population.info.outputs if read == "label" else len(judges.styles)
            if kinds > 1:
                yield f"{name}.chance", Score(1 / kinds, 0.0, "reference", len(used))
            continue
        if name == "attacker":
            yield f"{name}.judge", measured([originals[c] for c in sources], "reference", rng)
        told = measured([by_label[c] for c in sources if c in by_label], "reference", rng)
        least = Score(1 / len(originals), 0.0, "reference", len(used))
        yield f"{name}.chance", least if told is None or told.value < least.value else told


def _row(pair: Pair, agreed: Agreements) -> RestyledPair:
    shares = {name: found.value for name, found in agreed.items() if found.value is not None}
    return cast(RestyledPair, {"source": pair[0], "target": pair[1], **shares})


# -- anonymising


class Named(NamedTuple):
    """How often an attacker names one client: of its own samples, and of those of others."""

    own: float
    others: float


@dataclass(frozen=True, slots=True)
class Exposure:
    """What samples of one client give away when they are drawn as another would have them.

    Measured on test samples, which neither attacker has learnt from.

    Attributes:
        source: Whose samples they are.
        target: Whose style they get.
        samples: How many of the source's were judged.
        others: How many of other clients' were.
        clients: How many clients the attackers tell apart.
        label_kept: Share judged to show the label of the original; R² where labels are numbers.
        label_read: The same of the originals.
        original: How often the source is named for originals, by an attacker who learnt from such.
        attacker: The same attacker, for re-styled samples.
        informed: An attacker who learnt from re-styled samples with their true source.
        by_label: How often labels alone name it.
    """

    source: str
    target: str
    samples: int
    others: int
    clients: int
    label_kept: float | None
    label_read: float | None
    original: Named
    attacker: Named
    informed: Named
    by_label: Named

    @property
    def chance(self) -> float:
        """How often a blind guess names the source."""
        return 1 / self.clients

    @property
    def is_found(self) -> bool:
        """Whether one of the attackers names the source more often for its own samples.

        By more than two standard errors of the difference.
        """
        return any(self._differs(named) for named in (self.attacker, self.informed))

    def _differs(self, named: Named) -> bool:
        error = named.own * (1 - named.own) / self.samples
        error += named.others * (1 - named.others) / self.others
        return named.own - named.others > 2 * math.sqrt(error)

    def as_json(self) -> dict[str, object]:
        """Return everything by name, for machines."""
        named = ("original", "attacker", "informed", "by_label")
        plain = ("source", "target", "samples", "clients", "label_kept", "label_read", "chance")
        return {
            **{name: getattr(self, name) for name in plain},
            **{name: getattr(self, name)._asdict() for name in named},
            "is_found": self.is_found,
            "statement": self.statement,
        }

    @property
    def statement(self) -> str:
        """What was measured, in sentences."""

        def said(named: Named) -> str:
            return f"{named.own:.0%} of them ({named.others:.0%} of others' samples)"

        kept = ""
        if self.label_kept is not None and self.label_read is not None:
            kept = (
                f" The label is read from {self.label_kept:.0%} of them, "
                f"from {self.label_read:.0%} of the originals."
            )
        end = (
            "The source can still be told: this is no anonymity."
            if self.is_found
            else "These attackers find no more than others' samples give; a better one may. This "
            "is a measurement, no guarantee."
        )
        return (
            f"{self.samples} held-out samples of client {self.source}, drawn as client "
            f"{self.target} would have them.{kept} Among {self.clients} clients, an attacker who "
            f"knows real samples names client {self.source} for {said(self.attacker)}; of the "
            f"originals it was {self.original.own:.0%}, chance is {self.chance:.0%}. An attacker "
            f"who knows the method as well names it for {said(self.informed)}. Labels alone: "
            f"{said(self.by_label)}. {end}"
        )


def exposure(
    method: Method,
    judges: Judges,
    stylists: Sequence[Stylist],
    source: str,
    target: str,
    population: Population,
    seed: int,
) -> Exposure:
    """Measure what a client's samples give away when they are drawn as another would have them.

    Both attackers know samples of all these clients. The informed one learns from everybody's
    training samples drawn as the target would have them, the target's own among them.
    """
    number = {stylist.client: place for place, stylist in enumerate(stylists)}
    wearer = stylists[number[target]]
    real = attacker_by_originals(stylists, population, seed, turns=2)
    informed = attacker_by_restyled(method, stylists, [wearer], population.info, seed)
    model = method.load(wearer.params, population.info).eval()
    tests = [originals_of(stylist, population, "test") for stylist in stylists]
    redrawn = [drawn_as(method, model, one, wearer, "test", seed) for one in stylists]
    own = number[source]

    def named(answers: Sequence[Numbers]) -> Named:
        hits = [found == own for found in answers]
        rest = np.concatenate([hit for place, hit in enumerate(hits) if place != own])
        return Named(float(hits[own].mean()), float(rest.mean()))

    y, partition = population.dataset.y, population.partition
    by_label = Named(1 / len(stylists), 1 / len(stylists))
    if population.info.task == "classes":
        labels = [y[partition[stylist.client].train] for stylist in stylists]
        asked = [
            y[partition[stylist.client].test[: len(x)]]
            for stylist, x in zip(stylists, tests, strict=True)
        ]
        by_label = named([guessed_source(labels, some) for some in asked])
    pair = (source, target)
    return Exposure(
        source,
        target,
        len(tests[own]),
        sum(len(x) for x in tests) - len(tests[own]),
        len(stylists),
        _read(judges, population, pair, redrawn[own])["label_kept"].value,
        _read(judges, population, pair, tests[own])["label_kept"].value,
        named([named_source(real, x) for x in tests]),
        named([named_source(real, x) for x in redrawn]),
        named([named_source(informed, x) for x in redrawn]),
        by_label,
    )
