"""From a data set, the name of a scheme and a style set to the clients with their samples.

What all schemes have in common is done here, and so is giving each client its style.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from typing import Any

import numpy as np

from duotone.config import validated
from duotone.data.dataset import Dataset
from duotone.data.styles import apply_styles, styles_of, styles_of_role
from duotone.errors import ConfigError, PartitionError
from duotone.partition.deal import Deal, Rows
from duotone.partition.partition import SPLITS, Partition, Population
from duotone.partition.scheme import SCHEMES, PartitionSettings, Scheme, Share, Shares
from duotone.seeding import stream
from duotone.types import Role

DRAWS = 100
"""How often a random scheme is drawn before it is given up: every request comes to an end."""


def resolve_settings(scheme: str, settings: Mapping[str, Any]) -> PartitionSettings:
    """Check the settings of a scheme and fill in its defaults.

    Args:
        scheme: The name of the scheme.
        settings: What was given, without the prefix ``partition.``.

    Raises:
        UnknownNameError: There is no such scheme.
        ConfigError: Settings are wrong; the message has all of them.
    """
    config: type[PartitionSettings] = SCHEMES.load(scheme).Config
    return validated(config, settings, owner=f"the partition {scheme!r}", prefix="partition.")


def build_partition(
    dataset: Dataset, scheme: str, config: PartitionSettings | Mapping[str, Any], *, seed: int
) -> Partition:
    """Deal out a data set.

    Each client's rows are in random order, so the first few of them are a random choice. Schemes
    that draw the clients' sizes draw again, up to :data:`DRAWS` times, until every client has its
    minimum and the members hold enough of every class to learn it: 1 % of its training samples and
    at least ten, or half of a class with fewer than twenty.

    Args:
        dataset: What to deal out.
        scheme: The name of the scheme, see :data:`duotone.partition.SCHEMES`.
        config: Its settings; a mapping is checked and completed by :func:`resolve_settings`.
        seed: The seed of the run; equal seeds give equal partitions.

    Raises:
        ConfigError: The settings are wrong or belong to another scheme.
        PartitionError: This data cannot be dealt out in this way.
    """
    maker: Scheme[Any] = SCHEMES.load(scheme)()
    if not isinstance(config, PartitionSettings):
        config = resolve_settings(scheme, config)
    if not isinstance(config, maker.Config):
        raise ConfigError(
            f"The partition {scheme!r} takes {maker.Config.__name__}, but was given "
            f"{type(config).__name__}; make it with resolve_settings({scheme!r}, …)."
        )
    shares = _draw(dataset, maker, config, seed)
    if not maker.overlaps(config):
        _check_once(maker, shares)
    return _deal(shares, config, seed)


def build_population(
    dataset: Dataset,
    scheme: str,
    config: PartitionSettings | Mapping[str, Any],
    style_set: str = "none",
    *,
    seed: int,
) -> Population:
    """Deal out a data set, see :func:`build_partition`, and give each client a style of a set.

    The members take the styles in turn, in their order, and so do the newcomers. The style becomes
    the client's group; where there are several groups already, it is added to their names.

    Raises:
        ConfigError: The settings are wrong, or there is no such style set.
        PartitionError: This data cannot be dealt out in this way.
        DataError: The samples cannot have these styles.
    """
    partition = build_partition(dataset, scheme, config, seed=seed)
    if style_set == "none":
        return Population(dataset, partition)
    held = np.concatenate([*partition.rows.values()])
    if len(np.unique(held)) < len(held):
        raise PartitionError(
            f"style = {style_set!r} gives each client its own look, but clients of this "
            f"{scheme!r} partition hold the same samples; use style = none."
        )
    turns = {role: cycle(styles_of_role(style_set, role)) for role in partition.roles.distinct()}
    styles = [next(turns[role]) for role in partition.roles]
    groups = styles
    if len(partition.groups.distinct()) > 1:
        groups = [f"{group}+{style}" for group, style in zip(partition.groups, styles, strict=True)]
    grouped = Partition(
        partition.clients, groups, partition.roles, partition.rows, partition.offsets
    )
    style_of = dict(zip(partition.clients, styles, strict=True))
    return styled_population(dataset, grouped, style_set, style_of, seed=seed)


def own_population(
    dataset: Dataset, client: str, role: Role, config: PartitionSettings, *, seed: int
) -> Population:
    """Return a client that holds a data set alone, with the same splits as in a natural partition.

    Raises:
        PartitionError: It has too few samples.
    """
    share = Share(client, "all", role, dataset.train_rows, dataset.test_rows)
    for split, least in (("train", config.min_train), ("test", config.min_test)):
        size = len(getattr(share, split))
        if size < least:
            raise PartitionError(
                f"{dataset.name!r} has {size} {split} samples, fewer than the {least} that a "
                f"client needs; set partition.min_{split} = {size}, or add samples."
            )
    return Population(dataset, _deal(Shares.of([share]), config, seed))


def styled_population(
    dataset: Dataset,
    partition: Partition,
    style_set: str,
    style_of: Mapping[str, str],
    *,
    seed: int,
) -> Population:
    """Return the clients of a partition, each with the style it is given in ``style_of``.

    Raises:
        UnknownNameError: There is no such style set.
        DataError: The samples cannot have these styles.
    """
    numbers = {style: number for number, style in enumerate(styles_of(style_set))}
    style_of_row = np.full(len(dataset), -1, np.int64)
    for client, holding in partition.items():
        for split in SPLITS:
            style_of_row[getattr(holding, split)] = numbers[style_of[client]]
    return Population(apply_styles(dataset, style_set, style_of_row, seed=seed), partition)


def _draw(dataset: Dataset, maker: Scheme[Any], config: PartitionSettings, seed: int) -> Shares:
    """Return the first draw in which no client and no class comes off badly."""
    draws = DRAWS if maker.redraws else 1
    shortages = []
    for draw in range(draws):
        drawn = maker.assign(dataset, config, stream(seed, "partition", maker.name, draw))
        shares = Shares.of(drawn)
        if "member" not in shares.roles:
            raise PartitionError(
                f"The {maker.name} partition of {dataset.name!r} has {len(shares)} clients, none "
                "of which trains; have fewer newcomers or lower partition.min_train."
            )
        shortage = _shortage(dataset, maker, config, shares)
        if shortage is None:
            return shares
        shortages.append(shortage)
    _, nearest = min(shortages)
    how_often = f" in {draws} draws" if draws > 1 else ""
    raise PartitionError(
        f"No {maker.name} partition of {dataset.name!r} was found{how_often}: {nearest}."
    )


def _shortage(
    dataset: Dataset, maker: Scheme[Any], config: PartitionSettings, shares: Shares
) -> tuple[int, str] | None:
    """Return how many samples are lacking and the first reason, or ``None`` if none are."""
    lacking, reasons = 0, []
    for split, least in (("train", config.min_train), ("test", config.min_test)):
        sizes = np.diff(getattr(shares, f"{split}_ends"))
        small = sizes < least
        if small.any():
            lacking += int((least - sizes[small]).sum())
            client, size = shares.clients[int(sizes.argmin())], int(sizes.min())
            instead = f", or set partition.min_{split} = {size}" if size or split == "test" else ""
            reasons.append(
                f"{small.sum()} of {len(shares)} clients have fewer than {least} {split} samples "
                f"(the smallest, {client!r}, has {size}); {maker.advice}{instead}"
            )
    if maker.redraws and dataset.classes:
        held, needed = _classes_of_members(dataset, shares)
        short = held < needed
        if short.any():
            lacking += int((needed - held)[short].sum())
            label = int(short.argmax())
            reasons.append(
                f"the members hold {held[label]} training samples of class {label} and need "
                f"{needed[label]} to learn it; {maker.advice}, or have fewer newcomers"
            )
    return (lacking, reasons[0]) if reasons else None


def _classes_of_members(dataset: Dataset, shares: Shares) -> tuple[Rows, Rows]:
    """Return how many training samples of each class the members hold, and how many they need."""
    labels = dataset.y[shares.train]
    is_member = np.repeat(shares.roles.is_word("member"), np.diff(shares.train_ends))
    members, everybody = (
        np.bincount(each, minlength=dataset.classes) for each in (labels[is_member], labels)
    )
    needed = np.maximum(-(-everybody // 100), np.minimum(10, everybody // 2))
    return members, needed


def _check_once(maker: Scheme[Any], shares: Shares) -> None:
    """Check that no row was given away twice."""
    held = (shares.train, shares.test)
    is_given = np.zeros(max(int(rows.max(initial=-1)) for rows in held) + 1, bool)
    for rows in held:
        is_given[rows] = True
    if np.count_nonzero(is_given) < sum(map(len, held)):
        times = np.bincount(np.concatenate(held))
        raise PartitionError(
            f"The partition {maker.name!r} gives row {times.argmax()} away {times.max()} "
            "times; every sample must have one owner."
        )


def _deal(shares: Shares, config: PartitionSettings, seed: int) -> Partition:
    """Return the partition that some shares make."""
    deal = Deal(
        shares.train,
        shares.test,
        shares.train_ends,
        shares.test_ends,
        seed,
        config.validation,
        config.max_train,
        config.max_test,
    )
    return Partition.from_deal(shares.clients, shares.groups, shares.roles, deal)
