"""Measure duotone against a DataLoader loop, and its memory: ``python benchmarks/run.py``.

Every contender is a process of its own. They take turns, sweep after sweep, and the best turn of
each counts: a busy machine slows some turns of all of them, rarely every turn of one.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Callable, Mapping
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

import explain
import explorer
import measuring
import memory
import overheads
import peers
import scale
import serving
import startup
from workloads import (
    REGISTERED,
    TEST_SAMPLES,
    WORKERS,
    Turn,
    Turns,
    convolution_peak,
    duotone_rounds,
    duotone_whole_rounds,
    step_flops,
    workload,
)

RESULTS = Path(__file__).parent / "results"
CORES = len(os.sched_getaffinity(0))
QUIET_LOAD_PER_CORE = 0.5

# Threads that spin while they wait make a loop with several of them collapse as soon as a core is
# not its own; the loop is measured with threads that sleep instead.
PATIENT = {"OMP_WAIT_POLICY": "PASSIVE"}

LOOP = "DataLoader loop"
LOOP_1 = "DataLoader loop, 1 thread"
SERIAL = "duotone, serial"
PROCESSES = f"duotone, {WORKERS} processes"


def serve(connection: Connection, contender: Callable[..., Turns], *args: Any) -> None:
    """Take turns in a process of its own, until the connection closes."""
    turns = contender(*args)
    connection.send("ready")
    try:
        while connection.recv():
            connection.send(next(turns))
    except EOFError:
        turns.close()


class Contender:
    """A process that takes turns.

    Args:
        contender: Yields one turn after the other, in the new process.
        args: What it is called with.
        environment: Environment variables of the process, on top of this one's.
    """

    def __init__(
        self,
        contender: Callable[..., Turns],
        *args: Any,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        context = get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, contender, *args), daemon=True)
        before = dict(os.environ)
        os.environ.update(environment)
        self._process.start()
        for name in environment.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)
        theirs.close()
        self.connection.recv()  # loading libraries must not disturb anybody's turn
        self.turns: list[Turn] = []

    def close(self) -> None:
        """End the process."""
        self.connection.close()
        self._process.join()


def take_turn(*contenders: Contender) -> list[Turn]:
    """Let one contender take its turn, or several at the same time."""
    for contender in contenders:
        contender.connection.send(True)
    for contender in contenders:
        contender.turns.append(contender.connection.recv())
    return [contender.turns[-1] for contender in contenders]


def sweep(
    contenders: Mapping[str, Contender], sweeps: int, before: Callable[[], None] = lambda: None
) -> dict[str, list[Turn]]:
    """Let contenders take turns; end them; return every turn of each."""
    for _ in range(sweeps):
        before()
        for contender in contenders.values():
            take_turn(contender)
    for contender in contenders.values():
        contender.close()
    return {label: contender.turns for label, contender in contenders.items()}


def measure_training(*, short: bool, sweeps: int) -> dict[str, Any]:
    """Measure training rounds of three workloads, print tables, and return the figures."""
    convolutions = [Contender(convolution_peak) for _ in range(WORKERS)]
    peaks: dict[str, list[float]] = {"one thread": [], "all workers": []}

    def measure_peak() -> None:
        (alone,) = take_turn(convolutions[0])
        peaks["one thread"].append(alone["gflops"])
        peaks["all workers"].append(sum(turn["gflops"] for turn in take_turn(*convolutions)))

    figures: dict[str, Any] = {}
    for name in ("W1", "W2", "W3"):
        contenders = {
            LOOP: Contender(peers.train_rounds, name, short, None, environment=PATIENT),
            LOOP_1: Contender(peers.train_rounds, name, short, 1, environment=PATIENT),
            SERIAL: Contender(duotone_rounds, name, short, False),
            PROCESSES: Contender(duotone_rounds, name, short, True),
        }
        figures[name] = training_figures(
            name, short, sweep(contenders, sweeps, measure_peak), peaks
        )
    for contender in convolutions:
        contender.close()
    return {"peak_gflops": peaks, **figures}


def training_figures(
    name: str, short: bool, turns: dict[str, list[Turn]], peaks: Mapping[str, list[float]]
) -> dict[str, Any]:
    """Return the figures of one workload, and print them as a table."""
    work = workload(name, short=short)
    gflop = step_flops(work) * work.clients * work.samples / 1e9
    peak = {cores: max(seen) for cores, seen in peaks.items()}
    print(f"\n{name}: {work.title}; {work.clients} clients × {work.samples} samples per round")
    print(
        f"{'':<28}{'ms/round':>9}{'updates/s':>11}{'vs loop':>9}{'vs best loop':>14}"
        f"{'GFLOP/s':>9}{'of peak':>9}"
    )
    best = {label: min(turn["seconds"] for turn in own) for label, own in turns.items()}
    figures: dict[str, Any] = {}
    for label, seconds in best.items():
        cores = "one thread" if label in (LOOP_1, SERIAL) else "all workers"
        figure = {
            "ms_per_round": 1000 * seconds,
            "updates_per_second": work.clients / seconds,
            "speedup": best[LOOP] / seconds,
            "speedup_over_best_loop": min(best[LOOP], best[LOOP_1]) / seconds,
            "gflops": gflop / seconds,
            "of_peak": gflop / seconds / peak[cores],
        }
        ms, updates, speedup, over_best, gflops, of_peak = figure.values()
        print(
            f"{label:<28}{ms:>9.0f}{updates:>11.1f}{speedup:>8.2f}×{over_best:>13.2f}×"
            f"{gflops:>9.1f}{of_peak:>9.0%}"
        )
        figures[label] = {**figure, "turns": turns[label]}
    print(f"best convolution: {peak['one thread']:.0f} GFLOP/s on one thread, ", end="")
    print(f"{peak['all workers']:.0f} on {WORKERS} processes")
    return {"title": work.title, "gflop_per_round": gflop, "contenders": figures}


def measure_whole_rounds(*, short: bool, sweeps: int) -> dict[str, Any]:
    """Measure rounds after which all clients are evaluated; print a table, return the figures."""
    contenders = {
        LOOP: Contender(peers.whole_rounds, short, None, environment=PATIENT),
        LOOP_1: Contender(peers.whole_rounds, short, 1, environment=PATIENT),
        PROCESSES: Contender(duotone_whole_rounds, short),
    }
    turns = sweep(contenders, sweeps)
    work = workload("W1", short=short)
    print(
        f"\nWhole rounds of W1: {work.clients} of {REGISTERED} clients train on {work.samples} "
        f"samples, then all are evaluated on {TEST_SAMPLES} test samples each"
    )
    print(f"{'':<48}{'ms/round':>9}{'train':>8}{'evaluate':>10}{'duotone is':>12}")
    variants = [
        (f"{loop}, evaluation batch {size}", loop, evaluation)
        for loop in (LOOP, LOOP_1)
        for size, evaluation in (
            (work.method.config.batch_size, "evaluate"),
            (TEST_SAMPLES, "evaluate_large_batches"),
        )
    ]
    variants.append((PROCESSES, PROCESSES, "evaluate"))

    def seconds(turn: Turn, evaluation: str) -> float:
        return turn["train"] + turn[evaluation] + turn.get("save", 0.0)

    ours = min(seconds(turn, "evaluate") for turn in turns[PROCESSES])
    figures: dict[str, Any] = {}
    for label, contender, evaluation in variants:
        best = min(turns[contender], key=lambda turn: seconds(turn, evaluation))
        figure = {
            "ms_per_round": 1000 * seconds(best, evaluation),
            "ms_train": 1000 * best["train"],
            "ms_evaluate": 1000 * best[evaluation],
            "duotone_speedup": seconds(best, evaluation) / ours,
        }
        total, train, evaluate_, speedup = figure.values()
        print(f"{label:<48}{total:>9.0f}{train:>8.0f}{evaluate_:>10.0f}{speedup:>11.2f}×")
        figures[label] = figure
    return {"variants": figures, "turns": turns}


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    lines = memory.read(Path("/proc/cpuinfo")).splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.processor(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "cores": CORES,
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def save(file: str, section: str, figures: Mapping[str, Any]) -> None:
    """Replace one section of a results file."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / file
    content = json.loads(path.read_text()) if path.exists() else {}
    content[section] = json.loads(
        json.dumps(figures), parse_float=lambda digits: float(f"{float(digits):.4g}")
    )
    path.write_text(json.dumps(content, indent=1) + "\n")


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only",
        choices=(
            "speed",
            "rounds",
            "memory",
            "serving",
            "explain",
            "explorer",
            "overheads",
            "measuring",
            "startup",
            "scale",
        ),
        help="measure one thing",
    )
    parser.add_argument(
        "--sweeps", type=int, default=3, help="turns of every contender; the first is cold"
    )
    parser.add_argument("--short", action="store_true", help="fewer samples: quick, rough")
    parser.add_argument("--before", type=Path, help="of scale: src of another checkout, beside")
    options = parser.parse_args()

    load = os.getloadavg()[0]
    if load / CORES > QUIET_LOAD_PER_CORE:
        print(f"The machine is busy (load average {load:.1f} on {CORES} cores): ratios are rough.")

    facts = {"machine": machine(), "load_average": load, "short": options.short}
    if options.only in (None, "speed"):
        figures = measure_training(short=options.short, sweeps=options.sweeps)
        save("speed.json", "training", facts | figures)
    if options.only in (None, "rounds"):
        figures = measure_whole_rounds(short=options.short, sweeps=options.sweeps)
        save("speed.json", "rounds", facts | figures)
    if options.only in (None, "memory"):
        save("memory.json", "memory", facts | memory.measure(short=options.short))
    if options.only in (None, "serving"):
        save("serving.json", "serving", facts | serving.measure(short=options.short))
    if options.only in (None, "explain"):
        save("explain.json", "explain", facts | explain.measure())
    if options.only in (None, "explorer"):
        save("explorer.json", "explorer", facts | explorer.measure())
    if options.only in (None, "overheads"):
        figures = overheads.measure(short=options.short, sweeps=options.sweeps)
        save("overheads.json", "overheads", facts | figures)
    if options.only in (None, "scale"):
        figures = scale.measure(short=options.short, before=options.before)
        save("scale.json", "scale", facts | figures)
    if options.only in (None, "measuring"):
        save("measuring.json", "measuring", facts | measuring.measure(short=options.short))
    if options.only in (None, "startup"):
        figures = startup.measure(short=options.short, sweeps=options.sweeps)
        save("startup.json", "startup", facts | figures)


if __name__ == "__main__":
    main()
