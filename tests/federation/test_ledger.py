from __future__ import annotations

import csv
import io

import numpy as np
import pytest
import torch
from federations import make_population

from duotone.errors import DisclosureError
from duotone.federation.answers import AnswerLog, answers
from duotone.federation.backends import ClientTask
from duotone.federation.backends.serial import Serial
from duotone.federation.engine import MemoryStates, federate
from duotone.federation.jobs import TrainJob
from duotone.federation.ledger import COLUMNS, Ledger, named_sizes
from duotone.federation.levels import check_level
from duotone.measures.codes import EncodeJob
from duotone.methods import METHODS
from duotone.networks.classifiers import cnn_bn
from duotone.networks.reading import as_network
from duotone.types import ClientState, ClientUpdate, DataInfo, RoundInfo, ServerState

JOB = TrainJob(ServerState({}), RoundInfo(2, 3, 0, DataInfo((4,), "classes", 2)))
UPDATE = ClientUpdate("a", {"w": torch.zeros(3)}, 5, {"n": torch.zeros(2).double()}, {"loss": 0.5})


def test_an_update_is_counted_by_hand_and_the_state_beside_it_is_not():
    sizes = dict(named_sizes((UPDATE, ClientState({"w": torch.zeros(99)}))))
    assert sizes == {"shared/w": 12, "weight": 8, "extra/n": 16, "metrics/loss": 8}


def test_answers_add_up_by_round_client_and_kind():
    ledger = Ledger()
    for client in ("a", "b", "a"):
        ledger.enter(JOB, client, UPDATE)
    ledger.enter(EncodeJob.__new__(EncodeJob), "a", {"shared/test": np.zeros(4, np.float32)})
    assert ledger.table()["clients"] == {
        "a": {"codes": {"rounds": 1, "bytes": 16}, "update": {"rounds": 1, "bytes": 88}},
        "b": {"update": {"rounds": 1, "bytes": 44}},
    }
    assert ledger.table()["kinds"]["codes"] == {"level": "simulation", "names": ["shared/test"]}


def test_a_resumed_run_takes_its_ledger_up_again():
    ledger, later = Ledger(), Ledger()
    for client in ("a", "b, c"):
        ledger.enter(JOB, client, UPDATE)
    lines = ledger.lines(2)
    assert lines.splitlines()[0] == "2,a,update,scores,44,shared/w weight extra/n metrics/loss"
    assert ledger.lines(1) == ""
    later.remember(csv.DictReader(io.StringIO(lines), COLUMNS))
    assert later.table() == ledger.table()


def test_a_question_above_the_level_is_refused_before_anybody_is_asked():
    kind = METHODS.load("fedavg")
    method, population = kind(kind.Config(), as_network(cnn_bn)), make_population()
    backend = Serial(method, population)
    backend.level = "scores"
    (result,) = federate(method, population, rounds=1, backend=backend, states=MemoryStates())
    assert len(result.updates) == 3
    task = ClientTask("c0", None)
    with pytest.raises(DisclosureError, match=r"EncodeJob asks for .* 'simulation' allows"):
        list(answers(backend, EncodeJob.__new__(EncodeJob), [task], ["c0"], AnswerLog()))
    assert set(backend.ledger.table()["kinds"]) == {"update"}


def test_a_job_that_says_nothing_is_of_the_last_level():
    with pytest.raises(DisclosureError, match="only the level 'simulation'"):
        check_level(object(), "codes")
    check_level(object(), "simulation")


class Trap:
    def __getattribute__(self, name):
        raise RuntimeError("a trap")


def test_a_strange_answer_is_entered_and_does_no_harm():
    ledger = Ledger()
    ledger.enter(JOB, "a", {"w": Trap()})
    ledger.enter(JOB, "b", {"x" * 999: 1.0})
    assert ledger.table()["kinds"]["update"]["names"] == ["unreadable", "x" * 200]
    assert ledger.table()["clients"]["a"] == {"update": {"rounds": 1, "bytes": 0}}
