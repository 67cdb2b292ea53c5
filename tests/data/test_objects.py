from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import IterableDataset, TensorDataset

from duotone.data import dataset_from_object, table_settings
from duotone.data.dataset import Dataset
from duotone.errors import ConfigError, DataError

NO_SETTINGS = table_settings(None)


class Items(TorchDataset[Any]):
    """Whatever it is given."""

    def __init__(self, items: list[Any], classes: list[str] | None = None) -> None:
        self.items = items
        if classes:
            self.classes = classes

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, number: int) -> Any:
        return self.items[number]


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter([])


def made(given: Any, **settings: Any) -> Dataset:
    return dataset_from_object(given, table_settings(settings))


def test_tensors_have_their_channels_first() -> None:
    x = torch.rand(10, 3, 4, 5)
    dataset = made(TensorDataset(x, torch.arange(10) % 2))
    assert dataset.x.shape == (10, 4, 5, 3)
    assert dataset.x.dtype == np.float32
    everything = {row.tobytes() for row in dataset.x}
    assert everything == {np.ascontiguousarray(t.permute(1, 2, 0).numpy()).tobytes() for t in x}
    assert len(dataset.test_rows) == 2


def test_images_of_pillow_and_named_classes_as_torchvision_gives_them() -> None:
    items = [(Image.new("L", (5, 4), 10 * n), n % 2) for n in range(4)]
    train, test = Items(items, ["cat", "dog"]), Items(items[:2], ["cat", "dog"])
    dataset = made({"train": train, "test": test})
    assert dataset.x[:, 0, 0].tolist() == [0, 10, 20, 30, 0, 10]
    assert dataset.x.shape == (6, 4, 5)
    assert dataset.x.dtype == np.uint8
    assert dataset.class_names == ("cat", "dog")
    assert dataset.is_test.tolist() == [False] * 4 + [True] * 2


def test_one_data_set_per_client() -> None:
    north = TensorDataset(torch.zeros(5, 2), torch.tensor([0, 1, 0, 1, 0]))
    south = {
        "train": TensorDataset(torch.ones(4, 2), torch.tensor([0, 1, 0, 1])),
        "test": TensorDataset(torch.ones(2, 2), torch.tensor([0, 1])),
    }
    both = made({"north": {"train": north, "test": south["test"]}, "south": south})
    assert both.client is not None
    assert both.client.tolist() == ["north"] * 5 + ["south"] * 4 + ["north"] * 2 + ["south"] * 2
    alone = made({"north": north, "south": south["train"]})
    assert alone.client is not None
    assert sorted(alone.client.tolist()) == ["north"] * 5 + ["south"] * 4


def test_labels_of_torch_may_be_texts_and_targets() -> None:
    words = made(Items([(torch.zeros(2), "b"), (torch.ones(2), "a")]))
    assert words.class_names == ("a", "b")
    targets = made(TensorDataset(torch.zeros(3, 2), torch.tensor([0.5, 1, 2])))
    assert targets.classes == 0


def test_frames_by_split_and_by_client() -> None:
    one = pl.DataFrame({"a": [1.0, 2.0], "label": ["p", "q"]})
    two = pl.DataFrame({"a": [3, 4], "label": ["q", "p"]})
    dataset = made({"train": one, "test": two})
    assert dataset.x.ravel().tolist() == [1, 2, 3, 4]
    assert dataset.is_test.tolist() == [False, False, True, True]
    by_client = made({"north": one, "south": two})
    assert by_client.client is not None
    assert by_client.client.tolist() == ["north", "north", "south", "south"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (3, "data is a name, a path.* Got a int"),
        ([1, 2], "Got a list"),
        (Items([torch.zeros(2)]), "Item 0 of the data set Items is a Tensor; it must be a pair"),
        (Items([(torch.zeros(2), 0), (torch.zeros(3), 1)]), r"Item 1 .* shape \(3,\)"),
        (Items([(torch.full((1, 4, 4), 2.0), 0)] * 5), r"values from 2 to 2.*leave out norm"),
        (Items([(torch.zeros(2), "a"), (torch.zeros(2), 1)]), "mixes texts"),
        (Items([]), "no samples"),
        (Stream(), "has no length"),
        ({"train": Items([(torch.zeros(2), 0)]), "dev": Items([])}, "a part called 'dev'"),
        (
            {"train": Items([(torch.zeros(2), 0)]), "test": Items([(torch.zeros(3), 0)])},
            "differ in form",
        ),
        (
            {"a": pl.DataFrame({"x": [1], "label": [1]}), "b": pl.DataFrame({"y": [1]})},
            "do not fit together",
        ),
        (
            {"a": pl.DataFrame({"x": [1], "label": [1], "client": ["b"]})},
            "has a column 'client' too",
        ),
        ({"a": pl.DataFrame({"x": [1]}), "b": Items([])}, "of different kinds"),
        (pl.DataFrame({"x": [1]}), "no column 'label'"),
    ],
)
def test_what_does_not_fit_is_one_line(given: Any, message: str) -> None:
    with pytest.raises((DataError, ConfigError), match=message) as caught:
        dataset_from_object(given, NO_SETTINGS)
    assert "\n" not in str(caught.value)


def test_settings_of_a_table_are_refused_for_data_without_columns() -> None:
    x = np.zeros((2, 4, 4), np.uint8)
    arrays = {"x_train": x, "y_train": [0, 1], "x_test": x, "y_test": [0, 1]}
    tensors = TensorDataset(torch.zeros(2, 2), torch.tensor([0, 1]))
    for given in (arrays, tensors, made(arrays)):
        with pytest.raises(ConfigError, match=r"table\.client is set, but this data has no"):
            made(given, client="who")
