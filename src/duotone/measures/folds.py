"""Which samples probes learn from, and which they are asked about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from duotone.data.dataset import Array
from duotone.measures.questions import Question, draw_rows
from duotone.measures.score import LearntOn
from duotone.seeding import stream
from duotone.types import Role

FEWEST_UNSEEN = 20
"""Fewest validation and test samples of each client with which probes learn from nothing else."""


@dataclass(frozen=True, slots=True)
class Fold:
    """Samples that a probe learns from, and those that it is then asked about."""

    train: NDArray[np.int64]
    test: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CodeRows:
    """The samples that probes learn from and those they are scored on.

    An encoder may know the samples it was trained on by heart, and what can be read out of their
    codes need not be there for others. So probes learn from samples that it did not see, validation
    and test samples, if every client has enough of them: one probe learns from one half and answers
    about the other, a second one the other way round. Else probes learn from training samples and
    answer about test samples.

    Attributes:
        folds: Who learns from which samples; none where there are no samples.
        learnt_on: What kind of samples probes learn from.
    """

    folds: tuple[Fold, ...]
    learnt_on: LearntOn

    @classmethod
    def of(cls, latents: Mapping[str, Array], role: Role, seed: int) -> CodeRows:
        """Draw rows of clients of a role."""
        is_role, split = latents["kind"] == role, latents["split"]
        names = np.unique(latents["client"][is_role])
        unseen = np.flatnonzero(is_role & (split != "train"))
        counts = [int((latents["client"][unseen] == name).sum()) for name in names]
        if counts and min(counts) >= FEWEST_UNSEEN:
            rng = stream(seed, "separation", "rows", role, "halves")
            first, second = halved(draw_rows(unseen, rng), latents["client"], rng)
            return cls((Fold(first, second), Fold(second, first)), "held-out samples")
        drawn = [
            draw_rows(
                np.flatnonzero(is_role & (split == name)),
                stream(seed, "separation", "rows", role, name),
            )
            for name in ("train", "test")
        ]
        return cls((Fold(*drawn),) if len(drawn[1]) else (), "training samples")

    def asked(self, asking: Question) -> Question:
        """Return a question about the samples scored, as far as those learnt from prepare them."""
        of_folds = [asking.at(f.test).about_known(asking.at(f.train)) for f in self.folds]
        return replace(asking, answers=np.concatenate([each.answers for each in of_folds]))

    @property
    def test(self) -> NDArray[np.int64]:
        """All samples that probes are scored on, fold by fold."""
        return np.concatenate([np.empty(0, np.int64), *(fold.test for fold in self.folds)])


def halved(
    rows: NDArray[np.int64], client: Array, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split rows in two at random, with every client's in both, in ascending order."""
    shuffled = rng.permutation(rows)
    by_client = shuffled[np.argsort(client[shuffled], kind="stable")]
    return np.sort(by_client[::2]), np.sort(by_client[1::2])
