"""What a run found out, as files of its folder: scores, representations, pictures."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from duotone.data.dataset import Array
from duotone.data.limits import check_npz, check_text
from duotone.errors import RunError
from duotone.federation import ledger
from duotone.files import disk_errors, read_json_file, write_atomically
from duotone.measures.sheet import Images, Sheet


@dataclass(frozen=True, slots=True)
class ResultFiles:
    """The files that hold the results of one run; ``metrics.csv`` is kept with the rounds.

    Attributes:
        path: The folder of the run.
    """

    path: Path

    def summary(self) -> dict[str, Any]:
        """Return the scores of a finished run.

        Raises:
            RunError: The run has not finished.
        """
        if not (self.path / "summary.json").exists():
            raise RunError(
                f"{self.path} has no summary yet; finish it with: duotone resume {self.path}"
            )
        return read_json(self.path / "summary.json")

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write the scores."""
        write_json(self.path / "summary.json", summary)

    def write_table(self, name: str, content: Mapping[str, Any]) -> None:
        """Write the details that a measure found."""
        write_json(self.path / f"{name}.json", content)

    def table(self, name: str) -> dict[str, Any] | None:
        """Return the details that a measure found; ``None`` if it left none.

        Raises:
            RunError: The file is damaged.
        """
        path = self.path / f"{name}.json"
        return read_json(path) if path.exists() else None

    def append_ledger(self, lines: str) -> None:
        """Add lines of a round to ``ledger.csv``."""
        path = self.path / "ledger.csv"
        with disk_errors(path), path.open("a", encoding="utf-8") as file:
            if file.tell() == 0:
                file.write(",".join(ledger.COLUMNS) + "\n")
            file.write(lines)

    def cut_ledger(self, round: int) -> list[dict[str, str]]:
        """Cut ``ledger.csv`` back to a committed round; return its lines."""
        path = self.path / "ledger.csv"
        if not path.exists():
            return []
        try:
            with path.open(encoding="utf-8", newline="") as file:
                lines = [line for line in csv.DictReader(file) if None not in line.values()]
            if lines and tuple(lines[0]) != ledger.COLUMNS:
                raise ValueError("its columns are others")
            kept = [line for line in lines if int(line["round"]) <= round]
            for line in kept:
                int(line["bytes"])
        except (ValueError, csv.Error) as error:
            raise RunError(f"{path} is damaged and cannot be read: {error}.") from error
        text = io.StringIO()
        writer = csv.DictWriter(text, ledger.COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(kept)
        write_atomically(path, text.getvalue().encode())
        return kept

    def write_samples(self, tiles: Images, heads: tuple[int, int]) -> None:
        """Replace ``samples.png``."""
        write_atomically(self.path / "samples.png", tiles_png(tiles, heads))

    def write_sheets(self, sheets: Sequence[Sheet]) -> None:
        """Write all pictures into ``figures``, with a list that says what each of them shows."""
        if not sheets:
            return
        place = self.path / "figures"
        with disk_errors(place):
            place.mkdir(exist_ok=True)
        told: list[dict[str, str]] = []
        for sheet in sheets:
            write_atomically(place / f"{sheet.name}.png", tiles_png(sheet.tiles, sheet.heads))
            facts = {key: getattr(sheet, key) for key in ("title", "caption", "mislead", "section")}
            told.append({"file": f"{sheet.name}.png", **facts})
        write_json(place / "figures.json", told)

    def write_latents(self, arrays: Mapping[str, Array]) -> None:
        """Write ``latents.npz``."""
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, **arrays)
        write_atomically(self.path / "latents.npz", buffer.getvalue())

    def latents(self) -> dict[str, Array]:
        """Return the saved representations.

        Raises:
            RunError: There are none, or the file is damaged.
        """
        path = self.path / "latents.npz"
        if not path.exists():
            raise RunError(f"{self.path} holds no latents: the run has not finished, or latents=0.")
        try:
            with path.open("rb") as file:
                check_npz(path, file, lambda name: True)
                with np.load(file, allow_pickle=False) as archive:
                    arrays = dict(archive)
            for name, array in arrays.items():
                check_text(path, name, array)
            return arrays
        except Exception as error:  # zipfile and NumPy fail on damaged files in a dozen ways
            raise RunError(f"{path} is damaged and cannot be read: {error}.") from error


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file for people and machines, whole or not at all."""
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    write_atomically(path, text.encode())


def read_json(path: Path) -> dict[str, Any]:
    """Return the table that a JSON file holds.

    Raises:
        RunError: The file is missing or damaged.
    """
    try:
        content = read_json_file(path.resolve())
    except (OSError, ValueError) as error:
        raise RunError(f"{path} is damaged and cannot be read: {error}.") from error
    if not isinstance(content, dict):
        raise RunError(f"{path} is damaged: it holds no table.")
    return content


def tiles_png(tiles: Images, heads: tuple[int, int] = (0, 0)) -> bytes:
    """Return a grid of images as a PNG file: beside each other, originals a little apart.

    Args:
        tiles: The images, ``(rows, columns, height, width, channels)``.
        heads: How many first rows and columns are originals.
    """
    rows, columns, height, width, channels = tiles.shape
    zoom = max(1, round(56 / max(height, width)))

    def starts(count: int, size: int, heads: int) -> list[int]:
        return [
            place * (size * zoom + 2) + (6 if place >= heads > 0 else 0) for place in range(count)
        ]

    tops, lefts = starts(rows, height, heads[0]), starts(columns, width, heads[1])
    page = np.full((tops[-1] + height * zoom, lefts[-1] + width * zoom, channels), 255, np.uint8)
    for top, row in zip(tops, tiles, strict=True):
        for left, tile in zip(lefts, row, strict=True):
            large = tile.repeat(zoom, axis=0).repeat(zoom, axis=1)
            page[top : top + large.shape[0], left : left + large.shape[1]] = large
    buffer = io.BytesIO()
    Image.fromarray(page.squeeze(2) if channels == 1 else page).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()
