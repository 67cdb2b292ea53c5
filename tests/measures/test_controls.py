from __future__ import annotations

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge

from duotone.measures.controls import STOPPED, Deals, control_scores, dealt_scores, rarely_exceeded
from duotone.measures.folds import Fold
from duotone.measures.linear_heads import LinearHeads, train_linear
from duotone.measures.questions import Question, answer_blindly, plain_score, question
from duotone.measures.score import Key

KEY = Key("probe", "client", part="shared", variant="linear")


def in_halves(rows):
    first, second = np.arange(0, rows, 2), np.arange(1, rows, 2)
    return Fold(first, second), Fold(second, first)


def read_linearly(codes, asking, client, rng):
    """Return what linear probes read, and what they read where answers are dealt out anew."""
    folds = in_halves(len(codes))
    said = [train_linear(codes[f.train], [asking.at(f.train)], codes[f.test])[0] for f in folds]
    truth = asking.at(np.concatenate([fold.test for fold in folds]))
    drawn = dealt_scores(asking, folds, [codes, codes], Deals(folds, client, rng))
    return plain_score(truth, np.concatenate(said)), drawn


def judged(codes, asking, client, rng):
    """Return a reading, the 95 % point of its control, and its bar."""
    read, drawn = read_linearly(codes, asking, client, rng)
    scores = control_scores({KEY: drawn}, {KEY: "share"})
    return (
        read,
        scores[KEY.beside("linear.control95")].value,
        scores[KEY.beside("linear.bar")].value,
    )


def leaking(shift, rng, rows=400):
    """Return codes of eight numbers that tell one of four clients apart by so much."""
    client = np.arange(rows) // 2 % 4
    codes = rng.normal(size=(rows, 8))
    codes[:, :4] += shift * np.eye(4)[client]
    return codes, client


def test_the_control_covers_chance_and_is_beaten_as_often_as_it_says():
    beaten = []
    for seed in range(120):
        rng = np.random.default_rng(seed)
        codes, client = leaking(0.0, rng)
        read, point, _ = judged(codes, question("client", client), client, rng)
        assert point >= 0.25
        beaten.append(read > point)
    assert np.mean(beaten) < 0.05 + 2.5 * np.sqrt(0.05 * 0.95 / 120)


def test_a_leak_of_37_against_25_percent_is_called_one():
    found = []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        codes, client = leaking(0.54, rng)
        found.append(judged(codes, question("client", client), client, rng))
    read, _, bar = np.array(found).T
    assert read.mean() == pytest.approx(0.37, abs=0.01)
    assert (read > bar).mean() >= 0.95


def test_a_grouping_that_clients_give_away_is_no_leak_of_the_group():
    beaten = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        client = np.arange(480) // 2 % 12
        codes = rng.normal(size=(480, 8)) + 1.5 * rng.normal(size=(12, 8))[client]
        group = question("group", rng.permutation(np.arange(12) % 3)[client])
        read, drawn = read_linearly(codes, group, client, rng)
        assert read > 0.5
        assert drawn.mean() > 0.5
        beaten.append(read > np.quantile(drawn, 0.95, method="higher"))
    assert np.mean(beaten) < 0.05 + 2.5 * np.sqrt(0.05 * 0.95 / 60)


def test_a_group_that_codes_tell_beyond_clients_is_found():
    rng = np.random.default_rng(0)
    client = np.arange(480) // 2 % 12
    codes = rng.normal(size=(480, 8))
    codes[:, :3] += 2 * np.eye(3)[client % 3]
    read, point, bar = judged(codes, question("group", client % 3), client, rng)
    assert point <= bar < read


def test_answers_are_dealt_among_the_samples_asked_of_each_half():
    folds, client = in_halves(40), np.zeros(40, int)
    asking = Question("label", np.where(np.arange(40) < 30, np.arange(40) % 3, -1))
    dealt = Deals(folds, client, np.random.default_rng(0), count=20).answers(asking)
    assert (dealt[:, 30:] == -1).all()
    for rows in (folds[0].train, folds[0].test):
        assert (np.sort(dealt[:, rows], axis=1) == np.sort(asking.answers[rows])).all()
    assert len(np.unique(dealt, axis=0)) == 20


