"""Metrics of one client's predictions, from scikit-learn.

Accuracy, AUC and F1 are those of the thesis this field's tables come from: AUC and F1 are averaged
over the classes a client has, weighted by how often each occurs.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Direction: TypeAlias = Literal["higher", "lower"]

DIRECTIONS: dict[str, Direction] = {
    "accuracy": "higher",
    "auc": "higher",
    "f1": "higher",
    "loss": "lower",
    "r2": "higher",
    "mae": "lower",
    "mse": "lower",
}
"""Every metric of a client's predictions, and which way is better."""


def classification_metrics(y: NDArray[np.int64], scores: NDArray[np.float64]) -> dict[str, float]:
    """Return accuracy, weighted AUC, weighted F1 and cross-entropy.

    Args:
        y: True classes.
        scores: One unnormalised score (logit) per sample and class.

    AUC is undefined, and left out, where a client has a single class.
    """
    from scipy.special import log_softmax
    from sklearn.metrics import f1_score

    log_probabilities = log_softmax(scores, axis=1)
    predicted = scores.argmax(axis=1)
    result = {
        "accuracy": float((predicted == y).mean()),
        "f1": float(f1_score(y, predicted, average="weighted", zero_division=0.0)),
        "loss": float(-log_probabilities[np.arange(len(y)), y].mean()),
    }
    auc = weighted_auc(y, np.exp(log_probabilities))
    return result if auc is None else result | {"auc": auc}


def weighted_auc(y: NDArray[np.int64], probabilities: NDArray[np.float64]) -> float | None:
    """Return the one-against-rest AUC averaged over the classes present, weighted by frequency.

    The same as scikit-learn's ``multi_class="ovr", average="weighted"``, which refuses clients that
    lack a class. ``None`` if there is one class only. Range 0 to 1, 0.5 for a random score.
    """
    from sklearn.metrics import roc_auc_score

    classes, counts = np.unique(y, return_counts=True)
    if len(classes) < 2:
        return None
    areas = [roc_auc_score(y == label, probabilities[:, label]) for label in classes]
    return float(np.average(areas, weights=counts))


def regression_metrics(y: NDArray[np.float64], predicted: NDArray[np.float64]) -> dict[str, float]:
    """Return mean squared error, mean absolute error and, where targets vary, R²."""
    from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score

    result = {
        "mse": float(mean_squared_error(y, predicted)),
        "mae": float(mean_absolute_error(y, predicted)),
    }
    return result if np.ptp(y) == 0 else result | {"r2": float(r2_score(y, predicted))}
