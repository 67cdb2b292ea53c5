"""What a run will take, before it starts; how right it is depends on the machine, so not here."""

from __future__ import annotations

import pytest
import torch

from duotone.runs import forecast as module
from duotone.runs.forecast import forecast, seconds_of
from duotone.runs.plan import plan_run

SETTINGS = {
    "method": {"name": "fedavg", "epochs": 1},
    "data": "mini-digits",
    "model": "linear",
    "partition": {"scheme": "iid", "clients": 6, "newcomers": 1},
    "rounds": 10,
    "workers": 2,
}


@pytest.fixture
def clock(monkeypatch):
    """Let every tried step take one second."""
    ticks = iter(range(1000))
    monkeypatch.setattr(module.time, "perf_counter", lambda: float(next(ticks)))
    monkeypatch.setattr(module, "available_cores", lambda: 2)


def test_time_by_hand(clock):
    plan = plan_run(SETTINGS)
    partition = plan.population.partition
    expected = forecast(plan)
    sizes = [partition.size(member) for member in partition.members]
    # One second for 32 samples; five members in each of ten rounds, two at once.
    assert expected.training == pytest.approx(sum(sizes) / 32 * 10 / 2)
    samples = {
        c: sum(partition.size(c, split) for split in ("train", "val", "test")) for c in partition
    }
    # One second for the smallest; all six after rounds 5 and 10.
    assert expected.evaluation == pytest.approx(
        2 * sum(samples.values()) / min(samples.values()) / 2
    )


def test_twice_the_rounds_take_twice_as_long(clock):
    once, twice = (seconds_of(plan_run({**SETTINGS, "rounds": n})) for n in (5, 10))
    assert twice == pytest.approx(2 * once)


def test_memory_grows_with_workers_by_what_each_holds_alone(monkeypatch):
    monkeypatch.setattr(module, "_held", lambda: (500_000_000, 300_000_000))
    alone = forecast(plan_run({**SETTINGS, "backend": "serial"}))
    two, four = (forecast(plan_run({**SETTINGS, "workers": n})) for n in (2, 4))
    assert (alone.processes, two.processes, four.processes) == (1, 3, 5)
    dataset = plan_run(SETTINGS).population.dataset
    each = (two.memory - alone.memory) / 2
    assert four.memory - two.memory == pytest.approx(2 * each)
    samples = dataset.x.nbytes + dataset.y.nbytes
    assert 300_000_000 - samples < each < 301_000_000
    monkeypatch.setattr(module, "_held", lambda: None)
    assert forecast(plan_run(SETTINGS)).memory is None


def test_a_forecast_changes_nothing():
    plan = plan_run(SETTINGS)
    before = torch.random.get_rng_state()
    forecast(plan)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_what_linux_says_of_this_process_is_read():
    held = module._held()
    if held is None:
        pytest.skip("this system does not say")
    here, own = held
    assert 50_000_000 < own < here
