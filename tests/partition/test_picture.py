from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from duotone.data.dataset import Dataset
from duotone.partition import Partition, build_partition
from duotone.partition.picture import draw_partition


def drawn(dataset: Dataset, partition: Partition, folder: Path) -> np.ndarray:
    path = folder / "partition.png"
    draw_partition(dataset, partition, path)
    return np.asarray(Image.open(path).convert("RGB"))


def pixels(image: np.ndarray, colour: tuple[int, int, int]) -> int:
    return int((image == colour).all(axis=2).sum())


BLUE, VERMILION = (0, 114, 178), (213, 94, 0)


def test_members_and_newcomers_are_drawn_in_two_inks(make_dataset, tmp_path: Path) -> None:
    dataset = make_dataset()
    without = drawn(dataset, build_partition(dataset, "iid", {"clients": 4}, seed=0), tmp_path)
    some = {"clients": 4, "newcomers": 2}
    with_some = drawn(dataset, build_partition(dataset, "iid", some, seed=0), tmp_path)
    assert pixels(without, BLUE) > 1000
    assert pixels(without, VERMILION) == 0
    # Equal sizes: two bars in each ink.
    assert pixels(with_some, VERMILION) == pytest.approx(pixels(with_some, BLUE), rel=0.2)


def test_the_picture_grows_with_the_clients_until_there_are_sixty(
    make_dataset, tmp_path: Path
) -> None:
    dataset = make_dataset(train=2000, test=500)
    heights = [
        drawn(dataset, build_partition(dataset, "iid", {"clients": n}, seed=0), tmp_path).shape[0]
        for n in (30, 60, 150)
    ]
    assert heights[0] < heights[1] == heights[2]


def test_every_kind_of_data_can_be_drawn(make_dataset, regression, tmp_path: Path) -> None:
    names = np.array(["$odd$", "a name that is much too long for the margin", "x_{1}^"])
    client = (names[np.arange(400) % 3], names[np.arange(100) % 3])
    named = make_dataset(client=client, classes=30, domain=client)
    for dataset, scheme, settings in (
        (regression, "quantity", {"clients": 5, "newcomers": 1}),
        (named, "natural", {}),
        (make_dataset(train=4000, test=1000), "groups", {"clients": 70}),
    ):
        image = drawn(dataset, build_partition(dataset, scheme, settings, seed=0), tmp_path)
        assert pixels(image, BLUE) > 1000


def test_drawing_leaves_pyplot_alone(make_dataset, tmp_path: Path) -> None:
    dataset = make_dataset()
    loaded_before = "matplotlib.pyplot" in sys.modules
    drawn(dataset, build_partition(dataset, "iid", {"clients": 4}, seed=0), tmp_path)
    assert ("matplotlib.pyplot" in sys.modules) == loaded_before
