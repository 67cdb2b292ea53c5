from __future__ import annotations

import errno
import json
import os

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from duotone.errors import CheckpointError, RunError
from duotone.federation.manifest import read_manifest
from duotone.federation.store import FolderStore, Shelf, file_stem, reading
from duotone.files import write_atomically
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
    assert again.last.round == 1
    assert again.last.notes == {"metrics_bytes": 10}
    assert torch.equal(again.last.server().shared["w"], torch.full((3,), 1.0))
    assert torch.equal(again.last.server().extra["m"], torch.tensor([1.0]))
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
    assert again.last.server().shared.keys() == shared.keys()
    for name, tensor in shared.items():
        assert torch.equal(again.last.server().shared[name], tensor), name
    assert torch.equal(again.last.server().extra["again"], whole)
    assert torch.equal(again.get("a").local["w"], whole)
    assert torch.equal(again.get("a").extra["own/w"], whole)


def test_a_round_that_was_not_committed_never_happened(store, tmp_path):
    store.put(2, "a", state(9))
    assert store.get("a").local["head"][0, 0] == 9, "the writer itself sees its newest state"
    again = FolderStore(tmp_path)
    assert again.last.round == 1
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
        FolderStore(tmp_path).last.server()


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
def test_a_foreign_or_damaged_manifest_is_a_clear_error_that_removes_nothing(
    store, tmp_path, content, word
):
    (tmp_path / "manifest.json").write_bytes(content)
    before = everything(tmp_path)
    for open_it in (FolderStore, read_manifest):
        with pytest.raises(CheckpointError, match=word):
            open_it(tmp_path)
    assert everything(tmp_path) == before


