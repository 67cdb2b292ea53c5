"""Read finished runs: everything that a report shows is in their folders."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duotone.errors import RunError
from duotone.files import read_json_file, read_regular
from duotone.measures import all_measures
from duotone.measures.accuracy import last_values
from duotone.measures.measure import Record
from duotone.measures.panels import StoredPicture
from duotone.measures.score import read_scores
from duotone.runs import Run
from duotone.types import ROLES

MOST_BYTES = 2_000_000
"""All pictures of a report together."""
_KEYS = ("file", "title", "caption", "mislead", "section")
_LATENT_FACTS = ("label", "client", "group", "kind", "split", "index")
_PNG = b"\x89PNG\r\n\x1a\n"


def check_finished(run: Run) -> None:
    """Make sure that a run has ended and that its summary and metrics belong together.

    Raises:
        RunError: It has not ended, or a file is damaged.
    """
    status = run.status
    if status != "finished":
        raise RunError(
            f"{run.path} is {status}, and a report needs a finished run; finish it with: "
            f"duotone resume {run.path}"
        )
    summary = run.summary
    missing = [
        key for key in ("scores", "headline", "rounds", "newcomer_rule") if key not in summary
    ]
    if missing:
        raise RunError(f"{run.path / 'summary.json'} is damaged: it lacks {', '.join(missing)}.")
    metric, number, scores = str(summary["headline"]), summary["rounds"], summary["scores"]
    last = last_values(run.metrics, metric, number)
    for role in ROLES:
        found = int((last["kind"] == role).sum())
        score = scores.get(f"{role}.{metric}", {}) if isinstance(scores, dict) else {}
        wanted = int(score.get("n", 0))
        if found != wanted:
            raise RunError(
                f"{run.path / 'metrics.csv'} is damaged: it has the {metric} of {found} {role}s in "
                f"round {number}, and the summary that of {wanted}."
            )


def read_record(run: Run) -> Record:
    """Read a finished run.

    Raises:
        RunError: It has not ended, a file is damaged, or an earlier version made it.
    """
    check_finished(run)
    try:
        scores = read_scores(run.summary["scores"])
    except (RunError, AttributeError, TypeError) as error:
        raise RunError(f"{run.path / 'summary.json'}: {error}.") from error
    names = [measure.file for measure in all_measures() if measure.file is not None]
    tables = {name: found for name in names if (found := run.folder.table(name)) is not None}
    return Record(
        run.config,
        run.folder.facts(),
        run.metrics,
        run.summary,
        scores,
        _latents(run),
        tables,
        stored_pictures(run.path),
    )


def _latents(run: Run) -> Mapping[str, NDArray[np.generic]] | None:
    path = run.path / "latents.npz"
    if not path.exists():
        return None
    arrays = run.latents
    missing = [name for name in (*_LATENT_FACTS, "shared", "local") if name not in arrays]
    if missing:
        raise RunError(f"{path} is damaged: it lacks {', '.join(missing)}.")
    if len({len(values) for values in arrays.values()}) > 1:
        raise RunError(f"{path} is damaged: its arrays are not of one length.")
    return arrays


def stored_pictures(folder: Path) -> list[StoredPicture]:
    """Return the pictures of a run folder, as far as there is room for them.

    Raises:
        RunError: The list is damaged, or names a picture that is not there.
    """
    path = folder / "figures" / "figures.json"
    if not path.exists():
        return []
    try:
        entries = read_json_file(path)
    except (OSError, ValueError) as error:
        raise RunError(f"{path} is damaged and cannot be read: {error}.") from error
    if not isinstance(entries, list):
        raise RunError(f"{path} is damaged: it holds no list of pictures.")
    found: list[StoredPicture] = []
    room = MOST_BYTES
    for entry in entries:
        content = _picture(path, entry)
        if len(content) > room:
            continue
        room -= len(content)
        uri = f"data:image/png;base64,{base64.b64encode(content).decode()}"
        section, title, look, mislead = (
            str(entry[key]) for key in ("section", "title", "caption", "mislead")
        )
        found.append(StoredPicture(section, title, look, mislead, uri))
    return found


def _picture(path: Path, entry: Any) -> bytes:
    if not isinstance(entry, dict) or any(key not in entry for key in _KEYS):
        raise RunError(f"{path} is damaged: every picture needs {', '.join(_KEYS)}. Got {entry!r}.")
    name = str(entry["file"])
    if name != Path(name).name or not (path.parent / name).is_file():
        raise RunError(f"{path} names {name!r}, which is not a file beside it.")
    try:
        content = read_regular(path.parent / name)
    except OSError as error:  # a symbolic link, to some other picture of whoever looks
        raise RunError(f"{path.parent / name} cannot be read: {error}.") from error
    if not content.startswith(_PNG):
        raise RunError(f"{path.parent / name} is not a PNG file.")
    return content
