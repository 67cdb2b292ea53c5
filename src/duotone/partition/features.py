"""Schemes that follow what the samples look like: their domain, or an attribute of theirs."""

from __future__ import annotations

import re

import numpy as np
from pydantic import Field

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
    ) -> list[Share]:
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
    """Settings of the ``attribute`` scheme."""

    attribute: str
    """The factor of the data by whose values the samples are dealt out."""


class Attribute(Scheme[AttributeSettings]):
    """Give each client samples with one value of an attribute.

    There is one client per value, named after it, unless ``clients`` asks for more: then the
    clients are spread over the values as evenly as possible and called "VALUE-0", "VALUE-1", ….
    Samples without a value go to nobody.
    """

    name = "attribute"
    Config = AttributeSettings
    advice = "choose an attribute with fewer values"

    def assign(
        self, dataset: Dataset, config: AttributeSettings, rng: np.random.Generator
    ) -> list[Share]:
        """Split the samples of each value evenly over the clients of that value."""
        if config.attribute not in dataset.factors:
            known = ", ".join(dataset.factors) or "none"
            raise PartitionError(
                f"{dataset.name!r} has no factor {config.attribute!r}."
                f"{did_you_mean(config.attribute, list(dataset.factors))} Known factors: {known}."
            )
        factor = dataset.factors[config.attribute]
        values = np.unique(factor[is_known(factor)])
        names = [str(value.item()) for value in values]
        if not names:
            raise PartitionError(
                f"No sample of {dataset.name!r} has a value of {config.attribute!r}; choose "
                "another partition.attribute."
            )
        if config.clients is not None and config.clients < len(names):
            raise PartitionError(
                f"partition.clients = {config.clients}, but {config.attribute!r} has {len(names)} "
                f"values and each needs a client; raise it to {len(names)} or leave it out."
            )
        clients: list[Rows] = np.array_split(np.arange(config.clients or len(names)), len(names))
        who = [
            Who(name if config.clients is None else f"{name}-{i}", name, "member")
            for name, clients_of_value in zip(names, clients, strict=True)
            for i in range(len(clients_of_value))
        ]
        owner = nobody(dataset)
        for rows in (dataset.train_rows, dataset.test_rows):
            for value, clients_of_value in zip(values, clients, strict=True):
                deal_evenly(owner, rows[factor[rows] == value], clients_of_value, rng)
        return shares_of(dataset, owner, who)
