from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

from duotone.measures.linear_heads import train_linear
from duotone.measures.probe_networks import Scaling, train_probes
from duotone.measures.questions import (
    Question,
    answer_blindly,
    answer_by_label,
    bootstrap_counts,
    draw_rows,
    plain_score,
    question,
    score_answers,
)


def halves(codes, columns, train=None):
    """Split a table in two: codes and questions of each half."""
    train = train or len(codes) // 2
    asked = [question(name, values) for name, values in columns.items()]
    rows = np.arange(len(codes))
    first, second = rows[:train], rows[train:]
    return (
        codes[first],
        [asking.at(first) for asking in asked],
        codes[second],
        [asking.at(second) for asking in asked],
    )


def read(codes, columns, probe=train_probes, **arguments):
    """Return each question's score, learnt on the first half and scored on the second."""
    x, known, test, asked = halves(codes, columns)
    if probe is train_linear:
        answers = train_linear(x, known, test)
    else:
        answers = probe(x, known, **(arguments or {"seed": 0}))(test)
    return {
        truth.name: plain_score(truth, said) for truth, said in zip(asked, answers, strict=True)
    }


def exclusive_or(rows, dimensions, rng):
    """Return codes whose only message, one of two kinds, is whether two signs agree."""
    kind = rng.integers(0, 2, rows)
    codes = rng.normal(size=(rows, dimensions))
    codes[:, 1] = np.abs(codes[:, 1]) * np.sign(codes[:, 0]) * (2 * kind - 1)
    return codes, kind


def test_texts_and_numbers_are_kinds_and_floats_are_amounts():
    assert question("client", np.array(["b", "a", "b"])).answers.tolist() == [1, 0, 1]
    assert question("mark", np.array([-1, 2, 2])).answers.tolist() == [0, 1, 1]
    amounts = question("blur", np.array([1.5, np.nan]))
    assert not amounts.is_categorical
    assert amounts.asked.tolist() == [True, False]


def test_nothing_is_asked_about_samples_without_a_value():
    hair = question("hair", np.array(["hat", "", "bald", "hat"]))
    assert hair.answers.tolist() == [1, -1, 0, 1]
    assert hair.asked.tolist() == [True, False, True, True]


def test_a_phase_is_asked_for_as_cosine_and_sine():
    phase = question("phase", np.array([0.0, np.pi / 2, np.nan]))
    np.testing.assert_allclose(phase.answers[:2], [[1, 0], [0, 1]], atol=1e-15)
    assert phase.asked.tolist() == [True, True, False]


def test_samples_of_a_kind_without_training_samples_are_not_asked_about():
    clients = question("client", np.array(["a", "b", "c", "a"]))
    known = clients.at(np.array([0, 1]))
    assert clients.at(np.array([2, 3])).about_known(known).asked.tolist() == [False, True]


def test_a_question_with_a_single_answer_or_few_samples_cannot_be_learnt():
    assert not question("group", np.zeros(50, int)).can_be_learnt
    assert not question("blur", np.full(50, 1.5)).can_be_learnt
    assert not question("client", np.arange(19)).can_be_learnt
    assert question("client", np.arange(20)).can_be_learnt


def test_at_most_so_many_rows_are_drawn():
    rows = np.arange(100, 200)
    drawn = draw_rows(rows, np.random.default_rng(0), limit=10)
    assert len(np.unique(drawn)) == 10
    assert np.isin(drawn, rows).all()
    assert draw_rows(rows, np.random.default_rng(0), limit=100).tolist() == rows.tolist()


def test_accuracy_and_r2_of_four_samples_worked_by_hand():
    kinds = Question("label", np.array([0, 1, 1, -1]))
    assert plain_score(kinds, np.array([0, 1, 0, 0])) == pytest.approx(2 / 3)
    amounts = Question("x", np.array([[0.0], [2.0], [4.0], [np.nan]]))
    # squared errors 1 + 0 + 1 over squared deviations 4 + 0 + 4
    assert plain_score(amounts, np.array([[1.0], [2.0], [3.0], [9.0]])) == pytest.approx(0.75)
    # one amount of two values: errors 1 + 1 over deviations 2 × (1 + 4)
    pair = Question("phase", np.array([[1.0, 2.0], [-1.0, -2.0]]))
    assert plain_score(pair, np.array([[0.0, 2.0], [-1.0, -1.0]])) == pytest.approx(1 - 2 / 10)


