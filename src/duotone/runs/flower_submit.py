"""Submit a run to a Flower federation and follow it to its true end."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from duotone.errors import RunError, TrainingError
from duotone.runs import Run
from duotone.runs.flower_folder import Federation
from duotone.runs.flower_processes import CONNECTION, flower, runs
from duotone.runs.folder import RunFolder

_LOOK_SECONDS = 1.0
_ASK_SECONDS = 15.0
COMPLETED = "finished:completed"
"""What Flower says of a run that ended well."""


def submit(
    federation: Federation,
    config: Mapping[str, Any],
    out: Path,
    *,
    deadline: float,
    patience: float,
    resume: bool,
    say: Callable[[str], None],
) -> Run:
    """Submit a run and wait for its end.

    Args:
        federation: Where.
        config: The run's settings.
        out: The run's folder, on the server's machine.
        deadline: Seconds a client has for an answer.
        patience: Seconds to wait for all clients to be connected.
        resume: Whether to go on with the run that is in the folder.
        say: Told what the run says.

    Raises:
        RunError: The folder is there already, or it is not and should be.
        TrainingError: The run failed.
    """
    out = out.resolve()
    if resume:
        folder = RunFolder.open(out)
        if folder.facts()["status"] == "finished":
            return Run(out)
        if folder.is_busy:  # it goes on, and only was no longer followed
            _follow(federation, str(folder.facts()["flower"]), out, say)
            return Run(out)
        config = _config_of(folder)
    elif out.exists():
        raise RunError(f"{out} exists already and a run never overwrites; choose another --out.")
    _failed(out).unlink(missing_ok=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    submission = {
        "config": {**config, "level": config.get("level", "scores")},
        "out": str(out),
        "clients": list(federation.clients),
        "deadline": deadline,
        "patience": patience,
        "resume": resume,
    }
    number = _start(federation, submission)
    try:
        _follow(federation, number, out, say)
    except KeyboardInterrupt:
        say(
            "No longer followed; the run goes on at the server. Follow it again: duotone flower "
            f"submit --resume --folder {federation.folder} --out {out}. End it: duotone flower "
            f"stop {number} --folder {federation.folder}"
        )
        raise
    return Run(out)


def join_later(
    federation: Federation, out: Path, clients: Sequence[str], *, deadline: float, patience: float
) -> dict[str, Any]:
    """Let clients whose nodes came later join a finished run; return their scores.

    Raises:
        RunError: There is no such run.
        TrainingError: A client could not join.
    """
    out = out.resolve()
    submission = {
        "config": _config_of(RunFolder.open(out)),
        "out": str(out),
        "clients": [],
        "deadline": deadline,
        "patience": patience,
        "join": list(clients),
    }
    _failed(out).unlink(missing_ok=True)
    number = _start(federation, submission)
    while not (state := _state(federation, number)).startswith("finished"):
        time.sleep(_LOOK_SECONDS)
    if reason := _reason(out) or ("" if state == COMPLETED else f"Flower says {state}"):
        raise TrainingError(f"Nobody joined: {reason}")
    joined = RunFolder.open(out).table("joined") or {}
    return {client: joined[client] for client in clients}


def _config_of(folder: RunFolder) -> dict[str, Any]:
    """Return the settings of a run as they were submitted."""
    config = folder.config().model_dump(mode="json", exclude_none=True)
    config["partition"].pop("scheme", None)
    return config


def _failed(out: Path) -> Path:
    """Where the server writes why a run could not begin."""
    return out.with_name(f"{out.name}.failed")


def _reason(out: Path) -> str:
    """Return why a run could not begin, and forget it."""
    failed = _failed(out)
    reason = failed.read_text(encoding="utf-8").strip() if failed.exists() else ""
    failed.unlink(missing_ok=True)
    return reason


def _start(federation: Federation, submission: Mapping[str, Any]) -> str:
    """Hand the app over to the server, with what it is to do; return the run's number."""
    with tempfile.TemporaryDirectory() as place:
        app = Path(place) / "app"
        shutil.copytree(federation.folder / "app", app)
        project = app / "pyproject.toml"
        content = tomllib.loads(project.read_text(encoding="utf-8"))
        content["tool"]["flwr"]["app"]["config"]["submission"] = json.dumps(submission)
        project.write_text(tomli_w.dumps(content), encoding="utf-8")
        return str(flower(federation, "run", str(app), CONNECTION)["run-id"])


def _follow(federation: Federation, number: str, out: Path, say: Callable[[str], None]) -> None:
    """Repeat what the run writes down until it has ended.

    Flower's own answer comes last: it also knows of a server app that was killed.

    Raises:
        TrainingError: It did not end well.
    """
    log = out / "log.txt"
    seen = len(log.read_text(encoding="utf-8")) if log.exists() else 0
    asked = time.monotonic()
    while True:
        ended = _failed(out).exists()
        if time.monotonic() - asked > _ASK_SECONDS or ended or _status(out) in _ENDS:
            state = _state(federation, number)
            asked = time.monotonic()
            ended = state.startswith("finished")
        if log.exists():
            text = log.read_text(encoding="utf-8")
            for line in text[seen:].splitlines():
                say(line.partition(" ")[2])
            seen = len(text)
        if ended:
            break
        time.sleep(_LOOK_SECONDS)
    if _status(out) == "finished":
        return
    reason = _reason(out)
    if not reason and (out / "run.json").exists():
        reason = str(RunFolder.open(out).facts().get("error") or "")
    again = f"duotone flower submit --resume --folder {federation.folder} --out {out}"
    again = f" Go on with: {again}" if out.exists() else ""
    reason = (reason or f"Flower says {state}").removesuffix(".")
    raise TrainingError(f"The run failed: {reason}.{again}")


_ENDS = ("finished", "failed", "interrupted")


def _status(out: Path) -> str:
    return str(RunFolder.open(out).facts()["status"]) if (out / "run.json").exists() else ""


def _state(federation: Federation, number: str) -> str:
    for run in runs(federation):
        if str(run.get("run-id")) == number:
            return str(run.get("status"))
    return "finished: unknown"
