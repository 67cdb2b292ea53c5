from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from federations import make_population

from duotone.errors import TrainingError
from duotone.federation.backends import ClientTask
from duotone.federation.backends.auto import Auto
from duotone.federation.backends.processes import Processes
from duotone.federation.backends.wire import NotImportable, attach, share
from duotone.federation.engine import federate
from duotone.methods.baselines.fedavg import FedAvg
from duotone.networks.classifiers import mlp


class EndJob:
    """Ends the worker in the middle of a client."""

    def __call__(self, method, population, task):
        os._exit(7)


class EchoJob:
    def __call__(self, method, population, task):
        return task.client, os.getpid(), torch.get_num_threads()


def children(processes: Processes) -> list[int]:
    return [child.pid for child in processes._children.values()]


def is_alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0]
    except FileNotFoundError:
        return False


@pytest.fixture(scope="module")
def pool():
    """A pool that survives what happens to its workers."""
    with Processes(FedAvg(FedAvg.Config(), mlp), make_population(), 2) as pool:
        yield pool


def test_every_task_is_computed_once_by_one_thread_in_another_process(pool, population):
    tasks = [ClientTask(client, None) for client in population.partition] * 5
    values = [result.value for result in pool.map_clients(EchoJob(), tasks)]
    assert sorted(v[0] for v in values) == sorted(t.client for t in tasks)
    assert os.getpid() not in {v[1] for v in values}
    assert {v[2] for v in values} == {1}