def test_amounts_that_do_not_vary_and_questions_about_nobody_have_no_score():
    counts = np.ones((3, 2))
    constant = Question("x", np.array([[1.0], [1.0]]))
    assert score_answers(constant, np.zeros((2, 1)), "higher", counts) is None
    nobody = Question("label", np.array([-1, -1]))
    assert score_answers(nobody, np.zeros(2, int), "higher", counts) is None


def test_the_bootstrap_interval_is_that_of_a_proportion():
    right = np.arange(400) % 4 > 0
    truth = Question("label", np.ones(400, np.int64))
    counts = bootstrap_counts(400, np.random.default_rng(0))
    assert (counts.sum(axis=1) == 400).all()
    score = score_answers(truth, right.astype(np.int64), "higher", counts)
    error = np.sqrt(0.75 * 0.25 / 400)
    assert score.value == 0.75
    assert score.std == pytest.approx(error, rel=0.1)
    assert score.low == pytest.approx(0.75 - 1.96 * error, abs=0.01)
    assert score.high == pytest.approx(0.75 + 1.96 * error, abs=0.01)


def test_blind_answers_are_the_most_frequent_kind_and_the_mean():
    known = Question("label", np.array([2, 2, 0, -1, -1, -1]))
    assert answer_blindly(known, Question("label", np.array([0, 1]))).tolist() == [2, 2]
    amounts = Question("x", np.array([[1.0], [3.0], [np.nan]]))
    assert plain_score(amounts, answer_blindly(amounts, amounts)) == 0


def test_a_label_alone_tells_the_kind_that_has_it_most_often():
    known = Question("client", np.array([0, 0, 1, 1, 1, 2, -1]))
    labels = np.array([5, 5, 5, 6, 6, 7, 7])
    assert answer_by_label(known, labels, np.array([5, 6, 7, 8])).tolist() == [0, 1, 2, 1]


def test_the_network_reads_what_a_linear_probe_misses():
    codes, kind = exclusive_or(4000, 16, np.random.default_rng(0))
    assert read(codes, {"client": kind}, train_linear)["client"] < 0.55
    assert read(codes, {"client": kind})["client"] > 0.9


def test_the_network_reads_a_kind_from_the_radius():
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, 4000)
    codes = rng.normal(size=(4000, 12))
    codes[:, :3] *= ((1 + kind) / np.linalg.norm(codes[:, :3], axis=1))[:, np.newaxis]
    assert read(codes, {"group": kind}, train_linear)["group"] < 0.4
    assert read(codes, {"group": kind})["group"] > 0.95


def test_nothing_is_read_from_noise():
    rng = np.random.default_rng(0)
    columns = {"label": rng.integers(0, 4, 3000), "x": rng.normal(size=3000)}
    found = read(rng.normal(size=(3000, 64)), columns)
    assert found["label"] == pytest.approx(0.25, abs=0.04)  # 2 standard errors are 0.02
    assert found["x"] == pytest.approx(0, abs=0.04)


def test_amounts_and_angles_are_read_where_they_apply():
    rng = np.random.default_rng(0)
    phase, blur = rng.uniform(0, 2 * np.pi, 2000), rng.uniform(1, 2, 2000)
    codes = np.stack([np.cos(phase), np.sin(phase), np.exp(blur)], axis=1)
    blur[rng.random(2000) < 0.5] = np.nan
    found = read(codes, {"phase": phase, "blur": blur})
    assert found["phase"] > 0.99
    assert found["blur"] > 0.98


def test_questions_are_trained_independently_side_by_side():
    rng = np.random.default_rng(0)
    codes, kind = exclusive_or(1000, 4, rng)
    columns = {"x": codes[:, 2], "client": kind, "label": rng.integers(0, 7, 1000)}
    x, known, test, _ = halves(codes, columns)
    together = train_probes(x, known, seed=3)(test)
    assert [len(answer) for answer in together] == [500, 500, 500]
    # Other first weights, but the same reading, whatever stands beside a question.
    alone = read(codes, {"client": kind})["client"]
    beside = read(codes, columns)
    assert beside["client"] == pytest.approx(alone, abs=0.05)
    assert beside["x"] > 0.98


