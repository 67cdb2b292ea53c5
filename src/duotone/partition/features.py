"""Schemes that follow what the samples look like: their domain, or an attribute of theirs."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from pydantic import Field, model_validator

from duotone.data.dataset import Dataset, is_known
from duotone.errors import PartitionError
from duotone.partition.partition import Rows
from duotone.partition.scheme import MOST, PartitionSettings, Scheme, Share
from duotone.partition.shares import Who, deal_evenly, nobody, shares_of
from duotone.registry import did_you_mean
from duotone.types import Role


def human_key(name: str) -> list[str | int]:
    """Return a key that sorts names as a reader expects: "client-9" before "client-10"."""
    # Splitting at numbers gives text and number in turn, so like is compared with like.
    return [int(part) if i % 2 else part for i, part in enumerate(re.split(r"(\d+)", name))]


class DomainSettings(PartitionSettings):
    """Settings of the ``domains`` scheme."""

    per_domain: int = Field(default=9, ge=1, le=MOST)
    """Clients per domain, newcomers included."""

    newcomers: int = Field(default=1, ge=0, le=MOST)
    """How many clients of each domain, the last ones, are newcomers."""

    mixed: int = Field(default=0, ge=0, le=MOST)
    """Additional newcomers that hold equally many samples of every domain."""

    members: list[str] | None = None
    """The domains that train; all clients of other domains are newcomers. Not given: all train."""


class Domains(Scheme[DomainSettings]):
    """Give each client samples of one domain: "mnist-0", "mnist-1", …, "svhn-0", ….

    Mixed clients take equally many samples from every domain: as many in total as a client of the
    smallest domain has.
    """

    name = "domains"
    Config = DomainSettings
    advice = "lower partition.per_domain"

    def assign(
        self, dataset: Dataset, config: DomainSettings, rng: np.random.Generator
    ) -> Sequence[Share]:
        """Set the mixed clients' samples aside, then split each domain over its clients."""
        if dataset.domain is None:
            raise PartitionError(
                f"{dataset.name!r} does not say which domain its samples are from; use another "
                "partition, or data with domain_train and domain_test."
            )
        domains = sorted(map(str, np.unique(dataset.domain)), key=human_key)
        self._check(dataset, config, domains)
        who: list[Who] = []
        for domain in domains:
            trains = config.members is None or domain in config.members
            members = config.per_domain - config.newcomers if trains else 0
            for i in range(config.per_domain):
                role: Role = "member" if i < members else "newcomer"
                who.append(Who(f"{domain}-{i}", domain, role))
        first_mixed = len(who)
        who += [Who(f"mixed-{i}", "mixed", "newcomer") for i in range(config.mixed)]
        owner = nobody(dataset)
        for rows in (dataset.train_rows, dataset.test_rows):
            by_domain = [rng.permutation(rows[dataset.domain[rows] == name]) for name in domains]
            # With domains of one size, this makes mixed clients just as large as the others.
            each = min(map(len, by_domain)) // len(who)
            for position, of_domain in enumerate(by_domain):
                aside, own = np.split(of_domain, [each * config.mixed])
                owner[aside] = np.repeat(np.arange(first_mixed, len(who)), each)
                first = position * config.per_domain
                deal_evenly(owner, own, first + np.arange(config.per_domain), rng)
        return shares_of(dataset, owner, who)

    def _check(self, dataset: Dataset, config: DomainSettings, domains: list[str]) -> None:
        for name in config.members or ():
            if name not in domains:
                raise PartitionError(
                    f"partition.members names the domain {name!r}, which {dataset.name!r} does "
                    f"not have.{did_you_mean(name, domains)} It has: {', '.join(domains)}."
                )
        if config.members == [] or config.newcomers >= config.per_domain:
            raise PartitionError(
                f"No client would train: partition.members = {config.members}, "
                f"partition.newcomers = {config.newcomers} of partition.per_domain = "
                f"{config.per_domain}; name a domain that trains, or lower partition.newcomers."
            )
        total = len(domains) * config.per_domain + config.mixed
        if config.clients not in (None, total):
            raise PartitionError(
                f"partition.clients = {config.clients}, but {config.per_domain} clients for each "
                f"of {len(domains)} domains and {config.mixed} mixed ones are {total}; leave "
                "partition.clients out, or change partition.per_domain."
            )


