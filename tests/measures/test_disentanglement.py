from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duotone.measures.disentanglement import (
    bin_edges,
    bins_for,
    completeness,
    disentanglement,
    entropy,
    hsic,
    joint_counts,
    mig,
    modularity,
    mutual_information,
    sap,
    to_bins,
    total_correlation,
)
from duotone.measures.factor_tables import (
    FactorTables,
    above_chance,
    measure_dimensions,
    measure_parts,
    part_scores,
)
from duotone.measures.questions import Question, question
from duotone.measures.score import Score


def test_mig_worked_by_hand():
    information = np.array([[0.6, 0.0], [0.2, 0.3], [0.1, 0.3]])
    # (0.6 - 0.2) / 0.8 and (0.3 - 0.3) / 0.5
    assert mig(information, np.array([0.8, 0.5])) == pytest.approx(0.25)


def test_sap_worked_by_hand():
    assert sap(np.array([[0.9, 0.5], [0.4, 0.7], [0.1, 0.6]])) == pytest.approx((0.5 + 0.1) / 2)


def test_modularity_worked_by_hand():
    # first: 1 - (0.5² + 0²)/2 of the main one; second: pure; third knows nothing and does not count
    information = np.array([[0.4, 0.2, 0.0], [0.0, 0.0, 0.3], [0.0, 0.0, 0.0]])
    assert modularity(information) == pytest.approx((1 - 0.25 / 2 + 1) / 2)


def test_disentanglement_and_completeness_worked_by_hand():
    importance = np.array([[1.0, 0.0], [0.5, 0.5]])
    # rows are used 1 and 1 and have entropies 0 and 1 bit of 1
    assert disentanglement(importance) == pytest.approx(0.5)
    # columns: (2/3, 1/3) with weight 1.5 and (0, 1) with weight 0.5
    spread = -(2 / 3 * np.log2(2 / 3) + 1 / 3 * np.log2(1 / 3))
    assert completeness(importance) == pytest.approx((1.5 * (1 - spread) + 0.5) / 2)


def test_perfect_and_even_tables_are_the_ends_of_the_range():
    perfect, even, empty = np.eye(3), np.full((3, 3), 0.2), np.zeros((3, 3))
    for score in (disentanglement, completeness, modularity):
        assert score(perfect) == pytest.approx(1)
        assert score(even) == pytest.approx(0, abs=1e-12)
        assert score(empty) == 0
    assert mig(perfect, np.ones(3)) == sap(perfect) == 1
    assert mig(even, np.ones(3)) == sap(even) == 0


tables = st.tuples(st.integers(2, 5), st.integers(2, 5), st.integers(0, 10_000)).map(
    lambda size: np.random.default_rng(size[2]).random(size[:2])
)


@given(tables, st.integers(0, 10_000))
def test_scores_lie_between_0_and_1_and_ignore_the_order_of_rows_and_columns(table, seed):
    rng = np.random.default_rng(seed)
    changed = table[rng.permutation(len(table))][:, rng.permutation(table.shape[1])]
    for score in (disentanglement, completeness, modularity, sap):
        assert 0 <= score(table) <= 1
        assert score(changed) == pytest.approx(score(table))
    for score in (disentanglement, completeness, modularity):
        assert score(3 * table) == pytest.approx(score(table))


def test_bins_hold_equally_many_values_and_equal_values_share_one():
    values = np.array([[5.0], [1.0], [3.0], [2.0], [4.0], [6.0]])
    assert to_bins(values, bin_edges(values, 3))[:, 0].tolist() == [2, 0, 1, 0, 1, 2]
    assert len(np.unique(to_bins(np.ones((6, 1)), bin_edges(np.ones((6, 1)), 3)))) == 1


def test_bins_are_fewer_where_samples_are_few():
    assert [bins_for(rows) for rows in (4, 500, 4000)] == [2, 10, 20]


def test_mutual_information_of_a_table_of_counts_worked_by_hand():
    counts = np.array([[[400.0, 100.0], [100.0, 400.0]], [[250.0, 250.0], [250.0, 250.0]]])
    expected = 0.8 * np.log(1.6) + 0.2 * np.log(0.4)
    np.testing.assert_allclose(mutual_information(counts), [expected, 0])


def test_information_that_luck_explains_counts_as_none():
    rng = np.random.default_rng(0)
    bins, kinds = rng.integers(0, 20, (4000, 100)), rng.integers(0, 10, 4000)
    assert not mutual_information(joint_counts(bins, kinds)).any()
    assert mutual_information(joint_counts(bins, bins[:, 0] % 10))[0] == pytest.approx(
        np.log(10), abs=0.01
    )


