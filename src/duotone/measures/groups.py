"""Do clients of one true group have similar codes? Clients are compared by their mean codes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import (
    adjusted_rand_score,
    normalized_mutual_info_score,
    silhouette_score,
)
from threadpoolctl import threadpool_limits

from duotone.data.dataset import Array
from duotone.measures.codes import CodeTable, code_table, is_code
from duotone.measures.measure import Findings, Measure, Record, Scene
from duotone.measures.panels import Grid, PlainTable, Section, score_text
from duotone.measures.score import Aim, Key, Score
from duotone.seeding import derive

_STARTS = 10
_WORDS = {"nmi": "NMI", "ari": "ARI", "silhouette": "silhouette"}
_VARIANTS = {
    "": "local code",
    "shared": "shared code",
    "untrained": "untrained network",
    "fedavg": "plain FedAvg",
}


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


def scores_by_group(table: CodeTable) -> dict[Key, Score]:
    """Compare clients' mean codes with the true groups."""
    latents = table.latents
    members = latents["kind"] == "member"
    compared = {
        "": table.parts.get("local"),
        "shared": table.parts.get("shared"),
        "untrained": latents.get("untrained_local"),
        "fedavg": latents.get("fedavg"),
    }
    scores: dict[Key, Score] = {}
    for variant, codes in compared.items():
        if codes is None or not is_code(codes[members]):
            continue
        means, group = _client_table(codes, latents, members)
        direction: Aim = "reference" if variant else "higher"
        for name, value in group_scores(means, group, table.seed).items():
            key = Key("groups", name, variant=variant)
            scores[key] = Score(value, 0.0, direction, len(group), "index")
    local = table.parts.get("local")
    if local is not None and not members.all():
        right = newcomers_beside_own_group(
            *_client_table(local, latents, members), *_client_table(local, latents, ~members)
        )
        if len(right):
            share, spread = float(right.mean()), float(right.std())
            key = Key("groups", "", role="newcomer")
            scores[key] = Score(share, spread, "higher", len(right), "share")
    return scores


def _client_table(
    codes: Array, latents: Mapping[str, Array], rows: Array
) -> tuple[NDArray[np.float64], Array]:
    """Return the mean code and the group of each client among some rows."""
    client = latents["client"][rows]
    means = client_means(codes[rows], client)
    _, first = np.unique(client, return_index=True)
    return means, latents["group"][rows][first]


class Groups(Measure):
    """Clients' mean codes against their true groups."""

    name = "groups"

    def applies(self, scene: Scene) -> bool:
        """Say whether codes are kept."""
        return bool(scene.config.latents and scene.clients)

    def measure(self, scene: Scene) -> Findings:
        """Cluster the clients by their mean codes."""
        with threadpool_limits(1):  # more threads change the order of sums
            scores = scores_by_group(scene.once(code_table))
        return Findings(scores, scene.rows(scores))

    def section(self, record: Record) -> Section | None:
        """Return how clients' mean codes gather by group."""
        found = record.of("groups")
        shown = {
            v: words for v, words in _VARIANTS.items() if Key("groups", "nmi", variant=v) in found
        }
        if not shown:
            return None
        rows = tuple(
            (words, *(score_text(found.get(Key("groups", name, variant=v))) for v in shown))
            for name, words in _WORDS.items()
        )
        note = "1 is a perfect match. A high score says something only where plain FedAvg and an "
        note += "untrained network score lower."
        newcomers = found.get(Key("groups", "", role="newcomer"))
        if newcomers is not None:
            note += f" {100 * newcomers.value:.0f} % of the newcomers lie nearest to a member of "
            note += "their own group."
        heads = ("score", *(f">{words}" for words in shown.values()))
        intro = "Clients' mean codes against their true groups."
        grid = Grid("groups", PlainTable("Groups", heads, rows, note))
        return Section("groups", "Groups", intro, [grid])
