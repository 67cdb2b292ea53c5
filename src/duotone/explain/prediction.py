"""Explain one answer of one client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from duotone.data.text import text_of
from duotone.errors import ConfigError, DataError, DuotoneError, MissingExtraError, RunError
from duotone.explain.card import SMALL, Card, ClassParts, CodeShares
from duotone.explain.code_game import code_shares
from duotone.explain.differing import difference
from duotone.explain.layers import (
    LayerShares,
    differing_tensors,
    layer_shares,
    layer_words,
    local_layers,
)
from duotone.explain.neighbours import neighbourhood
from duotone.explain.pixels import Attribution, attribution, difference_of, mean_of, output_of
from duotone.explain.through_input import ThroughInput, through_input
from duotone.explain.witnesses import REFERENCES, Compared, Federation, compare
from duotone.measures.sheet import pixels
from duotone.networks.reading import named_tensors
from duotone.runs.client import Client
from duotone.runs.explanation import Reference
from duotone.runs.inputs import Samples
from duotone.types import ClientData

_TOP = 3  # classes on a card
_PASSES = 1024  # networks that are tried to share an answer out among layers
_FOR_PIXELS = 12  # members that stand for everybody where gradients are taken


def explain(
    client: Client,
    x: Samples | None = None,
    *,
    sample: int | None = None,
    against: str | None = None,
    reference: Reference | None = None,
) -> Card:
    """Say why a client answers one sample as it does; see :meth:`Client.explain`."""
    if client.opened is None:
        raise RunError(
            f"Client {client.name!r} was exported without its run, so there is nobody to compare "
            "it with; explain it where the run is: run.client(name).explain(x)"
        )
    return explain_within(
        Federation(client.opened),
        client,
        x,
        sample=sample,
        against=against,
        reference=reference,
    )


def explain_within(
    federation: Federation,
    client: Client,
    x: Samples | None = None,
    *,
    sample: int | None = None,
    against: str | None = None,
    reference: Reference | None = None,
) -> Card:
    """Say the same with models that are open already, for those who ask more than once.

    Args:
        federation: The run of the client.
        client: The client.
        x: As for :meth:`Client.explain`, and likewise the rest.
        sample: Likewise.
        against: Likewise.
        reference: Likewise.
    """
    reference = reference or ("shared" if federation.is_one_client else "members")
    if reference not in REFERENCES:
        raise ConfigError(f"An answer is compared with 'members' or 'shared'. Got {reference!r}.")
    if reference == "members" and federation.is_one_client:
        raise RunError(
            f"{federation.opened.path} is kept by {client.name!r} alone; the local parts of other "
            "members are with them. Compare with the shared model: reference='shared'."
        )
    if client.facts.round != federation.opened.run.folder.manifest().last.round:
        raise ConfigError(
            f"Client {client.name!r} has its model of round {client.facts.round}; explanations "
            "compare models of the last round: run.client(name)"
        )
    inputs, truth = _one_sample(federation, client, x, sample)
    if against is not None and against == client.name:
        raise ConfigError(f"Client {against!r} does not differ from itself; name another client.")
    other = None if against is None else federation.client(against)
    return _Explainer(federation, client, inputs, reference).card(other, truth)


def _one_sample(
    federation: Federation, client: Client, x: Samples | None, sample: int | None
) -> tuple[Tensor, str | None]:
    """Return the sample to explain, and its true label if it is one of the client's own."""
    if (x is None) == (sample is None):
        raise ConfigError("Give one sample as x, or the number of an own test sample, not both.")
    if x is not None:
        inputs = client.inputs(x)
        if len(inputs) != 1:
            raise DataError(f"x holds {len(inputs)} samples; one is explained at a time: x[:1]")
        return inputs, None
    assert sample is not None
    try:
        population = federation.opened.plan.population
    except DuotoneError as error:
        raise RunError(
            f"The test samples of client {client.name!r} are not at hand; give a sample as x. "
            f"({error})"
        ) from error
    if client.name not in population.partition:
        raise ConfigError(f"Client {client.name!r} has no test samples in the run; give one as x.")
    own = population.data(client.name, "test")
    if not 0 <= sample < len(own):
        raise ConfigError(
            f"Client {client.name!r} has test samples 0 to {len(own) - 1}. Got {sample}."
        )
    label = own.labels[sample]
    names = client.class_names
    return own.x[sample : sample + 1], names[int(label)] if names else f"{float(label):.4g}"


