"""Pictures that a method leaves in its run folder, and the swap matrix.

A run folder may hold ``figures/figures.json``, a list of tables with the keys ``file`` (a PNG
beside it), ``title``, ``caption`` (what to look for), ``mislead`` (how it can mislead) and
``section`` (one of traversals, manifolds, swaps, samples, restyled, concepts). ``swap.json`` has
``matrix``, a list of tables with the keys ``content_client``, ``style_client``, ``label`` and
``style``: how well a pair of clients swaps, null where that is unknown. ``generate.json`` has
``clients``, a list of tables that say what was found of each client's generated samples, and
``restyle.json`` has ``pairs``, likewise of one client's samples in another's style.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from duotone.errors import RunError

SECTIONS = ("samples", "restyled", "swaps", "manifolds", "traversals", "concepts")
MOST_BYTES = 2_000_000
"""All pictures together; a report stays below 8 MB."""
_KEYS = ("file", "title", "caption", "mislead", "section")
_SWAP = {
    "content_client": pl.String,
    "style_client": pl.String,
    "label": pl.Float64,
    "style": pl.Float64,
}
_PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True, slots=True)
class StoredPicture:
    """A picture of a run folder.

    Attributes:
        section: Where it belongs: one of :data:`SECTIONS`.
        title: What it is.
        look: What to look for.
        mislead: How it can mislead.
        uri: The picture itself.
    """

    section: str
    title: str
    look: str
    mislead: str
    uri: str


def stored_pictures(folder: Path) -> tuple[list[StoredPicture], list[str]]:
    """Return the pictures of a run folder, and the titles of those for which there is no room.

    Raises:
        RunError: The list is damaged, or names a picture that is not there.
    """
    path = folder / "figures" / "figures.json"
    if not path.exists():
        return [], []
    found: list[StoredPicture] = []
    left_out: list[str] = []
    room = MOST_BYTES
    entries = _json(path)
    if not isinstance(entries, list):
        raise RunError(f"{path} is damaged: it holds no list of pictures.")
    for entry in entries:
        content = _picture(path, entry)
        if len(content) > room:
            left_out.append(str(entry["title"]))
            continue
        room -= len(content)
        found.append(
            StoredPicture(
                str(entry["section"]),
                str(entry["title"]),
                str(entry["caption"]),
                str(entry["mislead"]),
                png_uri(content),
            )
        )
    return found, left_out


def png_uri(content: bytes) -> str:
    """Return a PNG as an address that holds the picture itself."""
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"


def _picture(path: Path, entry: Any) -> bytes:
    if not isinstance(entry, dict) or any(key not in entry for key in _KEYS):
        raise RunError(f"{path} is damaged: every picture needs {', '.join(_KEYS)}. Got {entry!r}.")
    if entry["section"] not in SECTIONS:
        raise RunError(
            f"{path} is damaged: a picture's section is one of {', '.join(SECTIONS)}. "
            f"Got {entry['section']!r}."
        )
    name = str(entry["file"])
    if name != Path(name).name or not (path.parent / name).is_file():
        raise RunError(f"{path} names {name!r}, which is not a file beside it.")
    content = (path.parent / name).read_bytes()
    if not content.startswith(_PNG):
        raise RunError(f"{path.parent / name} is not a PNG file.")
    return content


def swap_table(folder: Path) -> pl.DataFrame | None:
    """Return ``content_client, style_client, label, style``; ``None`` if nothing was swapped.

    Raises:
        RunError: The file is damaged.
    """
    path = folder / "swap.json"
    if not path.exists():
        return None
    content = _json(path)
    try:
        rows = [{name: row[name] for name in _SWAP} for row in content["matrix"]]
        return pl.DataFrame(rows, schema=_SWAP, strict=False)
    except (TypeError, KeyError, pl.exceptions.PolarsError) as error:
        raise RunError(f"{path} is damaged: it holds no table of pairs ({error!r}).") from error


def generated_clients(folder: Path) -> list[dict[str, Any]]:
    """Return what was found of each client's generated samples; nothing if none were generated.

    Raises:
        RunError: The file is damaged.
    """
    path = folder / "generate.json"
    if not path.exists():
        return []
    content = _json(path)
    try:
        return [{"client": row["client"], **row} for row in content["clients"]]
    except (TypeError, KeyError) as error:
        raise RunError(f"{path} is damaged: it holds no list of clients ({error!r}).") from error


def restyle_pairs(folder: Path) -> list[dict[str, Any]]:
    """Return what was found of each pair's re-styled samples; nothing if none were re-styled.

    Raises:
        RunError: The file is damaged.
    """
    path = folder / "restyle.json"
    if not path.exists():
        return []
    content = _json(path)
    try:
        return [
            {"source": row["source"], "target": row["target"], **row} for row in content["pairs"]
        ]
    except (TypeError, KeyError) as error:
        raise RunError(f"{path} is damaged: it holds no list of pairs ({error!r}).") from error


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise RunError(f"{path} is damaged and cannot be read: {error}.") from error
