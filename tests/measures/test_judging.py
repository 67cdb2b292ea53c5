"""What judges learn from where clients lack labels."""

from __future__ import annotations

import numpy as np
from scenes import make_scene

from duotone.data import load_dataset
from duotone.federation.serving import Serving
from duotone.measures.judges import train_judges
from duotone.measures.judging import (
    dealt_anew,
    judges,
    judges_of_newcomers,
    judges_of_unseen,
    lacks_labels,
)
from duotone.runs.plan import plan_run
from duotone.types import RoundInfo

HALF = {"scheme": "pathological", "clients": 4, "classes_per_client": 5}


def plan(**settings):
    return plan_run(
        {"method": "fedavg", "data": "digits", "style": "padpaf4", "partition": HALF, **settings}
    )


def scene_of(found):
    info = RoundInfo(1, 1, 0, found.population.info)
    serving = Serving(found.method.start(info), info, found.rule)
    return make_scene(found.method, found.population, serving)


def test_every_style_has_every_label_and_the_members_samples_are_dealt_once():
    found = plan()
    dealt = dealt_anew(found.config, found.population.partition)
    own, new = found.population.partition, dealt.partition
    assert list(new) == ["blur", "invert", "zoom-in", "zoom-out"]
    plain = load_dataset("digits")
    for split in ("train", "test"):
        rows = np.concatenate([getattr(new[look], split) for look in new])
        assert sorted(rows) == sorted(np.concatenate([getattr(own[c], split) for c in own]))
        for look in new:
            assert set(plain.y[getattr(new[look], split)]) == set(range(10))
    rows = new["invert"].train
    np.testing.assert_array_equal(dealt.dataset.x[rows], 255 - plain.x[rows])


def test_judges_then_read_labels_that_no_client_of_a_look_has():
    found = plan()
    dealt = dealt_anew(found.config, found.population.partition)
    used, new = found.population.partition, dealt.partition
    usual = train_judges(found.population, seed=0)
    better = judges_of_unseen(found.config, used, dealt)
    assert better.styles == ("blur", "invert", "zoom-in", "zoom-out")
    assert [better.style_of[c] for c in used] == ["zoom-in", "zoom-out", "invert", "blur"]
    labels = dealt.dataset.y
    for reader, expected in ((usual, False), (better, True)):
        shares = []
        for client in used:
            look = better.style_of[client]
            rows = new[look].test
            is_new = ~np.isin(labels[rows], labels[used[client].train])
            verdicts = reader.verdicts(dealt.data(look, "test").x)["label"]
            shares.append((verdicts == labels[rows])[is_new].mean())
        assert (np.mean(shares) > 0.8) == expected, shares


def test_without_a_style_or_the_data_there_is_nothing_to_deal():
    plain = plan(style="none")
    assert dealt_anew(plain.config, plain.population.partition) is None
    x, y = np.zeros((40, 8, 8), np.uint8), np.arange(40) % 10
    arrays = {"x_train": x, "y_train": y, "x_test": x, "y_test": y}
    settings = {"method": "fedavg", "style": "marks", "partition": {"scheme": "iid", "clients": 2}}
    own = plan_run(settings, data=arrays)
    assert dealt_anew(own.config, own.population.partition) is None


def test_members_that_lack_labels_are_noticed():
    assert lacks_labels(plan().population)
    assert not lacks_labels(plan(partition={"scheme": "iid", "clients": 4}).population)


def test_newcomers_in_looks_of_their_own_have_judges_that_know_them():
    partition = {"scheme": "iid", "clients": 11, "newcomers": 3}
    found = plan(style="padpaf-new", partition=partition)
    scene = scene_of(found)
    usual, wider = scene.once(judges), judges_of_newcomers(scene)
    assert set(wider.styles) - set(usual.styles) == {"affine", "erase", "solarize"}
    newcomer = found.population.partition.of_role("newcomer")[1]
    x = found.population.data(newcomer, "test").x
    verdicts = wider.verdicts(x)["style"]
    own = wider.styles.index(wider.style_of[newcomer])
    assert wider.style_of[newcomer] == "solarize"
    assert (verdicts == own).mean() > 0.8


def test_judges_that_know_all_newcomers_are_kept():
    found = plan(partition={"scheme": "iid", "clients": 5, "newcomers": 1})
    scene = scene_of(found)
    assert judges_of_newcomers(scene) is scene.once(judges)
    found = plan(style="none", partition={"scheme": "iid", "clients": 5, "newcomers": 1})
    scene = scene_of(found)
    assert judges_of_newcomers(scene) is scene.once(judges)