def everything(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_missing_manifest_is_a_clear_error_that_removes_nothing(store, tmp_path):
    (tmp_path / "manifest.json").unlink()
    before = everything(tmp_path)
    with pytest.raises(CheckpointError, match=r"missing.*nothing was changed"):
        FolderStore(tmp_path)
    with pytest.raises(CheckpointError, match=r"missing.*nothing was changed"), reading(tmp_path):
        pass
    assert everything(tmp_path) == before


@pytest.mark.parametrize(
    "name", ["../../victim.txt", "/victim.txt", "clients/../x-00001.safetensors"]
)
@pytest.mark.parametrize("where", ["files", "server", "clients", "selected"])
def test_a_manifest_that_names_files_elsewhere_is_refused(store, tmp_path, name, where):
    victim = tmp_path.parent.parent / "victim.txt"
    victim.write_text("keep me")
    path = tmp_path / "manifest.json"
    content = json.loads(path.read_text())
    content["files"][name] = 1
    if where == "server":
        content["server"] = name
    elif where == "clients":
        content["clients"]["a"] = name
    elif where == "selected":
        content["selected"] = {"round": 1, "server": name, "clients": {}, "notes": {}}
    path.write_text(json.dumps(content))
    for open_it in (FolderStore, read_manifest):
        with pytest.raises(CheckpointError, match="no file of this folder"):
            open_it(tmp_path)
    assert victim.read_text() == "keep me"


def test_symbolic_links_are_not_followed(store, tmp_path):
    outside = tmp_path.parent / "outside"
    outside.mkdir()
    (outside / "precious.safetensors").write_text("keep me")
    state_file = tmp_path / "clients" / "a-00001.safetensors"
    moved = state_file.rename(outside / "a")
    state_file.symlink_to(moved)
    with pytest.raises(CheckpointError, match="cannot be read"), reading(tmp_path) as last:
        last.get("a")
    (tmp_path / "clients" / "a-00002.safetensors").symlink_to(outside / "precious.safetensors")
    with pytest.raises(CheckpointError, match="symbolic link"):
        store.put(2, "a", state(9))
    linked = tmp_path.parent / "linked"
    linked.mkdir()
    (linked / "checkpoints").symlink_to(outside)
    for open_it in (FolderStore, lambda folder: reading(folder).__enter__()):
        with pytest.raises(RunError, match="symbolic link"):
            open_it(linked / "checkpoints")
    assert (outside / "precious.safetensors").read_text() == "keep me"


def test_reading_changes_nothing_and_a_writer_beside_it_goes_on(store, tmp_path):
    (tmp_path / "server-00002.safetensors").write_bytes(b"half a file")
    (tmp_path / "manifest.json.part").write_bytes(b"{")
    before = everything(tmp_path)
    with reading(tmp_path) as first:
        assert first.round == 1
        assert everything(tmp_path) == before
        store.put(2, "a", state(5))
        store.commit(2, server(2), {})
        # One round whole, though the next is there already.
        assert first.get("a").local["head"][0, 0] == 1
        assert torch.equal(first.server().shared["w"], torch.full((3,), 1.0))
        with reading(tmp_path) as second:
            assert second.round == 2
            assert second.get("a").local["head"][0, 0] == 5
    store.commit(3, server(3), {})
    kept = {path.name for path in everything(tmp_path)}
    assert "a-00001.safetensors" not in kept, "what a reader held back goes with the next commit"
    assert "server-00001.safetensors" not in kept


def test_what_a_reader_holds_back_last_goes_when_the_writer_is_done(store, tmp_path):
    with reading(tmp_path):
        store.commit(2, server(2), {})
    assert (tmp_path / "server-00001.safetensors").exists()
    store.close()
    assert not (tmp_path / "server-00001.safetensors").exists()


def test_a_folder_without_a_round_says_so(tmp_path):
    with pytest.raises(CheckpointError, match="has not begun"), reading(tmp_path / "none"):
        pass
    FolderStore(tmp_path)
    with reading(tmp_path) as nothing:
        assert nothing.round == 0
        assert nothing.get("a") is None
        with pytest.raises(CheckpointError, match="no committed round"):
            nothing.server()


def test_the_selected_round_is_kept_whole_beside_the_last(store, tmp_path):
    store.put(2, "a", state(2))
    store.commit(2, server(2), {"election": "x"}, selects=True)
    for round in (3, 4, 5):
        store.put(round, "a", state(round))
        store.put(round, "c", state(round))
        store.commit(round, server(round), {})
    with reading(tmp_path, "selected") as best, reading(tmp_path) as last:
        assert (best.round, last.round) == (2, 5)
        assert best.notes == {"election": "x"}
        assert torch.equal(best.server().shared["w"], torch.full((3,), 2.0))
        assert best.get("a").local["head"][0, 0] == 2
        assert best.get("b/ü").local["head"][0, 0] == 2, "as it was then"
        assert best.get("c") is None, "it had not taken part"
        assert last.get("a").local["head"][0, 0] == 5
    files = {path.name for path in everything(tmp_path)}
    assert files == {
        "manifest.json",
        *(f"server-0000{round}.safetensors" for round in (2, 5)),
        *(f"a-0000{round}.safetensors" for round in (2, 5)),
        *("b%2F%C3%BC-00001.safetensors", "c-00005.safetensors"),
    }, "no more than two of anything"
    again = FolderStore(tmp_path)
    again.commit(6, server(6), {}, selects=True)
    assert not (tmp_path / "server-00002.safetensors").exists(), "the better one took its place"


def test_a_run_without_a_selected_round_says_so(store, tmp_path):
    with (
        pytest.raises(CheckpointError, match="No round was selected"),
        reading(tmp_path, "selected"),
    ):
        pass


def test_folders_of_the_first_format_are_still_read(store, tmp_path):
    path = tmp_path / "manifest.json"
    content = json.loads(path.read_text())
    del content["selected"]
    path.write_text(json.dumps({**content, "format": 1}))
    assert torch.equal(FolderStore(tmp_path).get("a").local["head"], torch.full((2, 2), 1.0))


def test_facts_can_be_added_to_a_committed_round(store, tmp_path):
    store.note(more=1)
    with reading(tmp_path) as last:
        assert last.notes == {"metrics_bytes": 10, "more": 1}
        assert torch.equal(last.server().shared["w"], torch.full((3,), 1.0))


def test_a_full_disk_keeps_the_last_round(store, tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match=r"disk is full.*safe"):
        store.commit(2, server(2), {})
    monkeypatch.undo()
    again = FolderStore(tmp_path)
    assert again.last.round == 1
    assert torch.equal(again.last.server().shared["w"], torch.full((3,), 1.0))


def test_replacing_a_file_leaves_no_part_behind(tmp_path):
    path = tmp_path / "x.json"
    write_atomically(path, b"one")
    write_atomically(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [path]


@given(st.lists(st.text(min_size=1), unique=True, max_size=5))
def test_every_client_name_gets_a_file_of_its_own(names):
    stems = [file_stem(name) for name in names]
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
