"""The readers that are fuzzed: a valid file of each kind, and how it is read."""

from __future__ import annotations

import bz2
import gzip
import io
import pickle
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
from PIL import Image

from duotone.data import import_dataset, load_dataset
from duotone.data.cifar import unpickle_batch
from duotone.errors import DataError

warnings.simplefilter("ignore")
Base = dict[Path, bytes]
Target = tuple[Callable[[Path], Base], Callable[[Path], object]]

X = np.arange(12 * 8 * 8, dtype=np.uint8).reshape(12, 8, 8)
Y = np.arange(12, dtype=np.int64) % 3


def npz(place: Path) -> Base:
    packed = io.BytesIO()
    names = {"class_names": np.array(["a", "b", "c"]), "factor_f_train": Y[:8]}
    names |= {"factor_f_test": Y[8:], "client_train": Y[:8].astype(str), "client_test": Y[8:]}
    names["client_test"] = names["client_test"].astype(str)
    arrays = {"x_train": X[:8], "y_train": Y[:8], "x_test": X[8:], "y_test": Y[8:], **names}
    np.savez_compressed(packed, **arrays)
    plain = io.BytesIO()
    np.savez(plain, **arrays)
    return {place / "a.npz": packed.getvalue(), place / "b.npz": plain.getvalue()}


def idx(place: Path) -> Base:
    base = {}
    for part in ("train", "t10k"):
        images = bytes([0, 0, 8, 3]) + b"".join(n.to_bytes(4, "big") for n in X.shape) + X.tobytes()
        labels = bytes([0, 0, 8, 1]) + len(Y).to_bytes(4, "big") + Y.astype(np.uint8).tobytes()
        base[place / f"{part}-images-idx3-ubyte.gz"] = gzip.compress(images)
        base[place / f"{part}-labels-idx1-ubyte"] = labels
    return base


def usps(place: Path) -> Base:
    line = " ".join(["3", *(f"{i}:{(i % 20) / 10 - 1}" for i in range(1, 257))]) + "\n"
    return {place / "usps": (line * 4).encode(), place / "usps.t.bz2": bz2.compress(line.encode())}


def matlab(place: Path) -> Base:
    from scipy.io import savemat

    packed, plain = io.BytesIO(), io.BytesIO()
    x = np.zeros((32, 32, 3, 2), np.uint8)
    savemat(packed, {"X": x, "y": np.array([[1], [10]])}, do_compression=True)
    savemat(plain, {"X": x, "y": np.array([[1], [10]])})
    return {
        place / "train_32x32.mat": packed.getvalue(),
        place / "test_32x32.mat": plain.getvalue(),
    }


def cifar(place: Path) -> Base:
    batch = {b"data": np.zeros((2, 3072), np.uint8), b"labels": [4, 0]}
    return {place / "batch": pickle.dumps(batch, protocol=2)}


def images(place: Path) -> Base:
    base = {}
    for number, (kind, colour) in enumerate([("PNG", "L"), ("PNG", "P"), ("JPEG", "L")] * 2):
        folder = place / "data" / f"client{number}" / "class"
        folder.mkdir(parents=True, exist_ok=True)
        for copy in range(5):
            content = io.BytesIO()
            Image.new(colour, (8, 8), 9 * copy).save(content, kind)
            base[folder / f"{copy}.{kind.lower().replace('jpeg', 'jpg')}"] = content.getvalue()
    return base


def each_image(place: Path) -> None:
    from duotone.data.folders import read_image

    for path in sorted(place.rglob("*.*g")):
        read_image(path, deep=True)


def table() -> pl.DataFrame:
    return pl.DataFrame(
        {"a": [1.5, 2.0, None, 4.0] * 5, "b": ["x", "y", "x", "z"] * 5, "label": [0, 1, 1, 0] * 5}
    )


def csv(place: Path) -> Base:
    return {place / "t.csv": table().write_csv().encode()}


