"""Do clients of one true group have similar codes? Clients are compared by their mean codes."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import (
    adjusted_rand_score,
    normalized_mutual_info_score,
    silhouette_score,
)

from duotone.data.dataset import Array
from duotone.seeding import derive

_STARTS = 10


def client_means(codes: Array, client: Array) -> NDArray[np.float64]:
    """Return each client's mean code, clients in ascending order of their names."""
    names, number = np.unique(client, return_inverse=True)
    sums = np.zeros((len(names), codes.shape[1]))
    np.add.at(sums, number, codes)
    return np.asarray(sums / np.bincount(number)[:, np.newaxis])


def group_scores(means: Array, group: Array, seed: int) -> dict[str, float]:
    """Return how well clients' mean codes show the true groups.

    ``nmi`` (normalised mutual information, 0 to 1) and ``ari`` (adjusted Rand index, 0 by chance,
    1 at best) compare the groups with the clusters that k-means finds, told their number.
    ``silhouette`` (-1 to 1) needs no clustering: it is how much nearer a client is to its own group
    than to the next. Higher is better; a perfect code has 1, 1 and nearly 1. A random code has an
    ARI and a silhouette around 0, but an NMI well above 0 when clients are few.

    Empty where nothing can be said: with one group, with a group for every client, or without a
    code.

    Args:
        means: Mean codes ``(clients, dimensions)``.
        group: True group of each client.
        seed: Of the starting points of k-means.
    """
    count = len(np.unique(group))
    if not 1 < count < len(group) or means.shape[1] == 0:
        return {}
    clustering = KMeans(count, n_init=_STARTS, random_state=derive(seed, "k-means") % 2**32)
    with warnings.catch_warnings():
        # Where codes coincide there are fewer clusters than asked for, and the scores say so.
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = clustering.fit_predict(means)
    return {
        "nmi": float(normalized_mutual_info_score(group, found)),
        "ari": float(adjusted_rand_score(group, found)),
        "silhouette": float(silhouette_score(means, group)),
    }


def newcomers_beside_own_group(
    means: Array, group: Array, newcomer_means: Array, newcomer_group: Array
) -> NDArray[np.bool_]:
    """Say of each newcomer whether the member nearest to it is of its own group.

    Newcomers whose group has no member are left out. Empty where members are all of one group, so
    that the answer could be nothing but yes.

    Args:
        means: Members' mean codes ``(members, dimensions)``.
        group: True group of each member.
        newcomer_means: Newcomers' mean codes.
        newcomer_group: True group of each newcomer.
    """
    if means.shape[1] == 0 or len(np.unique(group)) < 2:
        return np.zeros(0, bool)
    placed = np.isin(newcomer_group, group)
    differences = newcomer_means[placed][:, np.newaxis] - means[np.newaxis]
    nearest = np.square(differences).sum(axis=2).argmin(axis=1)
    return np.asarray(group[nearest] == newcomer_group[placed])
