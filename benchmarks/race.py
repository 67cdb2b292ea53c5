"""Race duotone against other frameworks: ``python benchmarks/race.py``.

Each contender is a process of its own, a peer in an environment of its own; ``--setup`` makes these
in ``.venv-race``. All are alive at once and take turns, round by round. All train the same network
from the same weights on the same samples, and after each turn their models are scored on the same
test samples, off the clock: who did not learn as the others did has no figure.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

PLACE = Path(__file__).parent
sys.path.append(str(PLACE / "racers"))  # its scripts run alone, beside course.py

from course import CHECKED, CLIENTS, EVALUATE, SAMPLED, TRAIN, WORKERS  # noqa: E402
from environments import PINS, is_ready, python, set_up  # noqa: E402
from flower_nodes import cpu_seconds  # noqa: E402
from verdicts import JUDGED, in_the_end, objections, ratios  # noqa: E402

TRAIN_SAMPLES = 300
TEST_SAMPLES = 100
TURNS = 3
COURSE = "course.npz"
WINNER = f"duotone, {WORKERS} processes"


@dataclass(frozen=True)
class Entry:
    """Who takes part.

    Attributes:
        label: What the table calls it.
        script: Its file in ``racers``.
        peer: Whose environment it needs; none for what runs in this one.
        arguments: Its own options.
        launcher: What starts the script, beside the interpreter.
    """

    label: str
    script: str
    peer: str | None = None
    arguments: tuple[str, ...] = ()
    launcher: tuple[str, ...] = ()

    def command(self) -> list[str]:
        """Return how it is started, up to what all are told."""
        interpreter = str(python(self.peer)) if self.peer else sys.executable
        return [interpreter, *self.launcher, str(PLACE / "racers" / self.script), *self.arguments]


TWO = ("--workers", str(WORKERS))
LAST = ("--layout", "last")
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={WORKERS}")
ENTRIES = (
    Entry(WINNER, "with_duotone.py", arguments=TWO),
    Entry("duotone, serial", "with_duotone.py"),
    Entry("plain loop", "with_loop.py"),
    Entry("plain loop, channels last", "with_loop.py", arguments=LAST),
    Entry("Flower, 2 actors", "with_flower.py", "flower", TWO),
    Entry("Flower, 2 actors, channels last", "with_flower.py", "flower", TWO + LAST),
    Entry("pfl", "with_pfl.py", "pfl"),
    Entry("pfl, 2 processes", "with_pfl.py", "pfl", TWO, TORCHRUN),
    Entry("FedLab", "with_fedlab.py", "fedlab"),
    Entry("fluke", "with_fluke.py", "fluke"),
)


class Runner:
    """A contender's process.

    Args:
        entry: Who it is.
        folder: Where its messages go, and what it needs for itself.
        asked: What all contenders are told.
    """

    def __init__(self, entry: Entry, folder: Path, asked: Sequence[str]) -> None:
        self.entry = entry
        self.log = folder / f"{entry.label.replace(' ', '-')}.log"
        own = {
            # Threads that spin while they wait make everybody slow on a busy machine.
            "OMP_WAIT_POLICY": "PASSIVE",
            "FLWR_HOME": str(folder),
            "FLWR_TELEMETRY_ENABLED": "0",
            "RAY_USAGE_STATS_ENABLED": "0",
        }
        # Peers see their own environment only.
        own["PYTHONPATH"] = "" if entry.peer else os.pathsep.join(sys.path)
        with self.log.open("w") as log:
            self._process = subprocess.Popen(
                [*entry.command(), *asked],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=folder,
                env=os.environ | own,
                # Linux shares processors out by session: everybody gets one.
                start_new_session=True,
            )
        self.turns: list[dict[str, Any]] = []
        self.fell = False

    def listen(self, **facts: Any) -> None:
        """Wait until it is ready for its next turn, and note what it says."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line:
            self.turns.append(json.loads(line) | facts)
        else:
            self.fell = True
            print(f"{self.entry.label} ended:\n{self.log.read_text()[-3000:]}", flush=True)

    def _say(self, order: str) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            print(order, file=self._process.stdin, flush=True)

    def take_turn(self, order: str) -> None:
        """Let it do one round, unless it fell before."""
        if self.fell:
            return
        before = cpu_seconds(self._process.pid)
        self._say(order)
        self.listen(turn=order, load=os.getloadavg()[0])
        if not self.fell:
            turn = self.turns[-1]
            turn["cpu"] = cpu_seconds(self._process.pid) - before - turn.pop("checking")

    def end(self) -> None:
        """Let it come to its end by itself; without an answer it is ended."""
        self._say("end")
        try:
            self._process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()


def write_course(path: Path, samples: int) -> str:
    """Write samples and first weights for everybody; return what the samples are."""
    from duotone.data.sources import find_file, load_file
    from duotone.federation.engine import before_first_round
    from with_duotone import population_of, work_of
    from workloads import make_population

    counts = {"train": CLIENTS * samples, "test": CLIENTS * TEST_SAMPLES}
    if find_file("mnist.npz"):
        data, kind = load_file("mnist"), "MNIST"
    else:
        data = make_population((28, 28), CLIENTS, samples + TEST_SAMPLES).dataset
        kind = "made-up images"
    rows = np.random.default_rng(0).permutation(len(data.y))
    if data.is_test.any():
        own = {"train": rows[~data.is_test[rows]], "test": rows[data.is_test[rows]]}
    else:
        own = {"train": rows[: counts["train"]], "test": rows[counts["train"] :]}
    chosen = {split: own[split][:count].reshape(CLIENTS, -1) for split, count in counts.items()}
    x = {split: data.x[some] for split, some in chosen.items()}
    y = {split: data.y[some] for split, some in chosen.items()}
    population = population_of(x, y)
    before = before_first_round(population, rounds=1, sampled=SAMPLED, seed=0)
    weights, _ = work_of(samples).method.initial(before)
    arrays = {f"x_{split}": x[split] for split in x} | {f"y_{split}": y[split] for split in y}
    np.savez(path, **arrays, **{name: tensor.numpy() for name, tensor in weights.items()})
    return kind


