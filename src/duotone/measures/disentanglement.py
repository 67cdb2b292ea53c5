"""How well single dimensions, or whole parts, of a code stand for single factors.

The scores are functions of small tables with a row for each dimension (or part) and a column for
each factor: how much information there is, how well it predicts, how much a predictor uses it.
Columns without anything in them (a factor that no dimension shows) count as 0 in a mean over
factors; where a table is empty throughout, a score is 0: nothing is disentangled in noise.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist, squareform
from scipy.stats import chi2

from duotone.data.dataset import Array

Table = NDArray[np.float64]

BINS = 20
_PER_CELL = 5
_BY_LUCK = 1e-6
_KERNEL_ROWS = 1000


def bin_edges(values: Array, count: int) -> Array:
    """Return the inner edges of bins with equally many values, column by column.

    Unlike bins of equal width, these depend on the order of values alone, not on their scale or on
    outliers.
    """
    ordered = np.sort(values, axis=0)
    places = np.array([len(values) * k // count for k in range(1, count)])
    return np.asarray((ordered[places - 1] + ordered[places]) / 2)


def to_bins(values: Array, edges: Array) -> NDArray[np.int64]:
    """Return the number of the bin of each value; equal values share a bin."""
    columns = zip(edges.T, values.T, strict=True)
    return np.stack([np.searchsorted(edge, x, side="right") for edge, x in columns], axis=1)


def bins_for(rows: int) -> int:
    """Return the number of bins: 20, or fewer where two binned columns would leave cells empty."""
    return max(2, min(BINS, int(np.sqrt(rows / _PER_CELL))))


def joint_counts(bins: Array, classes: Array) -> Table:
    """Return how often bins and classes meet ``(dimensions, bins, classes)``."""
    dimensions, count, width = bins.shape[1], int(bins.max()) + 1, int(classes.max()) + 1
    cell = (np.arange(dimensions) * count + bins) * width + classes[:, np.newaxis]
    counts = np.bincount(cell.ravel(), minlength=dimensions * count * width)
    return counts.reshape(dimensions, count, width).astype(np.float64)


def mutual_information(counts: Table) -> Table:
    """Return the mutual information in nats of each table of joint counts.

    What two independent columns would show once in a million times counts as none: the estimate is
    never below 0, and over hundreds of pairs small remainders would look like a pattern.
    """
    total = counts.sum(axis=(1, 2), keepdims=True)
    joint = counts / total
    rows, columns = joint.sum(axis=2, keepdims=True), joint.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(joint > 0, joint * np.log(joint / (rows * columns)), 0)
    information = terms.sum(axis=(1, 2))
    freedom = ((rows > 0).sum(axis=(1, 2)) - 1) * ((columns > 0).sum(axis=(1, 2)) - 1)
    # Twice the number of samples times the information is Wilks' statistic of independence.
    by_luck = chi2.isf(_BY_LUCK, np.maximum(freedom, 1)) / (2 * total.ravel())
    return np.where((freedom > 0) & (information > by_luck), information, 0)


def entropy(classes: Array) -> float:
    """Return the entropy of a column of classes in nats."""
    shares = np.bincount(classes) / len(classes)
    shares = shares[shares > 0]
    return float(-(shares * np.log(shares)).sum())


def _gap(table: Table) -> float:
    """Return how far the best row is ahead of the second best, averaged over columns."""
    ordered = np.sort(table, axis=0)
    return float((ordered[-1] - ordered[-2]).mean())


def mig(information: Table, entropies: Array) -> float:
    """Return the mutual information gap (Chen et al. 2018, arXiv:1802.04942).

    For each factor, how much more the best dimension knows than the second best, as a share of the
    factor's entropy. Range 0 to 1, higher is better. 1 if each factor is in one dimension alone;
    0 for a random code, and for a factor that is spread evenly over two dimensions.

    Args:
        information: Mutual information ``(dimensions, factors)``, at least two dimensions.
        entropies: Entropy of each factor, in the same unit.
    """
    return _gap(information / entropies)


def sap(predictability: Table) -> float:
    """Return the separated attribute predictability (Kumar et al. 2018, arXiv:1711.00848).

    For each factor, how much better the best dimension predicts it alone than the second best.
    Range 0 to 1, higher is better. A perfect code has 1 for numbers and 1 minus chance for
    classes, a random code 0.

    Args:
        predictability: Accuracy or R² ``(dimensions, factors)``, at least two dimensions.
    """
    return _gap(predictability)


def modularity(information: Table) -> float:
    """Return the modularity (Ridgeway & Mozer 2018, arXiv:1802.05312).

    For each dimension, 1 minus the squared information about all factors but its main one, over
    what that would be if it knew all as well as the main one; averaged over dimensions that know
    anything. Range 0 to 1, higher is better. 1 if each dimension knows one factor, however many
    dimensions share a factor; 0 if each knows all alike, and for a random code.

    Args:
        information: Mutual information ``(dimensions, factors)``, at least two factors.
    """
    most = information.max(axis=1)
    known = information[most > 0]
    if len(known) == 0:
        return 0.0
    square = (known / known.max(axis=1, keepdims=True)) ** 2
    return float((1 - (square.sum(axis=1) - 1) / (information.shape[1] - 1)).mean())


def disentanglement(importance: Table) -> float:
    """Return the disentanglement of DCI (Eastwood & Williams 2018, ICLR).

    1 minus the entropy of what a dimension is used for, in units of its largest value, averaged by
    how much dimensions are used. Range 0 to 1, higher is better. 1 if each dimension is used for
    one factor; 0 if each is used for all alike. A random code is near 0, but not at it: a predictor
    that has nothing to read still uses something.

    Args:
        importance: Non-negative ``(dimensions, factors)``, at least two factors.
    """
    return _specialised(importance)


def completeness(importance: Table) -> float:
    """Return the completeness of DCI (Eastwood & Williams 2018, ICLR).

    1 minus the entropy of what a factor is read from, in units of its largest value, averaged by
    how much factors are read. Range 0 to 1, higher is better. 1 if each factor is read from one
    dimension; 0 if each is read from all alike. A random code is near 0.

    Args:
        importance: Non-negative ``(dimensions, factors)``, at least two dimensions.
    """
    return _specialised(importance.T)


def _specialised(table: Table) -> float:
    used = table.sum(axis=1)
    if not used.any():
        return 0.0
    shares = table[used > 0] / used[used > 0, np.newaxis]
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = -np.where(shares > 0, shares * np.log(shares), 0).sum(axis=1)
    return float(np.average(1 - spread / np.log(table.shape[1]), weights=used[used > 0]))


def hsic(x: Array, y: Array, rng: np.random.Generator) -> float:
    """Return the normalised dependence of two codes (HSIC, Gretton et al. 2005).

    The biased estimator with Gaussian kernels as wide as the median distance, divided by its value
    for each code with itself (Cortes et al. 2012), on at most 1,000 samples. Range 0 to 1, lower is
    better for parts that should be independent. 1 for a code with itself, 0 for a constant one.
    Independent codes come near 0 in few dimensions only: with many dimensions all samples are far
    apart, and the bias grows. Compare it with the same codes in shuffled order.

    Args:
        x: One row per sample.
        y: The same samples.
        rng: Draws the samples.
    """
    if len(x) > _KERNEL_ROWS:
        rows = rng.choice(len(x), _KERNEL_ROWS, replace=False)
        x, y = x[rows], y[rows]
    first, second = _centred_kernel(x), _centred_kernel(y)
    norm = np.sqrt(np.sum(first**2) * np.sum(second**2))
    return float(np.sum(first * second) / norm) if norm > 0 else 0.0


def _centred_kernel(x: Array) -> Table:
    distance = pdist(x.astype(np.float64), "sqeuclidean")
    # Where most samples coincide the median is 0 and says nothing about the others.
    width = float(np.median(distance)) or float(distance.mean())
    if width == 0:
        return np.zeros((len(x), len(x)))
    kernel: Table = np.exp(-squareform(distance) / width)
    kernel += kernel.mean() - kernel.mean(axis=0) - kernel.mean(axis=1, keepdims=True)
    return kernel


def total_correlation(x: Array, y: Array) -> float:
    """Return the total correlation of two codes in nats, as if they were Gaussian.

    -½ log det of their joint correlation matrix over those of each, which is
    -½ Σ log(1 - ρ²) over their canonical correlations ρ (Hotelling 1936). Range 0 upwards, lower is
    better for parts that should be independent. Independent codes have 0 plus about (dimensions ×
    dimensions) / (2 × samples); two equal dimensions have infinity, for which 6.9 (ρ² = 1 - 10⁻⁶)
    is said. Only linear dependence shows. Compare it with the same codes in shuffled order.

    Args:
        x: One row per sample.
        y: The same samples.
    """
    correlations = np.linalg.svd(_directions(x).T @ _directions(y), compute_uv=False)
    return float(-0.5 * np.log1p(-np.minimum(correlations**2, 1 - 1e-6)).sum())


def _directions(x: Array) -> Table:
    """Return an orthonormal basis of the directions in which samples differ."""
    centred = x.astype(np.float64) - x.mean(axis=0, dtype=np.float64)
    # Unit variance first: a small dimension is not a redundant one. Rounding is neither.
    deviation = centred.std(axis=0)
    resolution = 1e-5 * float(np.sqrt(np.mean(x.astype(np.float64) ** 2)))
    moving = deviation > resolution
    left, singular, _ = np.linalg.svd(centred[:, moving] / deviation[moving], full_matrices=False)
    return np.asarray(left[:, singular > 1e-3 * np.sqrt(len(x))])
