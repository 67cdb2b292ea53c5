"""Give every reader damaged and hostile files, and see that each ends in one line.

A reader may return something or raise an error of duotone's own. Anything else is a fault: another
exception, a crash, more than ten seconds (three times in a row, and three times as long as the good
file takes), or more than a gigabyte for a file of a few kilobytes. ::

    python tests/fuzz/fuzz.py --count 2000 --seed 0 [--target npz …] [--keep FOLDER]

Inputs are drawn by seed: a valid file of each kind, changed in a few places. Each target runs in a
process of its own, so that a crash is counted and the rest goes on.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

SECONDS = 10
MEMORY = 2**30
TRIES = 3
"""A hang is one every time; on a busy machine an input can be slow once."""
SLOW_TARGETS = ("matlab", "cifar")
"""Read in a child process each: a tenth of the count."""


def changed(content: bytes, rng: random.Random) -> bytes:
    """Return a file with a few bytes flipped, cut, doubled, overwritten or put in."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        if not data:
            break
        place = rng.randrange(len(data))
        # Headers are where the harm is.
        place = rng.randrange(min(len(data), 200)) if rng.random() < 0.5 else place
        kind = rng.randrange(7)
        if kind == 0:
            data[place] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[place] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif kind == 2:
            del data[rng.randrange(len(data)) :]
        elif kind == 3:
            size = rng.choice((2, 4, 8))
            number = rng.choice((0, 1, 2**31 - 1, 2**32 - 1, 2**63 - 1, rng.randrange(2**16)))
            order = rng.choice(("little", "big"))
            data[place : place + size] = (number % 2 ** (8 * size)).to_bytes(size, order)
        elif kind == 4:
            data[place:place] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 9)))
        elif kind == 5:
            end = min(len(data), place + rng.randrange(1, 64))
            data[place:end] = data[place:end] * rng.choice((0, 2, 30))
        else:
            digits = [i for i, byte in enumerate(data[:4000]) if 48 <= byte < 58]
            if digits:
                at = rng.choice(digits)
                more = rng.choice((b"-1", b"9" * 5, b"9" * 12, b"1e999", b"[", b"{", b'"', b"nan"))
                data[at : at + 1] = more
    return bytes(data)


class Alarm(BaseException):
    """It took too long."""


def ended_in(reading: Callable[[], object], seconds: int) -> str:
    """Return how a reader ended with one input: "read", "refused", or what is wrong with it."""
    from duotone.errors import DuotoneError

    for _ in range(TRIES):
        signal.alarm(seconds)
        try:
            reading()
            return "read"
        except DuotoneError as error:
            is_short = "\n" not in str(error) or "settings are wrong" in str(error)
            return "refused" if is_short else f"FAULT many lines: {str(error)[:150]}"
        except Alarm:
            continue
        except BaseException as error:
            return f"FAULT {type(error).__name__}: {str(error)[:100]}"
        finally:
            signal.alarm(0)
    return "FAULT slow"


def work(target: str, seed: int, first: int, count: int, keep: Path | None) -> Counter[str]:
    """Try some inputs in this process; return how they ended."""
    from targets import TARGETS

    def ring(*_: object) -> None:
        raise Alarm

    signal.signal(signal.SIGALRM, ring)
    ended: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as place:
        prepare, read = TARGETS[target]
        base = prepare(Path(place))
        for path, content in base.items():  # warm up, and see that the file is good
            path.write_bytes(content)
        began = time.monotonic()
        read(Path(place))
        # Where the good file itself takes seconds, the machine is busy and not the reader slow.
        seconds = max(SECONDS, round(TRIES * (time.monotonic() - began)))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for number in range(first, first + count):
            rng = random.Random(f"{target} {seed} {number}")
            path = rng.choice(sorted(base))
            damaged = changed(base[path], rng)
            path.write_bytes(damaged)
            sys.stderr.write(f"\r{target} {number}")
            outcome = ended_in(lambda: read(Path(place)), seconds)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            if (peak - before) * 1024 > MEMORY:
                outcome = f"FAULT memory {(peak - before) // 1024} MB"
                before = peak
            if outcome.startswith("FAULT") and keep is not None:
                (keep / f"{target}-{seed}-{number}-{path.name}").write_bytes(damaged)
            ended[outcome] += 1
            path.write_bytes(base[path])
    return ended


def run_target(target: str, seed: int, count: int, keep: Path | None) -> dict[str, int]:
    """Try some inputs in other processes; one that dies is a fault, and the next goes on."""
    ended: Counter[str] = Counter()
    first = 0
    while first < count:
        chunk = min(500, count - first)
        command = [sys.executable, __file__, "--work", target, "--seed", str(seed)]
        command += ["--first", str(first), "--count", str(chunk)]
        command += ["--keep", str(keep)] if keep else []
        done = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False)
        if done.returncode == 0:
            ended.update(json.loads(done.stdout.splitlines()[-1]))
            first += chunk
            continue
        last = done.stderr.rsplit("\r", 1)[-1].strip()
        words = last.split()
        died_at = int(words[1]) if len(words) > 1 and words[1].isdigit() else first + chunk - 1
        ended[f"FAULT died with {done.returncode} at {last[:200]}"] += 1
        ended["before a death"] += died_at - first
        first = died_at + 1
    return dict(ended)


def main() -> int:
    """Run the targets; print how inputs ended, and exit with 1 if there was a fault."""
    sys.path.insert(0, str(Path(__file__).parent))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", nargs="*")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--work")
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    if given.work:
        found = work(given.work, given.seed, given.first, given.count, given.keep)
        print(json.dumps(found))
        return 0
    from targets import TARGETS

    if given.keep:
        given.keep.mkdir(parents=True, exist_ok=True)
    total, faults = 0, 0
    for target in given.target or TARGETS:
        count = given.count // 10 if target in SLOW_TARGETS else given.count
        began = time.monotonic()
        ended = run_target(target, given.seed, count, given.keep)
        total += count
        faults += sum(n for name, n in ended.items() if name.startswith("FAULT"))
        print(f"{target}: {count} inputs, {time.monotonic() - began:.0f} s, {ended}", flush=True)
    print(f"{total} inputs, seed {given.seed}, {faults} faults", flush=True)
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
