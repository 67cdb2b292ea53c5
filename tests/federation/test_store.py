from __future__ import annotations

import errno
import json
import os

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from duotone.errors import CheckpointError
from duotone.federation.store import FolderStore, Shelf, _file_stem, write_atomically
from duotone.types import ClientState, ServerState


def server(value: float) -> ServerState:
    return ServerState({"w": torch.full((3,), value)}, {"m": torch.tensor([value])})


def state(value: float) -> ClientState:
    return ClientState({"head": torch.full((2, 2), value)}, {"step": torch.tensor(int(value))})


@pytest.fixture
def store(tmp_path):
    store = FolderStore(tmp_path)
    store.put(1, "a", state(1))
    store.put(1, "b/ü", state(2))
    store.commit(1, server(1), {"metrics_bytes": 10})
    return store


def test_what_was_committed_is_read_back_to_the_bit(store, tmp_path):
    again = FolderStore(tmp_path)
    assert again.manifest.round == 1
    assert again.manifest.notes == {"metrics_bytes": 10}
    assert torch.equal(again.server().shared["w"], torch.full((3,), 1.0))
    assert torch.equal(again.server().extra["m"], torch.tensor([1.0]))
    assert torch.equal(again.get("b/ü").local["head"], torch.full((2, 2), 2.0))
    assert again.get("b/ü").extra["step"].item() == 2
    assert again.get("nobody") is None


def test_states_whose_tensors_share_memory_are_read_back_as_if_they_did_not(tmp_path):
    # As in groups that are one model still, or a client's own model before its first step.
    whole = torch.arange(6.0)
    shared = {"0/w": whole, "1/w": whole, "part": whole[2:4], "turned": whole.view(2, 3).T}
    store = FolderStore(tmp_path)
    store.put(1, "a", ClientState({"w": whole}, {"own/w": whole}))
    store.commit(1, ServerState(shared, {"again": whole}), {})
    again = FolderStore(tmp_path)
    assert again.server().shared.keys() == shared.keys()
    for name, tensor in shared.items():
        assert torch.equal(again.server().shared[name], tensor), name
    assert torch.equal(again.server().extra["again"], whole)
    assert torch.equal(again.get("a").local["w"], whole)
    assert torch.equal(again.get("a").extra["own/w"], whole)


def test_a_round_that_was_not_committed_never_happened(store, tmp_path):
    store.put(2, "a", state(9))
    assert store.get("a").local["head"][0, 0] == 9, "the writer itself sees its newest state"
    again = FolderStore(tmp_path)
    assert again.manifest.round == 1
    assert again.get("a").local["head"][0, 0] == 1


def test_opening_clears_what_a_dead_writer_left(store, tmp_path):
    store.put(2, "a", state(9))
    (tmp_path / "server-00002.safetensors").write_bytes(b"half a file")
    (tmp_path / "manifest.json.part").write_bytes(b"{")
    FolderStore(tmp_path)
    assert sorted(p.name for p in tmp_path.glob("*")) == [
        "clients",
        "manifest.json",
        "server-00001.safetensors",
    ]
    assert sorted(p.name for p in tmp_path.glob("clients/*")) == [
        "a-00001.safetensors",
        "b%2F%C3%BC-00001.safetensors",
    ]


def test_states_of_clients_that_were_not_drawn_survive_commits(store, tmp_path):
    store.put(2, "a", state(5))
    store.commit(2, server(2), {})
    again = FolderStore(tmp_path)
    assert again.get("a").local["head"][0, 0] == 5
    assert again.get("b/ü").local["head"][0, 0] == 2
    assert len(list(tmp_path.glob("clients/*"))) == 2, "old files are gone"


def test_a_damaged_checkpoint_is_noticed(store, tmp_path):
    path = tmp_path / "server-00001.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="damaged"):
        FolderStore(tmp_path).server()


def test_a_truncated_or_missing_checkpoint_is_noticed(store, tmp_path):
    path = tmp_path / "clients" / "a-00001.safetensors"
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(CheckpointError, match="damaged"):
        FolderStore(tmp_path).get("a")
    path.unlink()
    with pytest.raises(CheckpointError, match="cannot be read"):
        FolderStore(tmp_path).get("a")


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"{not json", "damaged"),
        (b"[]", "damaged"),
        (b'{"round": 1}', "damaged"),
        (json.dumps({"format": 99, "round": 1}).encode(), "another version"),
    ],
)
def test_a_foreign_or_damaged_manifest_is_a_clear_error(tmp_path, content, word):
    (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(CheckpointError, match=word):
        FolderStore(tmp_path)


def test_a_full_disk_keeps_the_last_round(store, tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match=r"disk is full.*safe"):
        store.commit(2, server(2), {})
    monkeypatch.undo()
    again = FolderStore(tmp_path)
    assert again.manifest.round == 1
    assert torch.equal(again.server().shared["w"], torch.full((3,), 1.0))


def test_replacing_a_file_leaves_no_part_behind(tmp_path):
    path = tmp_path / "x.json"
    write_atomically(path, b"one")
    write_atomically(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [path]


@given(st.lists(st.text(min_size=1), unique=True, max_size=5))
def test_every_client_name_gets_a_file_of_its_own(names):
    stems = [_file_stem(name) for name in names]
    assert len(set(stems)) == len(stems)
    assert all("/" not in stem and "\0" not in stem and len(stem) < 200 for stem in stems)


def test_a_shelf_gives_back_what_a_client_put_there_and_nothing_else(tmp_path):
    shelf = Shelf(tmp_path)
    assert shelf.get("b/ü") is None
    shelf.put("b/ü", state(2))
    shelf.put("b/ü", state(3))
    found = shelf.get("b/ü")
    assert torch.equal(found.local["head"], torch.full((2, 2), 3.0))
    assert torch.equal(found.extra["step"], torch.tensor(3))
    assert shelf.get("b") is None
    assert len(list(tmp_path.iterdir())) == 1
