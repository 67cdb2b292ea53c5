"""Manifests as older versions wrote them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from duotone.federation.journal import state_file
from duotone.federation.manifest import read_manifest


def listing(folder: Path, format: int = 2) -> dict[str, Any]:
    """Return the manifest as older versions wrote it, which named every client's file in it."""
    manifest = read_manifest(folder)
    rounds = {"last": manifest.last}
    if manifest.selected is not None:
        rounds["selected"] = manifest.selected
    files: dict[str, int | None] = {}
    heads: dict[str, dict[str, Any]] = {}
    for which, snapshot in rounds.items():
        (states,) = manifest.states(folder, which)
        kept = {c: state_file(c, s.round) for c, s in states.items() if s.crc is not None}
        files |= {kept[client]: states[client].crc for client in kept}
        files[snapshot.server] = snapshot.crc
        heads[which] = {
            "round": snapshot.round,
            "server": snapshot.server,
            "clients": kept,
            "notes": snapshot.notes,
            "far": {client: s.round for client, s in states.items() if s.crc is None},
        }
    content = {"format": format, **heads["last"], "files": files}
    return content if format == 1 else {**content, "selected": heads.get("selected")}
