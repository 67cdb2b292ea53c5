from __future__ import annotations

import errno
import itertools
import json
import os
import shutil
import tempfile
import zlib
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from old_manifests import listing

from duotone.errors import CheckpointError, RunError
from duotone.federation import journal
from duotone.federation.journal import file_stem
from duotone.federation.manifest import read_manifest
from duotone.federation.store import FolderStore, Shelf, reading
from duotone.files import write_atomically
from duotone.types import ClientState, FarState, ServerState


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
    (tmp_path / "clients-00002.journal").write_bytes(b"half a journal")
    (tmp_path / "manifest.json.part").write_bytes(b"{")
    FolderStore(tmp_path)
    assert sorted(p.name for p in tmp_path.glob("*")) == [
        "clients",
        "clients-00001.journal",
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
@pytest.mark.parametrize("where", ["journal", "server", "clients", "selected", "old server"])
def test_a_manifest_that_names_files_elsewhere_is_refused(store, tmp_path, name, where):
    victim = tmp_path.parent.parent / "victim.txt"
    victim.write_text("keep me")
    path = tmp_path / "manifest.json"
    content = json.loads(path.read_text())
    if where in ("clients", "old server"):
        content = listing(tmp_path)
        content["files"][name] = 1
    if where in ("server", "old server"):
        content["server"] = name
    elif where == "journal":
        content["journal"]["file"] = name
    elif where == "clients":
        content["clients"]["a"] = name
    elif where == "selected":
        content["selected"] = {"round": 1, "server": name}
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
        "clients-00001.journal",
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


@pytest.mark.parametrize("format", [1, 2])
def test_folders_of_older_formats_are_read_and_continued(store, tmp_path, format):
    store.put(2, "a", state(2))
    store.put(2, "far", FarState(round=2))
    store.commit(2, server(2), {"n": 2}, selects=format == 2)
    store.put(3, "a", state(3))
    store.put(3, "c", state(3))
    store.commit(3, server(3), {"n": 3})
    as_it_is = tmp_path.with_name(tmp_path.name + "_as_it_is")
    shutil.copytree(tmp_path, as_it_is)
    (tmp_path / "manifest.json").write_text(json.dumps(listing(tmp_path, format)))
    (tmp_path / "clients-00001.journal").unlink()
    again = FolderStore(tmp_path)
    for one in (again, FolderStore(as_it_is)):
        assert one.get("a").local["head"][0, 0] == 3
        assert one.get("far") == FarState(round=2)
        one.put(4, "b/ü", state(4))
        one.commit(4, server(4), {"n": 4})
        assert FolderStore(one.folder).get("a").local["head"][0, 0] == 3
        assert FolderStore(one.folder).get("b/ü").local["head"][0, 0] == 4
    if format == 2:
        with reading(tmp_path, "selected") as best:
            assert best.get("a").local["head"][0, 0] == 2
            assert best.get("b/ü").local["head"][0, 0] == 2
            assert best.get("c") is None
    states = [{p.name for p in each.glob("**/*.safetensors")} for each in (tmp_path, as_it_is)]
    assert states[0] == states[1]


def test_a_torn_line_behind_the_committed_ones_is_nobodys(store, tmp_path):
    path = tmp_path / "clients-00001.journal"
    right = path.read_bytes()
    path.write_bytes(right + b'[["a"],[2],[12')  # killed while it was written
    with reading(tmp_path) as last:
        assert last.get("a").local["head"][0, 0] == 1
    again = FolderStore(tmp_path)
    again.put(2, "c", state(3))
    again.commit(2, server(2), {})
    assert path.read_bytes().startswith(right + b'[["c"],[2],['), "the torn line was cut off"
    assert FolderStore(tmp_path).get("c").local["head"][0, 0] == 3


def test_a_journal_with_a_line_for_every_client_is_read_and_continued(store, tmp_path):
    """As format 3 wrote it."""
    store.put(2, "c", state(2))
    store.commit(2, server(2), {})
    path, manifest = tmp_path / "clients-00001.journal", tmp_path / "manifest.json"
    kept = {"c": None} | dict(FolderStore(tmp_path).last.states)
    single = b"".join(json.dumps([client, *kept[client]]).encode() + b"\n" for client in kept)
    path.write_bytes(single)
    facts = json.loads(manifest.read_text())
    facts["bytes"], facts["journal"]["crc"] = len(single), zlib.crc32(single)
    manifest.write_text(json.dumps({**facts, "format": 3}))
    again = FolderStore(tmp_path)
    assert again.last.states == kept
    again.put(3, "a", state(7))
    again.commit(3, server(3), {})
    assert path.read_bytes().startswith(single + b'[["a"],[3],[')
    found = FolderStore(tmp_path)
    assert found.get("a").local["head"][0, 0] == 7
    assert found.get("c").local["head"][0, 0] == 2


def test_a_kill_between_the_journal_and_the_manifest_leaves_the_round_before(
    store, tmp_path, monkeypatch
):
    store.commit(1, server(1), {}, selects=True)

    def killed(path, content):
        raise KeyboardInterrupt

    path = tmp_path / "clients-00001.journal"
    before = path.stat().st_size
    store.put(2, "a", state(9))
    store.put(2, "d", state(9))
    monkeypatch.setattr("duotone.federation.store.write_atomically", killed)
    with pytest.raises(KeyboardInterrupt):
        store.commit(2, server(2), {}, selects=True)
    monkeypatch.undo()
    assert path.stat().st_size > before, "it was killed after that"
    for which in ("last", "selected"):
        with reading(tmp_path, which) as kept:
            assert (kept.round, kept.get("d")) == (1, None)
            assert kept.get("a").local["head"][0, 0] == 1
    again = FolderStore(tmp_path)
    again.put(2, "b/ü", state(7))
    again.commit(2, server(2), {})
    with reading(tmp_path) as last:
        assert last.states.keys() == {"a", "b/ü"}, "nothing of the round that never was"


@pytest.mark.parametrize("harm", ["cut", "edited", "missing", "no list", "no round", "no client"])
def test_a_damaged_journal_is_a_clear_error_that_removes_nothing(store, tmp_path, harm):
    store.put(2, "c", state(2))
    store.commit(2, server(2), {})
    path, manifest = tmp_path / "clients-00001.journal", tmp_path / "manifest.json"
    content = path.read_bytes()
    if harm == "missing":
        path.unlink()
    elif harm == "cut":
        path.write_bytes(content[:-1])
    elif harm == "edited":
        path.write_bytes(content.replace(b'"a"', b'"x"'))
    else:  # by somebody who knows checksums
        line = {
            "no list": b'[["c"],[2',
            "no round": b'[["c"],["2"],[5]]\n',
            "no client": b'[["a","c"],[2,2],[5]]\n',
        }[harm]
        path.write_bytes(line)
        facts = json.loads(manifest.read_text())
        facts["bytes"], facts["journal"]["crc"] = len(line), zlib.crc32(line)
        manifest.write_text(json.dumps(facts))
    (tmp_path / "clients" / "left-00003.safetensors").write_bytes(b"of a dead writer")
    before = everything(tmp_path)
    with pytest.raises(CheckpointError, match=r"journal.*nothing was changed"):
        FolderStore(tmp_path)
    with reading(tmp_path) as last:
        assert last.round == 2
        with pytest.raises(CheckpointError, match=r"journal.*nothing was changed"):
            last.get("a")
    assert everything(tmp_path) == before


def test_equal_rounds_give_equal_files_in_whatever_order_clients_finish(tmp_path):
    kept = []
    for order in ("abc", "cab"):
        store = FolderStore(tmp_path / order)
        for client in order:
            store.put(1, client, state(ord(client)))
        store.commit(1, server(1), {})
        kept.append({p.name: content for p, content in everything(tmp_path / order).items()})
    assert kept[0] == kept[1]


def test_a_commit_writes_no_more_when_more_clients_took_part_before(tmp_path):
    sizes = []
    store = FolderStore(tmp_path)
    for round in range(1, 41):
        store.put(round, f"{round:02}", state(1))
        store.commit(round, server(round), {})
        journal_size = (tmp_path / "clients-00001.journal").stat().st_size
        sizes.append((journal_size, (tmp_path / "manifest.json").stat().st_size))
    grown = [after[0] - before[0] for before, after in itertools.pairwise(sizes)]
    assert max(grown) <= len('[["40"],[40],[4294967295]]\n')
    assert max(manifest for _, manifest in sizes) < 500


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.sets(st.sampled_from("abcde")), st.booleans(), st.booleans()), max_size=12
    )
)
def test_a_worn_journal_is_written_anew_and_says_the_same(rounds):
    """Compare with dictionaries, over journals that are begun anew as often as can be."""
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory() as name,
    ):
        patch.setattr(journal, "_SPARE", -5)
        folder = Path(name)
        store, last, selected = FolderStore(folder), {}, None
        for round, (drawn, selects, reopens) in enumerate(rounds, 1):
            for client in drawn:
                store.put(round, client, state(round))
                last[client] = round
            store.commit(round, server(round), {}, selects=selects)
            selected = dict(last) if selects else selected
            store = FolderStore(folder) if reopens else store
            assert {client: kept.round for client, kept in store.last.states.items()} == last
            with reading(folder) as seen:
                assert {c: int(seen.get(c).extra["step"]) for c in seen.states} == last
            if selected is not None:
                with reading(folder, "selected") as seen:
                    assert {c: int(seen.get(c).extra["step"]) for c in seen.states} == selected
                assert store.selected.states.keys() == selected.keys()
            needed = {(c, r) for each in (last, selected or {}) for c, r in each.items()}
            files = {path.name for path in folder.glob("clients/*")}
            assert files == {f"{c}-{r:05d}.safetensors" for c, r in needed}
            assert len(list(folder.glob("*.journal"))) <= 1


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
