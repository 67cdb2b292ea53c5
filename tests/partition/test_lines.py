from __future__ import annotations

import numpy as np
import pytest

from duotone.data.dataset import Dataset
from duotone.partition import build_partition
from duotone.partition.lines import examples_of, lines_of

GROUPS = {"groups": 4, "newcomer_groups": 1, "alpha": 5.0, "min_train": 1, "min_test": 0}


def test_up_to_sixty_clients_have_a_line_each_members_first(make_dataset) -> None:
    domain = np.array(["a", "b"])
    dataset = make_dataset(
        train=400, test=100, domain=(domain[np.arange(400) % 2], domain[np.arange(100) % 2])
    )
    partition = build_partition(dataset, "domains", {"per_domain": 2}, seed=0)
    lines, _ = lines_of(dataset, partition)
    assert [line.name for line in lines] == ["a-0", "b-0", "a-1", "b-1"]
    assert [line.role for line in lines] == ["member", "member", "newcomer", "newcomer"]


def test_many_clients_are_shown_by_group(make_dataset) -> None:
    dataset = make_dataset(train=2000, test=500)
    partition = build_partition(dataset, "groups", {"clients": 80, **GROUPS}, seed=0)
    lines, note = lines_of(dataset, partition)
    assert [line.name for line in lines] == ["g0 × 20", "g1 × 20", "g2 × 20", "g3 × 20"]
    assert sum(line.sizes.sum() for line in lines) == 2000
    assert all(line.shares.sum() == pytest.approx(1) for line in lines)
    assert note.startswith("one line per group")


def test_of_many_clients_without_groups_some_are_shown(make_dataset) -> None:
    dataset = make_dataset(train=2000, test=500)
    partition = build_partition(dataset, "iid", {"clients": 100, "newcomers": 10}, seed=0)
    lines, note = lines_of(dataset, partition)
    assert len({line.name for line in lines}) == 60
    assert (lines[0].name, lines[-1].name) == ("0", "99")
    assert sum(line.role == "newcomer" for line in lines) == 6
    assert note == "one line per client, 60 of 100 clients"


def test_regression_targets_are_shown_in_tenths(regression: Dataset) -> None:
    partition = build_partition(regression, "iid", {"clients": 1}, seed=0)
    ((line,), _) = lines_of(regression, partition)
    # The training targets are the lower 100 of 120: eight full tenths of 12, and a bit of the next.
    assert (line.shares * 100).round().tolist() == [12] * 8 + [4, 0]


def test_there_are_examples_of_every_group_in_all_colours(make_dataset) -> None:
    dataset = make_dataset()
    partition = build_partition(dataset, "groups", {"clients": 8, **GROUPS}, seed=0)
    examples = examples_of(dataset, partition)
    assert [example.name for example in examples] == ["g0: 0", "g1: 2", "g2: 4", "g3: 6"]
    assert [example.role for example in examples] == ["member"] * 3 + ["newcomer"]
    # Eight images of 2 × 2 with a white frame of one pixel.
    assert all(example.images.shape == (4, 32, 3) for example in examples)
    rows = partition["0"].train[:8]
    first = rows[np.argsort(dataset.y[rows], kind="stable")][0]
    assert (examples[0].images[1:3, 1:3] == dataset.x[first][..., None]).all()


def test_a_table_has_no_example_images(regression: Dataset) -> None:
    partition = build_partition(regression, "iid", {"clients": 2}, seed=0)
    assert examples_of(regression, partition) == []
