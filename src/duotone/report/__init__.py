"""Reports: run folders in, one self-contained HTML file out.

write_report("runs/demo/fedavg")                                 a report on one run
write_report(["runs/demo/local", "runs/demo/fedavg"])            a comparison
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from duotone.errors import ConfigError
from duotone.files import disk_errors, write_atomically
from duotone.report.compared import compared_page
from duotone.report.page import Page, render
from duotone.report.record import check_finished, read_record
from duotone.report.sections import run_page
from duotone.runs import Run, load_run
from duotone.runs.compare import compare_entries, declared_below, runs_below
from duotone.runs.pooled import pool

__all__ = ["write_report"]

NAME = "report.html"


def write_report(
    runs: Run | str | Path | Sequence[Run | str | Path],
    out: str | Path | None = None,
    *,
    reference: str | None = None,
    anyway: bool = False,
) -> Path:
    """Write a report on one run, or a comparison of several; return where it is.

    Args:
        runs: Runs, or folders of runs or studies.
        out: The file; by default ``report.html`` in the run's folder, or for several runs in the
            folder they have in common.
        reference: The entry the others are compared with; by default a study's own reference, else
            fedavg if it is there, else the first.
        anyway: Show even runs on different data or partitions, untested.

    Raises:
        RunError: A run is missing, damaged or unfinished, or runs differ in data or partition.
        ConfigError: No entry is called like the reference.
    """
    given = [runs] if isinstance(runs, Run | str | Path) else runs
    paths = [item.path if isinstance(item, Run) else Path(item) for item in given]
    if not paths:
        raise ConfigError("A report needs at least one run.")
    names = runs_below(paths)
    opened = [load_run(path) for path in names]
    for run in opened:
        check_finished(run)
    page = _page(opened, names, paths, reference, anyway)
    file = Path(out) if out is not None else _default_place(opened, paths)
    if file.is_dir():
        raise ConfigError(f"{file} is a folder; name a file: --out {file / NAME}")
    with disk_errors(file):
        file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, render(page).encode())
    return file


def _page(
    opened: list[Run],
    names: dict[Path, str],
    paths: Sequence[Path],
    reference: str | None,
    anyway: bool,
) -> Page:
    if len(opened) == 1:
        if reference is not None:
            raise ConfigError(
                f"There is one run, and nothing to compare it with {reference!r}; give more runs."
            )
        return run_page(read_record(opened[0]))
    entries = pool(opened, names)
    named, primary = declared_below(paths, reference)
    results = compare_entries(entries, reference=named, primary=primary, anyway=anyway)
    return compared_page(entries, results)


def _default_place(opened: Sequence[Run], paths: Sequence[Path]) -> Path:
    if len(opened) == 1:
        return opened[0].path / NAME
    if len(paths) == 1:
        return paths[0] / NAME
    found = Path(os.path.commonpath([path.absolute().parent for path in paths]))
    here = Path.cwd()
    return (found.relative_to(here) if found.is_relative_to(here) else found) / NAME
