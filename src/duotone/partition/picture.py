"""A partition as a picture: who holds which classes, how many samples, and what they look like."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray

from duotone.data.dataset import Dataset
from duotone.errors import ConfigError
from duotone.partition.lines import EXAMPLES_EACH, Example, Line, examples_of, lines_of
from duotone.partition.partition import Partition
from duotone.types import ROLES, Role

# Blue and vermilion of Okabe and Ito: told apart with any colour vision, and in grey by lightness.
INK = {"member": "#0072B2", "newcomer": "#D55E00"}
SHADES = {
    "member": LinearSegmentedColormap.from_list(
        "member", ["#f4f7fa", "#7db8dc", "#0072B2", "#003f63"]
    ),
    "newcomer": LinearSegmentedColormap.from_list(
        "newcomer", ["#faf6f3", "#f4b382", "#D55E00", "#7a3600"]
    ),
}
GREY = "#555555"

# Inches; LETTER is the width of one.
MARGIN, TOP, GAP = 0.15, 0.9, 0.25
KEY_NAMES, KEY_HEIGHT = 0.62, 0.65
TALL_LINE, LOW_LINE = 0.2, 0.14
BARS_WIDTH = 1.4
THUMBNAIL = 0.36
LETTER = 0.062
LONGEST_NAME = 22


FORMATS = (".png", ".svg", ".pdf")


def draw_partition(dataset: Dataset, partition: Partition, path: Path) -> None:
    """Draw who holds what, as a .png, .svg or .pdf file.

    A line per client shows the share of each class in its training samples (for regression: of
    each tenth of the targets) and its size; for images, a strip shows what the samples of some
    clients look like. More than 60 clients are drawn as one line per group, or, where there are no
    groups, only 60 of them are drawn.

    Raises:
        ConfigError: The file cannot be written, or has another ending.
    """
    if path.suffix not in FORMATS:
        raise ConfigError(f"A picture ends in {', '.join(FORMATS)}. Got {path.name!r}.")
    lines, note = lines_of(dataset, partition)
    columns = len(lines[0].shares)
    heights = _heights(lines)
    examples = examples_of(dataset, partition)
    # Uniform shares stay pale, lest the noise of alike clients look like a difference.
    darkest = max(min(1.0, 4 / columns), *(line.shares.max() for line in lines))

    names = _text_width(line.name for line in lines)
    by_client = all(len(line.sizes) == 1 for line in lines)
    has_groups = by_client and len({line.group for line in lines}) > 1
    groups = _text_width(line.group for line in lines) + 0.1 if has_groups else 0.0
    map_left = MARGIN + max(groups + names, KEY_NAMES)
    map_width = min(max(0.3 * columns, 1.8), 5.0)
    map_height = (heights[-1] + 1) * (TALL_LINE if len(lines) <= 25 else LOW_LINE)
    bars_left = map_left + map_width + GAP
    strip_left = bars_left + BARS_WIDTH + _text_width(example.name for example in examples)
    strip_width = EXAMPLES_EACH * THUMBNAIL
    strip_height = sum(example.images.shape[0] / example.images.shape[1] for example in examples)
    strip_height *= strip_width
    sheet = _Sheet(
        MARGIN + (strip_left + strip_width if examples else bars_left + BARS_WIDTH),
        TOP + max(map_height + KEY_HEIGHT, strip_height + MARGIN),
    )

    heading = "class" if dataset.classes else "tenth of the targets"
    map_axes = sheet.axes(map_left, TOP, map_width, map_height)
    _draw_map(map_axes, lines, heights, darkest, heading)
    if has_groups:
        _mark_groups(map_axes, lines, heights, -names / map_width)
    _draw_key(sheet, lines, darkest, (map_left, TOP + map_height, map_width))
    _draw_sizes(sheet.axes(bars_left, TOP, BARS_WIDTH, map_height), lines, heights)
    if examples:
        _draw_examples(sheet.axes(strip_left, TOP, strip_width, strip_height), examples)
    headcount = partition.headcount()
    sheet.write(f"{_short(dataset.name)}: {headcount}", 0.2, fontsize=10, weight="bold")
    sheet.write(note, 0.4, fontsize=7.5, color=GREY)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        sheet.figure.savefig(path, format=path.suffix.removeprefix("."))
    except OSError as error:
        raise ConfigError(
            f"The picture {path} cannot be written: {error.strerror}; choose another --picture."
        ) from error


class _Sheet:
    """A figure whose parts are placed in inches, so that nothing is squeezed."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self.figure = Figure(figsize=(width, height), dpi=200, facecolor="white")
        FigureCanvasAgg(self.figure)

    def axes(self, left: float, top: float, width: float, height: float) -> Any:
        """Return axes without a frame; ``top`` is measured from above."""
        w, h = self.width, self.height
        bottom = h - top - height
        axes = self.figure.add_axes((left / w, bottom / h, width / w, height / h))
        for spine in axes.spines.values():
            spine.set_visible(False)
        axes.tick_params(length=0, labelsize=7, pad=2)
        return axes

    def write(self, text: str, top: float, **style: Any) -> None:
        """Write one line at the left margin."""
        x, y = MARGIN / self.width, 1 - top / self.height
        self.figure.text(x, y, text, va="center", **style)


