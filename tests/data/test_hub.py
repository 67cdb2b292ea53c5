"""Data sets of Hugging Face: real ones where the extra is installed, look-alikes everywhere."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from PIL import Image

from duotone.data import dataset_from_object, load_dataset, table_settings
from duotone.errors import DataError, MissingExtraError


class ClassLabel:
    def __init__(self, names: list[str]) -> None:
        self.names = names


class Value: ...


class LookAlike:
    """As much of ``datasets.Dataset`` as duotone asks for."""

    def __init__(self, columns: dict[str, list[Any]], features: dict[str, Any]) -> None:
        self.columns_given, self.features = columns, features
        self.column_names = list(columns)

    def __len__(self) -> int:
        return len(next(iter(self.columns_given.values())))

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return self.columns_given[key]
        return {name: values[key] for name, values in self.columns_given.items()}

    def with_format(self, kind: None) -> LookAlike:
        return self

    def to_polars(self) -> pl.DataFrame:
        return pl.DataFrame(self.columns_given)


ImageFeature = type("Image", (), {})


def pictures(count: int = 10, label: str = "label", **more: list[Any]) -> LookAlike:
    images = [Image.new("L", (5, 4), number) for number in range(count)]
    columns = {"image": images, label: [number % 2 for number in range(count)], **more}
    features = {"image": ImageFeature(), label: ClassLabel(["cat", "dog"])}
    return LookAlike(columns, features | {name: Value() for name in more})


def test_images_with_class_names_and_clients() -> None:
    source = pictures(label="fine", writer=list("aabbaabbaa"))
    dataset = dataset_from_object(source, table_settings({"client": "writer"}))
    assert dataset.class_names == ("cat", "dog")
    assert dataset.x.shape == (10, 4, 5)
    assert dataset.client is not None
    whose = {
        int(pixel): str(client)
        for pixel, client in zip(dataset.x[:, 0, 0], dataset.client, strict=True)
    }
    assert [whose[number] for number in range(10)] == list("aabbaabbaa")


def test_splits_of_a_dictionary_and_the_partitions_of_flower() -> None:
    dataset = dataset_from_object({"train": pictures(6), "test": pictures(2)}, table_settings(None))
    assert dataset.is_test.tolist() == [False] * 6 + [True] * 2

    class Partitioner:
        num_partitions = 3

    class Federated:
        partitioners = {"train": Partitioner()}  # noqa: RUF012

        def load_partition(self, number: int, split: str) -> LookAlike:
            assert split == "train"
            return pictures(10 + number)

    federated = dataset_from_object(Federated(), table_settings(None))
    assert federated.client is not None
    found, counts = np.unique(federated.client, return_counts=True)
    assert dict(zip(found.tolist(), counts.tolist(), strict=True)) == {"0": 10, "1": 11, "2": 12}


def test_data_without_images_is_a_table_with_classes_in_words() -> None:
    source = LookAlike(
        {"age": [1.0, 2.0, 3.0], "label": [1, 0, 1]},
        {"age": Value(), "label": ClassLabel(["ill", "well"])},
    )
    dataset = dataset_from_object(source, table_settings(None))
    assert dataset.class_names == ("ill", "well")
    assert dataset.y.tolist() == [1, 0, 1]


def test_what_is_wrong_with_it_is_one_line() -> None:
    with pytest.raises(DataError, match=r"no column 'writer'.* table.client to one of: image"):
        dataset_from_object(pictures(), table_settings({"client": "writer"}))
    source = pictures()
    source.columns_given["image"][3] = Image.new("L", (9, 9))
    with pytest.raises(DataError, match="image in row 4 has shape"):
        dataset_from_object(source, table_settings(None))
    source.columns_given["image"][3] = "no image"
    with pytest.raises(DataError, match="image in row 4 cannot be read"):
        dataset_from_object(source, table_settings(None))


def test_without_the_extra_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtraError, match=r"hub:some/name .* pip install 'duotone\[hub\]'"):
        load_dataset("hub:some/name")
    (tmp_path / "state.json").write_text("{}")
    with pytest.raises(MissingExtraError, match=r"pip install 'duotone\[hub\]'"):
        load_dataset(str(tmp_path))


@pytest.mark.filterwarnings("default")
class TestWithTheRealPackage:
    @pytest.fixture(autouse=True)
    def offline(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
        pytest.importorskip("datasets")

    def test_a_saved_data_set_is_read_from_its_folder(self, tmp_path: Path) -> None:
        import datasets

        features = datasets.Features(
            {
                "image": datasets.Image(),
                "label": datasets.ClassLabel(names=["cat", "dog"]),
                "writer": datasets.Value("string"),
            }
        )
        pixels = [np.full((4, 5), number, np.uint8) for number in range(10)]
        columns = {
            "image": [Image.fromarray(image) for image in pixels],
            "label": [0, 1] * 5,
            "writer": list("aabbaabbaa"),
        }
        whole = datasets.Dataset.from_dict(columns, features=features)
        datasets.DatasetDict({"train": whole, "test": whole.select(range(4))}).save_to_disk(
            str(tmp_path / "pets")
        )
        dataset = load_dataset(str(tmp_path / "pets"), table={"client": "writer"})
        assert dataset.name == "pets"
        assert dataset.x[:, 0, 0].tolist() == [*range(10), *range(4)]
        assert dataset.class_names == ("cat", "dog")
        assert dataset.client is not None
        assert "".join(dataset.client) == "aabbaabbaaaabb"

    def test_a_saved_table_is_read_from_its_folder(self, tmp_path: Path) -> None:
        import datasets

        columns = {"age": [1.5, None, 3.0], "label": ["p", "q", "p"]}
        datasets.Dataset.from_dict(columns).save_to_disk(str(tmp_path / "table"))
        dataset = load_dataset(str(tmp_path / "table"))
        assert dataset.class_names == ("p", "q")
        np.testing.assert_array_equal(dataset.x, [[1.5], [np.nan], [3]])

    def test_a_damaged_folder_and_a_name_without_a_network_are_one_line(
        self, tmp_path: Path
    ) -> None:
        (tmp_path / "state.json").write_text("{}")
        with pytest.raises(DataError, match="saved data set cannot be read"):
            load_dataset(str(tmp_path))
        with pytest.raises(DataError, match=r"hub:duotone/none cannot be had .*save_to_disk"):
            load_dataset("hub:duotone/none")

    def test_partitions_of_flower_are_clients(self, tmp_path: Path) -> None:
        import datasets

        federated = pytest.importorskip("flwr_datasets")
        table = datasets.Dataset.from_dict({"age": list(range(20)), "label": ["p", "q"] * 10})
        table.to_csv(str(tmp_path / "table.csv"))
        given = federated.FederatedDataset(
            dataset="csv",
            data_files=str(tmp_path / "table.csv"),
            partitioners={"train": 4},
        )
        dataset = dataset_from_object(given, table_settings(None))
        assert dataset.client is not None
        assert np.unique(dataset.client, return_counts=True)[1].tolist() == [5] * 4