def test_entropy_of_kinds():
    assert entropy(np.array([0, 0, 2, 2])) == pytest.approx(np.log(2))


def test_above_chance_is_a_share_of_what_chance_leaves_open():
    assert above_chance(0.75, 0.5) == 0.5
    assert above_chance(0.4, 0.5) == 0
    assert above_chance(1.0, 1.0) == 0


def plain_hsic(x, y):
    """Compute it as it is written: trace of products of centred kernels, loop by loop."""

    def kernel(values):
        count = len(values)
        square = np.array([[((a - b) ** 2).sum() for b in values] for a in values])
        width = np.median(square[np.triu_indices(count, 1)])
        centring = np.eye(count) - 1 / count
        return centring @ np.exp(-square / width) @ centring

    first, second = kernel(x), kernel(y)
    together, one, two = (np.trace(a @ b) for a, b in _pairs(first, second))
    return together / np.sqrt(one * two)


def _pairs(first, second):
    return (first, second), (first, first), (second, second)


def test_hsic_equals_its_definition():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(7, 2)), rng.normal(size=(7, 3))
    assert hsic(x, y, rng) == pytest.approx(plain_hsic(x, y))


def test_hsic_is_1_for_a_code_with_itself_and_0_for_a_constant():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 3))
    assert hsic(x, 5 * x + 2, rng) == pytest.approx(1)
    assert hsic(x, np.ones((50, 2)), rng) == 0


def test_hsic_sees_dependence_that_correlation_misses():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(800, 1))
    assert hsic(x, x**2, rng) > 0.1
    assert hsic(x, rng.normal(size=(800, 1)), rng) < 0.01
    assert total_correlation(x, x**2) < 0.05


def test_total_correlation_of_two_dimensions_worked_by_hand():
    # centred and orthogonal columns: the correlation of the two codes is exactly 3/5
    a, b = np.array([1.0, -1.0, 1.0, -1.0]), np.array([1.0, 1.0, -1.0, -1.0])
    x, y = a[:, np.newaxis], (3 * a + 4 * b)[:, np.newaxis]
    assert total_correlation(x, y) == pytest.approx(-0.5 * np.log(1 - 0.36))


def test_total_correlation_equals_the_ratio_of_determinants():
    rng = np.random.default_rng(0)
    both = rng.normal(size=(300, 5)) @ rng.normal(size=(5, 5))
    matrix = np.corrcoef(both.T)
    blocks = np.linalg.det(matrix[:2, :2]) * np.linalg.det(matrix[2:, 2:])
    expected = -0.5 * np.log(np.linalg.det(matrix) / blocks)
    assert total_correlation(both[:, :2], both[:, 2:]) == pytest.approx(expected)


def test_total_correlation_of_equal_dimensions_is_finite_and_dead_ones_do_not_count():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2))
    assert total_correlation(x, x[:, :1]) == pytest.approx(0.5 * np.log(1e6))
    dead = 1 + 1e-9 * x
    assert total_correlation(np.hstack([x, x]), dead) == 0


@given(st.integers(0, 10_000))
def test_dependence_ignores_order_sign_and_scale_of_dimensions(seed):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(60, 3)), rng.normal(size=(60, 2))
    y[:, 0] += x[:, 0]
    order, sign = rng.permutation(3), rng.choice([-1, 1], 3)
    assert total_correlation(x[:, order] * sign * rng.uniform(0.1, 9, 3), y) == pytest.approx(
        total_correlation(x, y)
    )
    # Distances stay the same when all dimensions are scaled alike, not when each is by itself.
    assert hsic(4 * x[:, order] * sign, y, rng) == pytest.approx(hsic(x, y, rng))


def factors(rows, rng):
    """Return a label and two amounts that are independent of each other."""
    return {
        "label": rng.integers(0, 4, rows),
        "x": rng.normal(size=rows),
        "phase": rng.uniform(0, 2 * np.pi, rows),
    }


def dimension_tables(codes, columns):
    asked = [question(name, values) for name, values in columns.items()]
    rows = np.arange(len(codes))
    train, test = rows[::2], rows[1::2]
    return measure_dimensions(
        codes[train],
        [asking.at(train) for asking in asked],
        codes[test],
        [asking.at(test) for asking in asked],
        seed=0,
    )