def test_probes_depend_on_nothing_but_the_seed():
    rng = np.random.default_rng(0)
    codes, kind = exclusive_or(400, 6, rng)
    x, known, test, _ = halves(codes, {"client": kind, "x": codes[:, 3]})
    before = torch.get_num_threads()
    first = train_probes(x, known, seed=1)(test)
    try:
        torch.set_num_threads(2)
        torch.manual_seed(99)
        again = train_probes(x, known, seed=1)(test)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    other = train_probes(x, known, seed=2)(test)
    np.testing.assert_array_equal(first[1], again[1])
    assert not np.array_equal(first[1], other[1])


def test_rounding_in_a_dead_dimension_is_not_blown_up():
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, 2000)
    codes = rng.normal(size=(2000, 4)).astype(np.float32)
    codes[:, 0] = 1 + 1e-6 * kind  # differences in the last bits, which tell the kind
    scaled = Scaling.of(codes).apply(codes)
    assert np.abs(scaled[:, 0]).max() < 1e-3
    assert read(codes, {"client": kind})["client"] < 0.55


def test_a_part_that_is_constant_throughout_gives_chance():
    kind = np.arange(200) % 2
    assert read(np.full((200, 3), 0.1, np.float32), {"client": kind}) == {"client": 0.5}
    assert read(np.zeros((200, 3)), {"client": kind}) == {"client": 0.5}


@settings(max_examples=4, deadline=None)
@given(st.integers(0, 1000))
def test_readings_do_not_depend_on_order_sign_and_scale_of_dimensions(seed):
    rng = np.random.default_rng(seed)
    codes, kind = exclusive_or(1200, 3, rng)
    scale = rng.choice([-1, 1], 3) * rng.uniform(0.2, 5, 3)
    changed = (codes * scale)[:, rng.permutation(3)] + rng.normal(size=3)
    columns = {"client": kind, "x": codes[:, 2]}
    plain, other = read(codes, columns), read(changed, columns)
    assert other["client"] == pytest.approx(plain["client"], abs=0.06)
    assert other["x"] == pytest.approx(plain["x"], abs=0.03)
    linear, changed_linear = (read(table, columns, train_linear) for table in (codes, changed))
    assert changed_linear["x"] == pytest.approx(linear["x"], abs=1e-4)
    assert changed_linear["client"] == pytest.approx(linear["client"], abs=0.01)


def test_the_network_reads_as_much_as_that_of_scikit_learn():
    digits, label = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(label))
    features = np.maximum(digits[order] @ rng.normal(size=(64, 64)) / 16, 0)
    client = rng.integers(0, 6, len(label))
    codes = features + 0.2 * rng.normal(size=(6, 64))[client]
    columns = {"label": label[order], "client": client}
    ours = read(codes, columns)
    x, known, test, asked = halves(codes, columns)
    scaling = Scaling.of(x)
    for training, truth in zip(known, asked, strict=True):
        theirs = MLPClassifier((64, 64), max_iter=200, tol=1e-3, random_state=0)
        theirs.fit(scaling.apply(x), training.answers)
        score = plain_score(truth, theirs.predict(scaling.apply(test)))
        assert 0.3 < score < 0.99
        assert ours[truth.name] == pytest.approx(score, abs=0.035)  # 2 standard errors


def test_questions_with_the_same_answers_are_answered_alike_by_their_own_names():
    rng = np.random.default_rng(0)
    client = rng.integers(0, 3, 600)
    codes = rng.normal(size=(600, 4)) + 3 * np.eye(3, 4)[client]
    names = np.array(["b", "c", "a"])[client]  # the same clients in another order of kinds
    halves = client == 1  # coarser: another question
    asked = [question("client", client), question("group", names), question("half", halves)]
    by_client, by_group, by_half = train_probes(codes, asked, seed=0)(codes)
    assert np.array_equal(np.array([1, 2, 0])[by_client], by_group)
    assert (by_client == client).mean() > 0.95
    assert (by_half == halves).mean() > 0.95


def test_a_question_can_be_about_some_samples_only():
    amounts = question("size", np.array([1.0, 2.0, 3.0])).where(np.array([True, False, True]))
    assert amounts.asked.tolist() == [True, False, True]
    kinds = question("label", np.array([0, 1, 2])).where(np.array([False, True, True]))
    assert kinds.asked.tolist() == [False, True, True]