def test_what_clients_have_in_common_is_dealt_among_whole_clients():
    client = np.arange(48) % 6
    deals = Deals(in_halves(48), client, np.random.default_rng(0))
    group = question("group", client // 3)
    assert deals.is_of_clients(group)
    dealt = deals.answers(group)
    first = dealt[:, :6]
    assert (dealt == first[:, client]).all()
    assert (np.sort(first, axis=1) == [0, 0, 0, 1, 1, 1]).all()
    assert len(np.unique(first, axis=0)) == 20, "three of six clients can be chosen in 20 ways"
    assert not deals.is_of_clients(question("client", client)), "a name is as good as another"
    assert not deals.is_of_clients(question("label", np.arange(48) // 24))
    assert deals.is_of_clients(question("size", client.astype(float)))


def test_all_questions_have_the_same_deals():
    client = np.arange(40) % 4
    deals = Deals(in_halves(40), client, np.random.default_rng(0))
    label = np.random.default_rng(1).integers(0, 9, 40)
    numbers = deals.answers(question("size", label.astype(float)))[:, :, 0]
    assert (deals.answers(Question("label", label)) == numbers).all()


@pytest.mark.parametrize("names", ["abcdefgh", ["client", "group", "label", "size"]])
def test_one_run_in_twenty_reads_anything_where_there_is_nothing(names):
    rng = np.random.default_rng(0)
    keys = [Key("probe", name, part=part) for name in names for part in ("shared", "local")]
    above, alone = [], []
    for _ in range(400):
        drawn = {key: rng.normal(size=99) for key in keys}
        scores = control_scores(drawn, dict.fromkeys(keys, "share"))
        read = {key: rng.normal() for key in keys}
        above.append(any(read[key] > scores[key.beside("bar")].value for key in keys))
        alone.append(any(read[key] > scores[key.beside("control95")].value for key in keys))
    assert np.mean(above) == pytest.approx(0.05, abs=0.03)
    assert np.mean(alone) > 0.25


def test_a_wide_tail_of_another_question_does_not_hide_who_the_client_is():
    rng = np.random.default_rng(0)
    size = Key("probe", "size", part="shared")
    found = []
    for _ in range(200):
        drawn = {KEY: rng.normal(size=99), size: rng.exponential(size=99)}
        scores = control_scores(drawn, {KEY: "share", size: "r2"})
        found.append(scores[KEY.beside("linear.bar")].value)
    assert np.mean(found) < 2.3, "97.5 % of normal draws lie below 1.96; an exponential tail: 2.7"


def test_dealt_scores_are_exceeded_as_often_as_said():
    dealt = np.arange(1.0, 100.0)
    assert rarely_exceeded(dealt, 0.95) == 95
    assert rarely_exceeded(dealt, 0.975) == 98
    assert rarely_exceeded(dealt[:20], 0.975) == 20, "no point of twenty is exceeded so rarely"


def test_a_control_that_never_moves_is_beaten_by_anything_above_it():
    scores = control_scores({KEY: np.full(99, 0.5)}, {KEY: "share"})
    assert scores[KEY.beside("linear.control")].value == 0.5
    assert scores[KEY.beside("linear.bar")].value == pytest.approx(0.5, abs=1e-6)
    assert control_scores({}, {}) == {}


def test_linear_heads_answer_as_scikit_learns_discriminant_analysis():
    rng = np.random.default_rng(0)
    label = rng.choice(5, 3000, p=[0.4, 0.3, 0.1, 0.1, 0.1])
    codes = (
        rng.normal(size=(3000, 6)) @ rng.normal(size=(6, 6)) + 1.5 * rng.normal(size=(5, 6))[label]
    )
    theirs = LinearDiscriminantAnalysis().fit(codes[:2000], label[:2000]).predict(codes[2000:])
    (ours,) = train_linear(codes[:2000], [question("label", label[:2000])], codes[2000:])
    assert (ours == theirs).mean() > 0.99
    size = codes @ rng.normal(size=6) + rng.normal(size=3000)
    theirs = Ridge(alpha=1e-6).fit(codes[:2000], size[:2000]).predict(codes[2000:])
    (ours,) = train_linear(codes[:2000], [question("size", size[:2000])], codes[2000:])
    np.testing.assert_allclose(ours[:, 0], theirs, atol=0.1)


def test_many_sets_of_answers_are_learnt_as_each_alone():
    rng = np.random.default_rng(0)
    codes, answers = rng.normal(size=(60, 3)), rng.integers(0, 3, (7, 60))
    heads = LinearHeads.of(codes)
    together = heads.classes(codes, answers, 3)
    alone = [heads.classes(codes, own[np.newaxis], 3)[0, 0] for own in answers]
    np.testing.assert_array_equal(together[0], alone)


def test_more_numbers_than_samples_can_be_read():
    rng = np.random.default_rng(0)
    label = np.arange(60) % 2
    codes = rng.normal(size=(60, 200)) + 0.6 * label[:, np.newaxis]
    (said,) = train_linear(codes[:40], [question("label", label[:40])], codes[40:])
    assert (said == label[40:]).mean() > 0.9


def test_a_network_that_stopped_early_has_a_control_that_could():
    rng = np.random.default_rng(0)
    rows, client = 200, np.arange(200) // 2 % 4
    codes, folds = rng.normal(size=(rows, 40)), in_halves(200)
    deals = Deals(folds, client, rng)
    for asking in (
        question("size", rng.normal(size=rows)),
        question("label", (rng.random(rows) < 0.2).astype(int)),
    ):
        test = asking.at(np.concatenate([fold.test for fold in folds]))
        chance = plain_score(test, answer_blindly(test, test))
        plain = dealt_scores(asking, folds, [codes, codes], deals)
        stopped = dealt_scores(asking, folds, [codes, codes], deals, STOPPED)
        # Whoever believes all it learnt from 100 samples of 40 numbers does worse than guessing.
        assert np.quantile(plain, 0.95) < chance
        assert np.quantile(stopped, 0.95) >= chance - 1e-3
