"""Starts the processes that carry a node's messages, from one that has loaded what they need.

Flower starts a process for every message, and loading Flower there takes more than a second of a
processor: longer than most answers. With ``--isolation process`` a node leaves the starting to
another program: Flower's own ``flower-superexec``, or this one, which has the same loop and the
same options, and forks. What it forks has loaded Flower, :mod:`duotone.messenger` and nothing else.
"""

from __future__ import annotations

import multiprocessing

from flwr.supercore.cli import flower_superexec
from flwr.supercore.constant import TaskType
from flwr.supercore.superexec import run_superexec
from flwr.supercore.superexec.executor import ExecutionSpec, LaunchResult, SubprocessExecutor
from flwr.supercore.tls import validate_and_resolve_root_certificates
from flwr.supernode.runtime.run_clientapp import run_clientapp

LOADED = ["flwr.supernode.runtime.run_clientapp", "duotone.messenger"]


class ForkingExecutor(SubprocessExecutor):
    """Starts a client app's process with everything loaded; others as Flower does."""

    def __init__(self) -> None:
        self.processes = multiprocessing.get_context("forkserver")
        self.processes.set_forkserver_preload(LOADED)

    def launch(self, spec: ExecutionSpec) -> LaunchResult:
        """Start a process for one message."""
        if spec.task_type != TaskType.CLIENT_APP:
            return super().launch(spec)
        root = validate_and_resolve_root_certificates(spec.root_certificates_path, spec.insecure)
        self.processes.Process(
            target=run_clientapp,
            kwargs={
                "runtime_api_address": spec.runtime_api_address,
                "token": spec.token,
                "insecure": spec.insecure,
                "certificates": root,
                "parent_pid": spec.parent_pid,
                "runtime_dependency_install": spec.runtime_dependency_install,
            },
            daemon=True,  # it ends with this program, also when its work is not done
        ).start()
        return LaunchResult.accepted()


def main() -> None:
    """Do what Flower's own program does, with this executor."""
    run_superexec.get_executor = lambda *_, **__: ForkingExecutor()
    flower_superexec()