class EndOnceJob:
    """Ends the worker the first time; a file says whether that was."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, method, population, task):
        mark = self.folder / task.client
        if task.client == "c1" and not mark.exists():
            mark.touch()
            os._exit(7)
        return task.client


class RaiseJob:
    def __call__(self, method, population, task):
        if task.client == "c1":
            raise ZeroDivisionError("boom")
        return (lambda: 0) if task.client == "c2" else task.client


def test_a_worker_that_dies_is_replaced_and_its_client_computed_again(pool, tmp_path):
    tasks = [ClientTask(client, None) for client in ("c0", "c1", "c2", "c3")]
    before = children(pool)
    results = list(pool.map_clients(EndOnceJob(tmp_path), tasks))
    assert sorted(result.value for result in results) == ["c0", "c1", "c2", "c3"]
    assert len(children(pool)) == 2
    assert set(children(pool)) != set(before)


def test_a_client_whose_workers_die_twice_has_failed_and_the_others_have_not(pool):
    (result,) = pool.map_clients(EndJob(), [ClientTask("c1", None)])
    assert result.client == "c1"
    assert "its worker process ended with code 7" in result.failure.reason
    values = [r.value[0] for r in pool.map_clients(EchoJob(), [ClientTask("c0", None)])]
    assert values == ["c0"], "the pool goes on"


def test_a_worker_that_was_killed_while_idle_is_replaced(pool):
    list(pool.map_clients(EchoJob(), [ClientTask("c0", None)] * 4))
    for pid in children(pool):
        os.kill(pid, signal.SIGKILL)
    results = list(pool.map_clients(EchoJob(), [ClientTask("c0", None), ClientTask("c1", None)]))
    assert sorted(result.value[0] for result in results) == ["c0", "c1"]


def test_failures_and_answers_that_cannot_be_sent_are_results(pool):
    tasks = [ClientTask(client, None) for client in ("c0", "c1", "c2", "c3")]
    found = {result.client: result for result in pool.map_clients(RaiseJob(), tasks)}
    assert found["c0"].value == "c0"
    assert found["c3"].failure is None
    reason = found["c1"].failure.reason
    assert "ZeroDivisionError: boom (in your own code, test_processes.py" in reason
    assert "cannot be sent" in found["c2"].failure.reason


def test_a_pool_that_was_left_in_the_middle_does_not_mix_up_results(population):
    tasks = [ClientTask(client, None) for client in ("c0", "c1", "c2", "c3")]
    with Processes(FedAvg(FedAvg.Config(), mlp), population, 1) as pool:
        begun = pool.map_clients(EchoJob(), tasks)
        next(begun)
        begun.close()
        with pytest.raises(TrainingError, match="have ended"):
            list(pool.map_clients(EchoJob(), tasks))


def test_leaving_the_pool_ends_its_workers(population):
    with Processes(FedAvg(FedAvg.Config(), mlp), population, 2) as pool:
        pids = children(pool)
        assert all(is_alive(pid) for pid in pids)
    assert not any(is_alive(pid) for pid in pids)


def test_no_shared_memory_segment_has_a_name(pool):
    if Path("/dev/shm").is_dir():
        assert not [
            p
            for p in Path("/dev/shm").iterdir()
            if p.stat().st_uid == os.getuid() and "tmp" in p.name
        ]


def test_samples_exist_once(population):
    original = population.dataset.x
    with Processes(FedAvg(FedAvg.Config(), mlp), population, 1):
        assert population.dataset.x is not original
        assert np.array_equal(population.dataset.x, original)
        # The parent looks into the very memory that the workers map.
        base = population.dataset.x
        while isinstance(base, np.ndarray):
            base = base.base
        assert type(base).__name__ in ("mmap", "memoryview")


def test_shared_arrays_are_views_on_one_memory():
    arrays = {"a": np.arange(5), "b": np.ones((2, 3), np.float32), "empty": np.zeros(0, np.int64)}
    descriptor, layout = share(arrays)
    try:
        first, second = attach(descriptor, layout), attach(descriptor, layout)
    finally:
        os.close(descriptor)
    for name, array in arrays.items():
        assert np.array_equal(first[name], array)
        assert first[name].dtype == array.dtype
    first["a"][0] = 42
    assert second["a"][0] == 42


def test_a_model_that_workers_cannot_import_is_refused(population):
    method = FedAvg(FedAvg.Config(), lambda data: mlp(data))
    with pytest.raises(NotImportable):
        Processes(method, population, 1)
    gc.collect()


def test_auto_says_so_and_goes_on_in_one_process(population, monkeypatch):
    monkeypatch.setattr("duotone.federation.backends.auto.POOL_COST_SECONDS", 0.0)
    lines: list[str] = []
    method = FedAvg(FedAvg.Config(), lambda data: mlp(data))
    with Auto(method, population, 2, lines.append) as backend:
        results = list(federate(method, population, rounds=2, backend=backend))
    assert len(results) == 2
    assert len(lines) == 1
    assert "one process" in lines[0]


def test_auto_switches_in_the_middle_without_changing_a_bit(monkeypatch):
    method = FedAvg(FedAvg.Config(), mlp)
    reference = list(federate(method, make_population(), rounds=8))
    monkeypatch.setattr("duotone.federation.backends.auto.POOL_COST_SECONDS", 0.0)
    population = make_population()
    with Auto(method, population, 2) as backend:
        results = []
        for result in federate(method, population, rounds=8, backend=backend):
            results.append(result)
            if result.info.round == 3:
                assert backend._pool.is_ready(patience=None)
    for name, tensor in reference[-1].server.shared.items():
        assert torch.equal(tensor, results[-1].server.shared[name])


def test_workers_die_with_a_parent_that_is_killed(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(
        "import sys, time\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from federations import make_population\n"
        "from duotone.federation.backends.processes import Processes\n"
        "from duotone.methods.baselines.fedavg import FedAvg\n"
        "from duotone.networks.classifiers import mlp\n"
        "pool = Processes(FedAvg(FedAvg.Config(), mlp), make_population(), 2)\n"
        "pool.is_ready(patience=None)\n"
        "print(*[child.pid for child in pool._children.values()], flush=True)\n"
        "time.sleep(60)\n"
    )
    import subprocess
    import sys

    tests = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, str(script), str(tests)], stdout=subprocess.PIPE, text=True
    ) as parent:
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert len(pids) == 2
        assert all(is_alive(pid) for pid in pids)
        parent.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 10
    while any(is_alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(is_alive(pid) for pid in pids)


def test_ctrl_c_while_workers_import_reaches_the_parent_alone(population):
    asked = []
    before = signal.signal(signal.SIGINT, lambda *_: asked.append("stop"))
    try:
        with Processes(FedAvg(FedAvg.Config(), mlp), population, 2) as pool:
            group = os.getpgrp()
            for pid in [pid for pid in children(pool) if os.getpgid(pid) == group]:
                os.kill(pid, signal.SIGINT)  # what a terminal does to every process of a group
            os.kill(os.getpid(), signal.SIGINT)
            assert pool.is_ready(patience=None)
    finally:
        signal.signal(signal.SIGINT, before)
    assert asked == ["stop"]


def test_a_worker_loads_no_library_that_only_reads_tables_or_draws():
    """Each takes 10 to 30 MB, in every worker: when it starts, and when it evaluates."""
    heavy = {"polars", "plotly", "scipy", "sklearn", "matplotlib", "PIL"}
    used = "duotone.federation.backends.worker, duotone.measures.evaluation"
    code = f"import sys, {used}; print({heavy} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