def _heights(lines: list[Line]) -> NDArray[np.float64]:
    """Return where each line is, counted in lines from the top; newcomers stand a line apart."""
    apart = np.array([line.role == "newcomer" for line in lines])
    return np.arange(len(lines)) + (apart & ~apart.all()) * 1.0


def _draw_map(
    axes: Any, lines: list[Line], heights: NDArray[np.float64], darkest: float, heading: str
) -> None:
    columns = len(lines[0].shares)
    for role in ROLES:
        at = [i for i, line in enumerate(lines) if line.role == role]
        if at:
            axes.imshow(
                np.stack([lines[i].shares for i in at]),
                cmap=SHADES[role],
                vmin=0,
                vmax=darkest,
                aspect="auto",
                interpolation="nearest",
                extent=(-0.5, columns - 0.5, heights[at[-1]] + 0.5, heights[at[0]] - 0.5),
            )
    axes.set_xlim(-0.5, columns - 0.5)
    axes.set_ylim(heights[-1] + 0.5, -0.5)
    axes.xaxis.tick_top()
    axes.set_xticks(range(0, columns, 1 + (columns - 1) // 20))
    axes.xaxis.set_label_position("top")
    axes.set_xlabel(heading, fontsize=8)
    _name(axes, heights, [(line.name, line.role) for line in lines])


def _mark_groups(axes: Any, lines: list[Line], heights: NDArray[np.float64], x: float) -> None:
    """Put a bracket and a name beside each run of lines of one group; ``x`` in axes widths."""
    transform = axes.get_yaxis_transform()
    for (role, group), run in groupby(range(len(lines)), lambda i: (lines[i].role, lines[i].group)):
        at = heights[list(run)]
        ends = (at[0] - 0.35, at[-1] + 0.35)
        axes.plot([x, x], ends, color=INK[role], lw=1.2, transform=transform, clip_on=False)
        axes.annotate(
            _short(group),
            (x, at.mean()),
            (-4, 0),
            xycoords=transform,
            textcoords="offset points",
            ha="right",
            va="center",
            fontsize=7,
            color=INK[role],
        )
        axes.axhline(ends[1] + 0.15, color="white", lw=1.2)


def _draw_key(
    sheet: _Sheet, lines: list[Line], darkest: float, place: tuple[float, float, float]
) -> None:
    """Draw the scale of the shades, one strip for each role of client that there is."""
    left, top, width = place
    for i, role in enumerate(dict.fromkeys(line.role for line in lines)):
        axes = sheet.axes(left, top + 0.18 + 0.12 * i, width, 0.09)
        axes.imshow(np.linspace(0, 1, 256)[None], cmap=SHADES[role], aspect="auto")
        axes.set_xticks([])
        axes.set_yticks([0], [f"{role}s"], color=INK[role])
    axes.set_xticks([0, 255], ["0 %", f"{100 * darkest:.0f} %"])
    axes.set_xlabel("share of a client's samples", fontsize=7, labelpad=-7)


def _draw_sizes(axes: Any, lines: list[Line], heights: NDArray[np.float64]) -> None:
    axes.barh(
        heights,
        [np.median(line.sizes) for line in lines],
        height=0.72,
        color=[INK[line.role] for line in lines],
    )
    for line, y in zip(lines, heights, strict=True):
        if len(line.sizes) > 1:
            axes.plot([line.sizes.min(), line.sizes.max()], [y, y], color="black", lw=0.8)
    axes.set_ylim(heights[-1] + 0.5, -0.5)
    axes.set_yticks([])
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set_xlabel("training samples", fontsize=8)
    axes.locator_params(axis="x", nbins=4)
    axes.set_axisbelow(True)
    axes.grid(axis="x", color="#dddddd", lw=0.6)


def _draw_examples(axes: Any, examples: list[Example]) -> None:
    axes.imshow(
        np.vstack([example.images for example in examples]),
        aspect="auto",
        interpolation="nearest",
        extent=(0, EXAMPLES_EACH, len(examples) - 0.5, -0.5),
    )
    axes.set_xticks([])
    axes.set_title("examples", fontsize=8, pad=4)
    heights = np.arange(len(examples), dtype=np.float64)
    _name(axes, heights, [(example.name, example.role) for example in examples])


def _name(axes: Any, heights: NDArray[np.float64], clients: list[tuple[str, Role]]) -> None:
    """Write the names of clients beside their lines, in the ink of their role."""
    size = 7 if len(clients) <= 25 else 6
    axes.set_yticks(heights, [_short(name) for name, _ in clients], fontsize=size)
    for tick, (_, role) in zip(axes.get_yticklabels(), clients, strict=True):
        tick.set_color(INK[role])


def _text_width(names: Iterable[str]) -> float:
    """Return how many inches the longest name takes, with a little room."""
    return LETTER * max((len(_short(name)) for name in names), default=0) + 0.12


def _short(name: str) -> str:
    """Return a name that fits, with no dollar sign that matplotlib would take for mathematics."""
    short = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
    return short.replace("$", r"\$")