def race(entries: Sequence[Entry], folder: Path, orders: Sequence[str]) -> Iterator[list[Runner]]:
    """Let contenders take turns; yield them whenever each has had the same turns."""
    asked = ["--course", str(folder / COURSE), "--rounds", str(len(orders))]
    with ExitStack() as stack:
        runners: list[Runner] = []
        for entry in entries:
            runners.append(Runner(entry, folder, asked))
            stack.callback(runners[-1].end)
            runners[-1].listen()  # one after the other: Ray gives up if it starts too slowly
        for number, order in enumerate(orders, 1):
            for runner in runners:
                runner.take_turn(order)
            load = os.getloadavg()[0]
            print(f"turn {number} of {len(orders)}: {order}, load {load:.1f}", flush=True)
            yield runners


def figures_of(runners: Sequence[Runner]) -> dict[str, Any]:
    """Return every contender's figures, compared with the first one's."""
    states = {runner.entry.label: runner.turns for runner in runners if not runner.fell}
    why_not = objections(states)
    figures: dict[str, Any] = {
        runner.entry.label: {"void": "it broke down", "turns": runner.turns} for runner in runners
    }
    for label, own in states.items():
        figures[label] = {"void": why_not[label], "versions": own[0]["versions"]}
        for order in (TRAIN, EVALUATE):
            figures[label][order] = {"seconds": min(taken(own, order, "seconds"))}
            for name, unit in (("ratio", "seconds"), ("cpu_ratio", "cpu")):
                mine, theirs = taken(own, order, unit), taken(states[WINNER], order, unit)
                figures[label][order][name] = ratios(mine, theirs)
        figures[label]["turns"] = own
    return figures


def taken(turns: Sequence[Mapping[str, Any]], order: str, unit: str) -> list[float]:
    """Return what the turns of one kind took; the state before and the cold turn left out."""
    return [turn[unit] for turn in turns[2:] if turn["turn"] == order]


def print_table(figures: Mapping[str, Any]) -> None:
    """Print what was measured, as multiples of duotone's."""
    for order, title in ((TRAIN, "Training"), (EVALUATE, "Training, then scoring all clients")):
        print(f"\n{title:<36}{'s':>8}{'times':>7}{'from–to':>13}{'processor':>11}{'from–to':>13}")
        for label, own in figures.items():
            if own["void"]:
                print(f"{label:<36}  void: {own['void']}")
                continue
            line = f"{label:<36}{own[order]['seconds']:>8.2f}"
            for name, width in (("ratio", 7), ("cpu_ratio", 11)):
                ratio = own[order][name]
                spread = f"{ratio['lowest']:.2f}–{ratio['highest']:.2f}"
                line += f"{ratio['median']:>{width}.2f}{spread:>13}"
            print(line)
    print(f"\n{f'After the last {JUDGED} turns':<36}{'loss':>8}{'correct':>9}")
    for label, own in figures.items():
        if len(own["turns"]) > 1:
            last = in_the_end(own["turns"])
            print(f"{label:<36}{last['loss']:>8.3f}{last['accuracy']:>9.1%}")


def main() -> None:
    """Set up, or race."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--setup", action="store_true", help="make the peers' environments")
    parser.add_argument("--turns", type=int, default=TURNS, help="of each kind, and a cold one")
    parser.add_argument("--peers", nargs="*", choices=PINS, default=list(PINS), help="who races")
    parser.add_argument(
        "--samples", type=int, default=TRAIN_SAMPLES, help="of each client, to train on"
    )
    given = parser.parse_args()
    if given.setup:
        for name in given.peers:
            set_up(name)
        return
    from run import machine, save

    missing = [name for name in given.peers if not is_ready(name)]
    if missing:
        print(f"Without {', '.join(missing)}: call with --setup first.")
    here = {None, *given.peers} - set(missing)
    entries = [entry for entry in ENTRIES if entry.peer in here]
    with tempfile.TemporaryDirectory(prefix="race") as place:
        kind = write_course(Path(place) / COURSE, given.samples)
        print(f"{kind}: {SAMPLED} of {CLIENTS} clients train on {given.samples} samples each;")
        print(f"in every other round all are scored on {TEST_SAMPLES} each.", flush=True)
        facts = {"machine": machine(), "samples": kind, "train_samples": given.samples}
        facts |= {"test_samples": TEST_SAMPLES, "checked_on": CHECKED, "missing": missing}
        figures: dict[str, Any] = {}
        orders = [EVALUATE, *[TRAIN, EVALUATE] * given.turns]
        for number, runners in enumerate(race(entries, Path(place), orders)):
            if number >= len((EVALUATE, TRAIN)):  # a race that is broken off leaves what it has
                figures = figures_of(runners)
                save("race.json", "race", facts | {"contenders": figures})
    print_table(figures)


if __name__ == "__main__":
    main()
