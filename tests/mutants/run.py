"""Break the code on purpose, one break at a time, and see whether its own tests notice.

A mutant is a small wrong edit with the tests that must go red under it. Each one is applied to a
copy of the source tree in a temporary folder, and its tests are run there. What no test notices
has survived: the test that should have is missing, or cannot fail. ::

    python tests/mutants/run.py              # all of them
    python tests/mutants/run.py 'vote*'      # those whose name matches
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("src", "tests", "pyproject.toml")
PYTEST = ("-m", "pytest", "-x", "-q", "--tb=no", "-p", "no:cacheprovider")
SECONDS = 600
"""How long the tests of a mutant may take before they count as hanging."""


class MutantError(Exception):
    """A mutant cannot be tried as it is written."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A small wrong edit, and who must notice.

    Attributes:
        name: What it is called.
        breaks: What it breaks, in a sentence.
        file: Where it is, from the root of the repository.
        old: The right text, which occurs exactly once in the file.
        new: The wrong text.
        tests: The tests of the thing that is broken: files or node ids.
    """

    name: str
    breaks: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def applied(self, text: str) -> str:
        """Return a file's text with the mutant in it.

        Raises:
            MutantError: The right text is not there, or several times.
        """
        found = text.count(self.old)
        if found != 1:
            raise MutantError(f"its old text occurs {found} times in {self.file}, not once")
        return text.replace(self.old, self.new)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutant.

    Attributes:
        mutant: The mutant.
        fate: Killed by its tests, survived them, or broken: it could not be tried.
        who: The test that noticed, or why it could not be tried.
        seconds: How long its tests took.
    """

    mutant: Mutant
    fate: Literal["killed", "survived", "broken"]
    who: str
    seconds: float

    @property
    def row(self) -> str:
        """One line of the table."""
        who = {"killed": self.who, "survived": "**SURVIVED**", "broken": f"BROKEN: {self.who}"}
        cells = (self.mutant.name, self.mutant.breaks, who[self.fate], f"{self.seconds:.0f}")
        return f"| {' | '.join(cells)} |"


def load_mutants(folder: Path) -> list[Mutant]:
    """Read the mutants of all files of a folder.

    Raises:
        MutantError: Two have the same name, or one changes nothing.
    """
    mutants = [
        Mutant(**{**item, "tests": tuple(item["tests"])})
        for path in sorted(folder.glob("*.toml"))
        for item in tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]
    ]
    names: set[str] = set()
    for mutant in mutants:
        if mutant.name in names:
            raise MutantError(f"two mutants are called {mutant.name!r}")
        if mutant.old == mutant.new:
            raise MutantError(f"{mutant.name} changes nothing")
        names.add(mutant.name)
    return mutants


def run_mutants(mutants: Sequence[Mutant], root: Path, jobs: int) -> Iterator[Verdict]:
    """Try mutants side by side; yield what became of each, in their order."""
    with ThreadPoolExecutor(jobs) as pool:
        healthy: dict[tuple[str, ...], Future[str | None]] = {}

        def tried(mutant: Mutant) -> Verdict:
            return run_mutant(mutant, root, healthy[mutant.tests].result())

        verdicts: list[Future[Verdict]] = []
        for mutant in mutants:
            # Queued before the mutant that waits for it, so that it never waits in vain.
            if mutant.tests not in healthy:
                healthy[mutant.tests] = pool.submit(why_not_healthy, root, mutant.tests)
            verdicts.append(pool.submit(tried, mutant))
        for verdict in verdicts:
            yield verdict.result()


def why_not_healthy(root: Path, tests: Sequence[str]) -> str | None:
    """Return why some tests say nothing about a mutant, if they fail without one."""
    with copied(root) as copy:
        code, output = run_tests(copy, tests)
    return None if code == 0 else f"its tests fail without it: {said_by(output)}"


def run_mutant(mutant: Mutant, root: Path, unhealthy: str | None = None) -> Verdict:
    """Apply one mutant to a copy of the tree, and run its tests there."""
    if unhealthy:
        return Verdict(mutant, "broken", unhealthy, 0.0)
    with copied(root) as copy:
        path = copy / mutant.file
        try:
            path.write_text(mutant.applied(path.read_text(encoding="utf-8")), encoding="utf-8")
        except (MutantError, OSError) as error:
            return Verdict(mutant, "broken", str(error), 0.0)
        began = time.monotonic()
        code, output = run_tests(copy, mutant.tests)
        seconds = time.monotonic() - began
    if code == 0:
        return Verdict(mutant, "survived", "", seconds)
    # An error while collecting or setting up is no test that noticed.
    noticed = re.search(r"^FAILED (\S+)", output, re.MULTILINE)
    if code != 1 or noticed is None:
        return Verdict(mutant, "broken", said_by(output), seconds)
    return Verdict(mutant, "killed", noticed[1], seconds)


@contextmanager
def copied(root: Path) -> Iterator[Path]:
    """Give a copy of what the tests need, which vanishes afterwards."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        for name in COPIED:
            if (root / name).is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(root / name, Path(folder, name), ignore=ignored)
            else:
                shutil.copy(root / name, folder)
        yield Path(folder)


def run_tests(copy: Path, tests: Iterable[str]) -> tuple[int, str]:
    """Run tests with the code of a copy; return the exit code of pytest and what it printed."""
    paths = os.pathsep.join(str(copy / name) for name in ("src", "tests"))
    # Files are written and read within a second: compiled ones could be taken for the others'.
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}

    def python(*arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=copy,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        return done.returncode, done.stdout

    _, used = python("-c", "import duotone; print(duotone.__file__)")
    if not Path(used.strip()).is_relative_to(copy):
        return -1, f"not the copy would be tested but {used.strip()}"
    try:
        return python(*PYTEST, *tests)
    except subprocess.TimeoutExpired:
        return -1, f"no end after {SECONDS} seconds"


def said_by(output: str) -> str:
    """Return the line in which pytest says what went wrong, else the last one."""
    lines = [line for line in output.splitlines() if line.strip()]
    return next((line for line in lines if line.startswith(("ERROR", "FAILED"))), *lines[-1:])


def main() -> int:
    """Try mutants and print a table; 1 if any survives or cannot be tried."""
    parser = argparse.ArgumentParser(description="Break the code, and see who notices.")
    parser.add_argument("names", nargs="*", default=["*"], help="names or patterns; default all")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (2)")
    given = parser.parse_args()
    every = load_mutants(Path(__file__).parent)
    chosen = [m for m in every if any(fnmatch.fnmatch(m.name, name) for name in given.names)]
    if not chosen:
        parser.error(f"no mutant is called {' or '.join(given.names)}")
    print("| mutant | what it breaks | who notices | seconds |\n|---|---|---|---|")
    fates = []
    for verdict in run_mutants(chosen, ROOT, given.jobs):
        print(verdict.row, flush=True)
        fates.append(verdict.fate)
    print(", ".join(f"{fates.count(fate)} {fate}" for fate in ("killed", "survived", "broken")))
    return int(fates.count("killed") < len(fates))


if __name__ == "__main__":
    sys.exit(main())
