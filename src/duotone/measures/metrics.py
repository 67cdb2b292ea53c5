"""Metrics of one client's predictions.

Accuracy, AUC and F1 are those of the thesis this field's tables come from: AUC and F1 are averaged
over the classes a client has, weighted by how often each occurs.

They equal scikit-learn's (the tests compare them). They are computed here because scikit-learn
takes about 27 ms for one client with ten classes, twice as long as a small network predicts; in a
run that evaluates a hundred clients every few rounds that is most of the time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from duotone.types import Unit

Direction: TypeAlias = Literal["higher", "lower"]

DIRECTIONS: dict[str, Direction] = {
    "accuracy": "higher",
    "auc": "higher",
    "f1": "higher",
    "loss": "lower",
    "r2": "higher",
    "mae": "lower",
    "mse": "lower",
    "reconstruction": "lower",
}
"""Every metric of a client's predictions, and which way is better."""

UNITS: dict[str, Unit] = {
    "accuracy": "share",
    "auc": "share",
    "f1": "share",
    "loss": "nats",
    "r2": "R²",
    "mae": "absolute error",
    "mse": "squared error",
    "reconstruction": "squared error",
}
"""What each of them counts in."""


def is_share(metric: str) -> bool:
    """Say whether a metric is a share, which people read in percent."""
    return UNITS.get(metric) == "share"


def number_text(value: float, metric: str, *, sign: Literal["-", "+"] = "-") -> str:
    """Return a value as text, in percent for accuracies; sign "+" shows the plus too."""
    return f"{value * 100:{sign}.1f}" if is_share(metric) else f"{value:{sign}.4f}"


def value_text(value: float, metric: str) -> str:
    """Return a metric's value with its unit."""
    return number_text(value, metric) + (" %" if is_share(metric) else "")


def headline(metrics: Iterable[str]) -> str:
    """Return the metric a run is judged by: accuracy, or the squared error for regression."""
    return "accuracy" if "accuracy" in set(metrics) else "mse"


def classification_metrics(y: NDArray[np.int64], scores: NDArray[np.float64]) -> dict[str, float]:
    """Return accuracy, weighted AUC, weighted F1 and cross-entropy.

    Args:
        y: True classes.
        scores: One unnormalised score (logit) per sample and class.

    AUC is undefined, and left out, where a client has a single class.
    """
    shifted = scores - scores.max(axis=1, keepdims=True)
    log_probabilities = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    predicted = scores.argmax(axis=1)
    result = {
        "accuracy": float((predicted == y).mean()),
        "f1": weighted_f1(y, predicted),
        "loss": float(-log_probabilities[np.arange(len(y)), y].mean()),
    }
    auc = weighted_auc(y, np.exp(log_probabilities))
    return result if auc is None else result | {"auc": auc}


def weighted_f1(y: NDArray[np.int64], predicted: NDArray[np.int64]) -> float:
    """Return the F1 score averaged over the classes present, weighted by frequency.

    Range 0 to 1, 1 for perfect predictions.
    """
    classes = int(max(y.max(), predicted.max())) + 1
    actual = np.bincount(y, minlength=classes)
    said = np.bincount(predicted, minlength=classes)
    right = np.bincount(y[y == predicted], minlength=classes)
    f1 = 2 * right / np.maximum(actual + said, 1)
    return float(np.average(f1, weights=actual))


def weighted_auc(y: NDArray[np.int64], probabilities: NDArray[np.float64]) -> float | None:
    """Return the one-against-rest AUC averaged over the classes present, weighted by frequency.

    The same as scikit-learn's ``multi_class="ovr", average="weighted"``, which refuses clients that
    lack a class. ``None`` if there is one class only. Range 0 to 1, 0.5 for a random score.
    """
    classes, counts = np.unique(y, return_counts=True)
    if len(classes) < 2:
        return None
    areas = []
    for label, count in zip(classes, counts, strict=True):
        # The AUC is the Mann-Whitney statistic: the mean rank of the class, rescaled.
        ranks = average_ranks(probabilities[:, label])
        above = ranks[y == label].sum() - count * (count + 1) / 2
        areas.append(above / (count * (len(y) - count)))
    return float(np.average(areas, weights=counts))


def average_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ranks from 1; equal values share the mean of theirs.

    >>> average_ranks(np.array([0.1, 0.5, 0.1])).tolist()
    [1.5, 3.0, 1.5]
    """
    _, position, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: NDArray[np.float64] = (last - (counts - 1) / 2)[position]
    return ranks


def regression_metrics(y: NDArray[np.float64], predicted: NDArray[np.float64]) -> dict[str, float]:
    """Return mean squared error, mean absolute error and, where targets vary, R²."""
    errors = predicted - y
    result = {"mse": float(np.square(errors).mean()), "mae": float(np.abs(errors).mean())}
    if np.ptp(y) > 0:
        result["r2"] = 1 - result["mse"] / float(y.var())
    return result