@dataclass
class _Explainer:
    """Makes the card of one sample."""

    federation: Federation
    client: Client
    x: Tensor
    reference: Reference

    def card(self, other: Client | None, truth: str | None) -> Card:
        """Return the card."""
        client, info = self.client, self.client.facts.info
        compared = compare(self.federation, client, self.x, self.reference)
        top = int(compared.answer.argmax())
        names = client.class_names or ("value",)
        answer = names[top] if client.class_names else f"{compared.answer[0]:.4g}"
        rivals = [w for w in compared.witnesses if w.name != client.name]
        unlike = [w for w in rivals if differing_tensors(client.params, w.params)]
        layers = self._layers(unlike, top) if unlike else None
        own = self.federation.own_samples(client.name)
        notes: list[str] = []
        of_sample, of_reading = self._pixels(compared, unlike, top, own, notes)
        codes, moved = self._by_samples_of_others(top, own)
        support = None if own is None else neighbourhood(client, self.x, own, answer)
        found = None if other is None else difference(self.federation, client, other, self.x)
        # The parts add up by construction; that they do on this card is checked all the same.
        faithful = {"parts": 1 - float(np.abs(compared.parts.total()[0] - compared.answer).max())}
        if layers is not None:
            faithful["layers"] = layers.faithfulness
        if codes is not None:
            faithful["codes"] = codes.faithfulness
        inputs = "pixels" if info.is_image else "features"
        for part, found_inputs in (("sample", of_sample), ("reading", of_reading)):
            if found_inputs is not None and found_inputs.faithfulness is not None:
                faithful[f"{part} {inputs}"] = found_inputs.faithfulness
        needed = (
            *compared.needed,
            *(() if codes is None else ("test samples of members, to exchange their codes",)),
            *(() if moved is None else ("training samples of members, as means of neighbours",)),
            *(() if own is None else (f"own training samples of {client.name}",)),
            *(() if other is None else (f"the local part of {other.name}",)),
        )
        classes = _class_parts(compared, names)
        sentences = self._sentences(compared, classes, rivals, unlike, layers)
        if moved is not None:
            sentences.append(moved.sentence(answer, self._thing))
        return Card(
            client=client.name,
            method=client.method.name,
            answer=answer,
            truth=truth,
            reference=REFERENCES[self.reference],
            classes=classes,
            sentences=tuple(sentences),
            layers=layers,
            codes=codes,
            through_input=moved,
            sample_pixels=of_sample,
            reading_pixels=of_reading,
            support=support,
            difference=found,
            faithfulness=faithful,
            needed=needed,
            notes=tuple(notes),
            picture=pixels(self.x)[0] if info.is_image else None,
            text=text_of(self.x[0].numpy(), info.alphabet) if info.is_text else None,
        )

    def _by_samples_of_others(
        self, top: int, own: ClientData | None
    ) -> tuple[CodeShares | None, ThroughInput | None]:
        """Play the games that need other members' samples, if those may be used."""
        if own is None or self.reference != "members":
            return None, None
        codes = code_shares(self.federation, self.client, self.x, top, own)
        return codes, through_input(self.federation, self.client, self.x)

    @property
    def _thing(self) -> str:
        info = self.client.facts.info
        return "image" if info.is_image else "text" if info.is_text else "sample"

    def _layers(self, unlike: Sequence[Client], top: int) -> LayerShares | None:
        """Return how much each own layer adds to the answer, against that of others."""
        count = len(local_layers(self.client, [witness.params for witness in unlike]))
        most = max(1, _PASSES >> count)
        if len(unlike) > most:
            places = np.linspace(0, len(unlike) - 1, most).round().astype(int)
            unlike = [unlike[place] for place in places]
        is_class = self.client.facts.info.task == "classes"

        def worth(scores: Tensor) -> float:
            # Turned round: with the others' layers in place the answer loses what own ones add.
            return -float((scores.softmax(dim=1) if is_class else scores)[0, top])

        return layer_shares(self.client, self.x, [w.params for w in unlike], worth)

    def _pixels(
        self,
        compared: Compared,
        unlike: Sequence[Client],
        top: int,
        own: ClientData | None,
        notes: list[str],
    ) -> tuple[Attribution | None, Attribution | None]:
        """Attribute what anybody says, and what only the client says, to the inputs."""
        if own is None:
            notes.append("Its own samples are not at hand: no word on inputs and neighbours.")
            return None, None
        if own.info.is_text:
            notes.append("The sample is text: no word on single characters, which have no mean.")
            return None, None
        baseline = own.x.mean(dim=0, keepdim=True)
        places = np.linspace(
            0, len(compared.witnesses) - 1, min(_FOR_PIXELS, len(compared.witnesses))
        )
        chosen = [compared.witnesses[int(place)] for place in places.round()]
        anybody = mean_of([output_of(witness, top) for witness in chosen])
        try:
            of_sample = attribution(anybody, self.x, baseline)
            if not unlike:
                return of_sample, None
            alone = difference_of(output_of(self.client, top), anybody)
            return of_sample, attribution(alone, self.x, baseline)
        except MissingExtraError as error:
            notes.append(str(error))
            return None, None

    def _sentences(
        self,
        compared: Compared,
        classes: Sequence[ClassParts],
        rivals: Sequence[Client],
        unlike: Sequence[Client],
        layers: LayerShares | None,
    ) -> list[str]:
        """Return the explanation in words."""
        name, first = self.client.name, classes[0]
        who = "Anybody" if self.reference == "members" else "The shared model"
        is_class = self.client.facts.info.task == "classes"
        if is_class:
            says = f"Client {name} says {first.name} ({first.answer:.2f})."
            usual = compared.told.mean(axis=0)
            likely = self.client.class_names[int(usual.argmax())]
            is_same = likely == first.name
            theirs = (
                f"{who} would say the same ({usual.max():.2f})."
                if is_same
                else f"{who} would say {likely} ({usual.max():.2f})."
            )
        else:
            says = f"Client {name} says {first.answer:.4g}."
            theirs = f"{who} would say {first.anybody:.4g}."
            is_same = abs(first.answer - first.anybody) <= 1e-3 * max(1.0, abs(first.answer))
        lines = [says, theirs]
        if not unlike:
            return [*lines, _all_alike(self.client, rivals)]
        small = SMALL if is_class else 0.05 * abs(first.answer)
        if is_same and abs(first.habit + first.reading) < small:
            return [*lines, f"Hardly anything in the answer is particular to {name}."]
        part = "reading" if abs(first.reading) >= abs(first.habit) else "habit"
        what = f"{name}'s reading of this {self._thing}" if part == "reading" else f"{name}'s habit"
        network = self.client.model()
        if layers is not None:
            source = layer_words(network, layers.largest)
        else:
            (only,) = local_layers(self.client, [witness.params for witness in unlike])
            source = layer_words(network, only)
        if layers is None:
            how = f"can only come from {source}"
        elif layers.is_one_layers_doing:
            how = f"comes mostly from {source}"
        else:
            how = f"comes from several layers together, most of all {source}"
        lines.append(f"The difference is mostly {what}, and {how}.")
        alike = len(rivals) - len(unlike)
        if alike:
            more = "s have" if alike > 1 else " has"
            lines.append(f"{alike} other member{more} the same model as {name}.")
        return lines


def _all_alike(client: Client, rivals: Sequence[Client]) -> str:
    if not rivals:
        return "There is nobody else to compare it with."
    network = client.model()
    local = any(not client.method.is_shared(n, owner) for n, _, owner in named_tensors(network))
    why = (
        "their local parts are equal"
        if local
        else f"{client.method.name} gives everybody the same model"
    )
    return (
        f"All clients answer alike, for {why}: what differs is in the samples, not in the client."
    )


def _class_parts(compared: Compared, names: Sequence[str]) -> tuple[ClassParts, ...]:
    """Return the parts of the largest outputs, the answer first, and what anybody would say."""
    order = list(np.argsort(-compared.answer)[:_TOP])
    likely = int(compared.told.mean(axis=0).argmax())
    if likely not in order:
        order[-1] = likely
    parts = compared.parts
    return tuple(
        ClassParts(
            name=names[k],
            answer=float(compared.answer[k]),
            mean=float(parts.mean[k]),
            sample=float(parts.sample[0, k]),
            habit=float(parts.habit[k]),
            reading=float(parts.reading[0, k]),
        )
        for k in order
    )