def parquet(place: Path) -> Base:
    packed = {}
    for kind in ("zstd", "snappy", "uncompressed"):
        content = io.BytesIO()
        table().write_parquet(content, compression=kind)
        packed[place / f"{kind}.parquet"] = content.getvalue()
    return packed


def npy(place: Path) -> Base:
    base = {}
    arrays = {"x": X, "y": Y, "is_test": np.arange(12) >= 8, "client": Y.astype(str)}
    for name, values in {**arrays, "class_names": np.array(["a", "b", "c"])}.items():
        content = io.BytesIO()
        np.save(content, values)
        base[place / f"{name}.npy"] = content.getvalue()
    return base


TOML = b"""data = "mini-digits"
rounds = 3
curve = [0, 1]
[partition]
scheme = "dirichlet"
clients = 4
alpha = 0.5
[method]
name = "fedavg"
lr = 0.1
"""


def toml(place: Path) -> Base:
    return {place / "c.toml": TOML}


def read_toml_file(place: Path) -> object:
    from duotone.config import RunConfig, read_toml, validated

    values = read_toml(place / "c.toml")
    for name in ("partition", "method"):
        if not isinstance(values.get(name, {}), dict):
            values.pop(name)
    return validated(RunConfig, values, owner="a run")


def run_folder(place: Path) -> Base:
    import duotone

    config = {"data": "mini-digits", "rounds": 1, "latents": 5, "curve": [], "backend": "serial"}
    partition = {"scheme": "dirichlet", "clients": 3, "alpha": 5.0}
    made = duotone.run(
        {**config, "model": "mlp-bn", "partition": partition, "method": {"name": "fedbn"}},
        out=place / "run",
    )
    made.client("0").export(place / "exported")
    shutil.rmtree(place / "run" / "figures", ignore_errors=True)
    kept = [p for p in sorted((place / "run").rglob("*")) if p.is_file() and p.stat().st_size]
    return {p: p.read_bytes() for p in kept if p.suffix in (".json", ".toml", ".npz", ".csv")} | {
        p: p.read_bytes() for p in kept if p.suffix == ".safetensors"
    }


def read_run(place: Path) -> None:
    from duotone.report.record import read_record
    from duotone.runs import load_run
    from duotone.runs.folder import RunFolder
    from duotone.runs.served import read_index

    folder = RunFolder.open(place / "run")
    folder.config(), folder.metrics(), folder.summary(), folder.latents(), folder.class_names()
    read_index(folder.path)
    with folder.reading() as last:
        last.server()
        for client in "012":
            last.get(client)
    run = load_run(place / "run")
    read_record(run)
    run.client("0").predict(np.zeros((1, 8, 8), np.uint8))


def exported(place: Path) -> Base:
    run_folder(place)
    return {p: p.read_bytes() for p in sorted((place / "exported").iterdir())}


def read_exported(place: Path) -> object:
    import duotone

    return duotone.load_client(place / "exported").predict(np.zeros((1, 8, 8), np.uint8))


def both_npz(place: Path) -> None:
    for name in ("a.npz", "b.npz"):
        load_dataset(str(place / name))


def both_parquet(place: Path) -> None:
    for path in sorted(place.glob("*.parquet")):
        load_dataset(str(path))


def official(name: str) -> Callable[[Path], object]:
    return lambda place: import_dataset(name, place, out=place / "out")


def one_batch(place: Path) -> object:
    if not (place / "batch").exists():
        raise DataError("none")
    return unpickle_batch((place / "batch").read_bytes(), place / "batch")


TARGETS: dict[str, Target] = {
    "npz": (npz, both_npz),
    "idx": (idx, official("mnist")),
    "usps": (usps, official("usps")),
    "matlab": (matlab, official("svhn")),
    "cifar": (cifar, one_batch),
    "images": (images, each_image),
    "csv": (csv, lambda place: load_dataset(str(place / "t.csv"))),
    "parquet": (parquet, both_parquet),
    "npy": (npy, lambda place: load_dataset(str(place))),
    "toml": (toml, read_toml_file),
    "run": (run_folder, read_run),
    "exported": (exported, read_exported),
}