def test_a_dimension_for_each_factor_scores_high():
    rng = np.random.default_rng(0)
    columns = factors(4000, rng)
    codes = np.stack([columns["label"], columns["x"]], axis=1) + 0.01 * rng.normal(size=(4000, 2))
    scores = dimension_tables(codes, {name: columns[name] for name in ("label", "x")}).scores()
    assert scores["mig"] > 0.85
    assert scores["sap"] == pytest.approx((0.75 + 1) / 2, abs=0.05)  # a label has 1 - chance
    assert scores["modularity"] == 1
    assert scores["disentanglement"] > 0.95
    assert scores["completeness"] > 0.95
    assert scores["informativeness"] > 0.95


def test_a_random_code_scores_about_nothing():
    rng = np.random.default_rng(0)
    scores = dimension_tables(rng.normal(size=(4000, 12)), factors(4000, rng)).scores()
    assert scores["mig"] == scores["modularity"] == 0
    assert scores["sap"] < 0.02
    assert scores["informativeness"] < 0.02
    assert scores["disentanglement"] < 0.1
    assert scores["completeness"] < 0.1


def test_mixing_the_dimensions_lowers_the_scores():
    rng = np.random.default_rng(0)
    columns = {"x": rng.normal(size=2000), "y": rng.normal(size=2000)}
    apart = np.stack(list(columns.values()), axis=1)
    turned = apart @ np.array([[1.0, -1.0], [1.0, 1.0]])
    straight, mixed = (dimension_tables(codes, columns).scores() for codes in (apart, turned))
    for name in ("mig", "sap", "modularity", "disentanglement", "completeness"):
        assert mixed[name] < 0.5 < straight[name]


def test_a_factor_is_measured_where_it_applies():
    rng = np.random.default_rng(0)
    blur = rng.uniform(1, 2, 2000)
    codes = np.stack([blur, rng.normal(size=2000)], axis=1)
    blur[::3] = np.nan
    codes[::3, 0] = 50
    scores = dimension_tables(codes, {"blur": blur}).scores()
    assert scores["sap"] > 0.95
    assert "modularity" not in scores
    assert "disentanglement" not in scores


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 10_000))
def test_dimensions_score_alike_in_any_order_sign_and_scale(seed):
    rng = np.random.default_rng(seed)
    columns = {"label": rng.integers(0, 3, 800), "x": rng.normal(size=800)}
    codes = rng.normal(size=(800, 3))
    codes[:, 0] += columns["label"]
    codes[:, 1] += columns["x"]
    scale = rng.choice([-1, 1], 3) * rng.uniform(0.1, 9, 3)
    plain = dimension_tables(codes, columns)
    changed = dimension_tables((codes * scale)[:, ::-1], columns)
    np.testing.assert_allclose(changed.information[::-1], plain.information, atol=1e-12)
    np.testing.assert_allclose(changed.predictability[::-1], plain.predictability, atol=1e-12)


def test_parts_are_worth_what_their_probes_say_above_chance():
    truth = Question("label", np.tile([0, 1], 500))
    right, blind = truth.answers, np.zeros(1000, np.int64)
    read = [
        [Score(1.0, 0.0, "higher", 1000, "share", 1.0, 1.0)],
        [Score(0.51, 0.01, "lower", 1000, "share", 0.48, 0.54)],
    ]
    tables = measure_parts(read, [0.5], [[right], [blind]], [truth])
    assert tables.importance.tolist() == [[1], [0]]  # 0.51 may be luck
    assert tables.scores() == pytest.approx(
        {"mig": 1, "sap": 0.49, "completeness": 1, "informativeness": 1}
    )


def test_a_part_may_hold_several_factors_of_its_own_side():
    held = np.array([[0.8, 0.6, 0.0], [0.0, 0.0, 0.5]])
    tables = FactorTables(held, np.ones(3), held, held, held.max(axis=0))
    scores = part_scores(tables, ["shared", "shared", "local"])
    assert scores["disentanglement"] == scores["modularity"] == 1
    leaking = held.copy()
    leaking[0, 2] = 0.35  # as large a share as half of what it should hold, on average 0.7
    tables = FactorTables(leaking, np.ones(3), leaking, leaking, leaking.max(axis=0))
    scores = part_scores(tables, ["shared", "shared", "local"])
    assert scores["modularity"] == pytest.approx((1 - 0.25 + 1) / 2)
    spread = -(2 / 3 * np.log2(2 / 3) + 1 / 3 * np.log2(1 / 3))
    assert scores["disentanglement"] == pytest.approx((1.05 * (1 - spread) + 0.5) / 1.55)
    assert "modularity" not in part_scores(tables, ["shared", "shared", "unknown"])


def test_a_single_dimension_has_no_gap_to_a_second():
    one = np.ones((1, 2))
    assert FactorTables(one, one[0], one, one, one[0]).scores() == {}