class AttributeSettings(PartitionSettings):
    """Settings of the ``attribute`` scheme: one of the two."""

    attribute: str | None = None
    """The factor of the data by whose values the samples are dealt out."""

    attributes: list[str] | None = None
    """Factors that apply to a sample or not (1 or 0); who has one of a client's is held by it."""

    @model_validator(mode="after")
    def _one_of_both(self) -> AttributeSettings:
        if (self.attribute is None) == (not self.attributes):
            raise ValueError(
                f"partition.attribute = {self.attribute!r} and partition.attributes = "
                f"{self.attributes}; give one of the two, a factor or a list of factors."
            )
        return self


class Attribute(Scheme[AttributeSettings]):
    """Give each client samples with one value of an attribute, or with one of several attributes.

    By ``attribute`` there is one client per value, named after it, unless ``clients`` asks for
    more: then the clients are spread over the values as evenly as possible and called "VALUE-0",
    "VALUE-1", …. Samples without a value go to nobody.

    By ``attributes`` there is one client per attribute, named after it, unless ``clients`` asks for
    fewer: then each takes several in a row, and is called by all of them. A client holds every
    sample to which one of its attributes applies, so that clients overlap.
    """

    name = "attribute"
    Config = AttributeSettings
    advice = "choose an attribute with fewer values"

    def overlaps(self, config: AttributeSettings) -> bool:
        """A sample can have several attributes."""
        return bool(config.attributes)

    def assign(
        self, dataset: Dataset, config: AttributeSettings, rng: np.random.Generator
    ) -> Sequence[Share]:
        """Split the samples of each value evenly, or give each client all that its own apply to."""
        for name in config.attributes or [config.attribute or ""]:
            if name not in dataset.factors:
                known = ", ".join(dataset.factors) or "none"
                raise PartitionError(
                    f"{dataset.name!r} has no factor {name!r}."
                    f"{did_you_mean(name, list(dataset.factors))} Known factors: {known}."
                )
        if config.attributes:
            return _by_several(dataset, config.attributes, config.clients)
        assert config.attribute is not None
        return _by_value(dataset, config.attribute, config.clients, rng)


def _by_several(dataset: Dataset, attributes: list[str], clients: int | None) -> Sequence[Share]:
    """Give each client every sample to which one of its attributes applies."""
    count = clients or len(attributes)
    if count > len(attributes) or len(set(attributes)) < len(attributes):
        raise PartitionError(
            f"partition.clients = {count}, but partition.attributes has {len(set(attributes))} "
            "different names and each client needs its own; lower the one, or name each once."
        )
    shares = []
    for own in np.array_split(np.array(attributes), count):
        name = "+".join(own.tolist())
        applies = np.any([dataset.factors[attribute] == 1 for attribute in own.tolist()], axis=0)
        train, test = (rows[applies[rows]] for rows in (dataset.train_rows, dataset.test_rows))
        shares.append(Share(name, name, "member", train, test))
    return shares


def _by_value(
    dataset: Dataset, attribute: str, clients: int | None, rng: np.random.Generator
) -> Sequence[Share]:
    """Split the samples of each value evenly over the clients of that value."""
    factor = dataset.factors[attribute]
    values = np.unique(factor[is_known(factor)])
    names = [str(value.item()) for value in values]
    if not names:
        raise PartitionError(
            f"No sample of {dataset.name!r} has a value of {attribute!r}; choose "
            "another partition.attribute."
        )
    if clients is not None and clients < len(names):
        raise PartitionError(
            f"partition.clients = {clients}, but {attribute!r} has {len(names)} "
            f"values and each needs a client; raise it to {len(names)} or leave it out."
        )
    numbers: list[Rows] = np.array_split(np.arange(clients or len(names)), len(names))
    who = [
        Who(name if clients is None else f"{name}-{i}", name, "member")
        for name, clients_of_value in zip(names, numbers, strict=True)
        for i in range(len(clients_of_value))
    ]
    owner = nobody(dataset)
    for rows in (dataset.train_rows, dataset.test_rows):
        for value, clients_of_value in zip(values, numbers, strict=True):
            deal_evenly(owner, rows[factor[rows] == value], clients_of_value, rng)
    return shares_of(dataset, owner, who)
