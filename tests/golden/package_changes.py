"""Count how often one score changes package on its way from a sample to the page.

A tracer (``sys.setprofile``) watches a short run and its report and stops at the milestones of the
score ``probe.client_from_shared``: the data set is loaded, dealt out and styled, a client trains, a
sample is read to be encoded, the probe's answers are scored, the score is written into the tidy
table, into the summary, read for the figure, and the page is rendered. Between two milestones the
way leads up the stack of calls to where both ways part, and down again. Every call from one package
of duotone into another counts; returning does not. ::

    python tests/golden/package_changes.py [CHECKOUT …]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

TRACED = r"""
import sys
from pathlib import Path

import duotone
from duotone.report import write_report

ROOT = str(Path(duotone.__file__).parent)
LOW = {"seeding", "errors", "types", "registry", "files", "config", "words"}
MILESTONES = (
    "load_dataset", "build_partition", "apply_style", "client_update", "data", "score_answers",
    "append_metrics", "write_summary", "probe_table", "render",
)
way, before = [], []


def package(frame):
    name = frame.f_code.co_filename
    if not name.startswith(ROOT):
        return None
    found = Path(name[len(ROOT) + 1 :]).parts[0].removesuffix(".py")
    return None if found in LOW else found


def stack(frame):
    found = []
    while frame is not None:
        if package(frame) is not None:
            found.append((id(frame), package(frame)))
        frame = frame.f_back
    return found[::-1]


def is_reached(frame):
    name, caller = frame.f_code.co_name, frame.f_back
    if not left or name.removesuffix("s") != left[0].removesuffix("s") or package(frame) is None:
        return False
    if name == "data":  # of the encoder's job, not of training
        return "EncodeJob" in type(caller.f_locals.get("self", "")).__name__ or (
            caller.f_back is not None
            and "EncodeJob" in type(caller.f_back.f_locals.get("self", "")).__name__
        )
    if name == "score_answers":
        return frame.f_locals["truth"].name == "client"
    if name == "append_metrics":
        return any(row.metric == "probe.client_from_shared" for row in frame.f_locals["rows"])
    return True


def watch(frame, event, argument):
    if event == "call" and is_reached(frame):
        global before
        left.pop(0)
        now = stack(frame)
        common = 0
        while common < min(len(now), len(before)) and now[common] == before[common]:
            common += 1
        here = now[common - 1][1] if common else None
        for _, step in now[common:]:
            if step != here:
                way.append(step)
            here = step
        before = now


left = list(MILESTONES)
sys.setprofile(watch)
run = duotone.run(
    method="fedavg", data="mini-digits", model="mlp", style="marks",
    partition={"scheme": "iid", "clients": 4, "newcomers": 1, "max_train": 30},
    rounds=1, sampled=2, latents=20, curve=(), backend="serial", out=OUT,
)
write_report(run)
sys.setprofile(None)
assert not left, left
print(len(way), "changes of package:", " > ".join(way))
"""


def main() -> int:
    """Print the number of changes, and the way, of each checkout."""
    for checkout in sys.argv[1:] or ["."]:
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "PYTHONPATH": str(Path(checkout).resolve() / "src")}
            code = f"OUT = {folder + '/run'!r}\n{TRACED}"
            command = [sys.executable, "-W", "ignore", "-c", code]
            subprocess.run(command, env=environment, check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
