"""What clients answer beside updates: counts, votes, scores. Nothing in it may end a run."""

from __future__ import annotations

import math

import numpy as np
import pytest
from federations import make_population

from duotone.federation.answers import AnswerLog, answers
from duotone.federation.backends import ClientResult, ClientTask
from duotone.federation.backends.serial import Serial
from duotone.federation.election import Ballot, CountJob, VoteJob, vote
from duotone.federation.engine import MemoryStates
from duotone.federation.personalise import Personalisation
from duotone.federation.serving import Serving
from duotone.measures.calibration import BINS, CalibrationJob
from duotone.measures.evaluation import EvaluateJob, evaluate
from duotone.measures.refusals import BackdoorJob
from duotone.methods.baselines.fedavg import FedAvg
from duotone.networks.classifiers import mlp
from duotone.runs.flower_jobs import EnrolJob
from duotone.types import DataInfo, RoundInfo

POPULATION = make_population(members=3)
CLASSES = POPULATION.info.outputs
OWN = {split: POPULATION.partition.size("c0", split) for split in ("train", "val", "test")}


class Strange:
    """Raises whatever is asked of it."""

    def __getattr__(self, name):
        raise RuntimeError(name)


class Lying(Serial):
    """One client answers one kind of job with something else."""

    def __init__(self, method, kind, lie):
        super().__init__(method, POPULATION)
        self.kind, self.lie, self.said = kind, lie, []
        self.say = self.said.append

    def map_clients(self, job, tasks):
        for result in super().map_clients(job, tasks):
            lies = result.client == "c0" and isinstance(job, self.kind)
            yield ClientResult(result.client, self.lie) if lies else result


def serving():
    method = FedAvg(FedAvg.Config(), mlp)
    info = RoundInfo(1, 1, 0, POPULATION.info)
    return method, Serving(method.start(info), info, "zero-shot")


def full_of(count):
    return np.full(CLASSES, count, np.int64)


JOBS = {
    "counts": lambda: (CountJob(), CountJob),
    "votes": lambda: (
        VoteJob(serving()[1], [Personalisation("prior", (0.25,) * CLASSES)]),
        VoteJob,
    ),
    "scores": lambda: (EvaluateJob(serving()[1]), EvaluateJob),
    "confidence": lambda: (CalibrationJob(serving()[1]), CalibrationJob),
    "backdoor": lambda: (BackdoorJob(serving()[1]), BackdoorJob),
    "enrolment": lambda: (EnrolJob(), EnrolJob),
}
SIZES = {"train": 1, "val": 1, "test": 1}
LIES = {
    "a text for counts": ("counts", "many"),
    "counts of another shape": ("counts", np.zeros(CLASSES + 1, np.int64)),
    "counts that are no integers": ("counts", np.full(CLASSES, np.nan)),
    "negative counts": ("counts", full_of(-1)),
    "more labels than samples": ("counts", full_of(OWN["train"])),
    "counts that overflow": ("counts", full_of(2**62)),
    "a text for votes": ("votes", "all"),
    "too few ballots": ("votes", []),
    "more votes than samples": ("votes", [Ballot(OWN["val"] + 1, 0)]),
    "negative votes": ("votes", [Ballot(1, -1)]),
    "votes in fractions": ("votes", [Ballot(0.5, 0.0)]),
    "a ballot that raises": ("votes", [Strange()]),
    "a text for scores": ("scores", "best"),
    "accuracy above one": ("scores", {"accuracy": 7.0}),
    "validation accuracy above one": ("scores", {"val_accuracy": 7.0}),
    "a score that is no number": ("scores", {"loss": math.nan}),
    "a score that is a truth": ("scores", {"loss": True}),
    "a score with a strange name": ("scores", {"<b>": 1.0}),
    "a score with an endless name": ("scores", {"a" * 65: 1.0}),
    "scores without end": ("scores", {f"s{i}": 0.0 for i in range(1001)}),
    "confidence of another shape": ("confidence", np.zeros((3, BINS + 1))),
    "more answers than samples": ("confidence", np.full((3, BINS), 1e6)),
    "more right than answered": ("confidence", np.repeat([[0.0], [0.0], [1.0]], BINS, axis=1)),
    "confidence that is no number": ("confidence", np.full((3, BINS), np.nan)),
    "a share above one": ("backdoor", 2.0),
    "no pair": ("enrolment", 3),
    "negative samples": ("enrolment", (SIZES | {"train": -1}, POPULATION.info)),
    "samples without end": ("enrolment", (SIZES | {"train": 10**9}, POPULATION.info)),
    "classes without end": ("enrolment", (SIZES, DataInfo((1, 8, 8), "classes", 10**9))),
}


def asked(lie):
    kind, answer = LIES[lie]
    job, of = JOBS[kind]()
    log, tasks = AnswerLog(), [ClientTask(client, None) for client in ("c0", "c1")]
    backend = Lying(serving()[0], of, answer)
    found = dict(answers(backend, job, tasks, ("c0", "c1"), log, POPULATION))
    return found, log.refused


@pytest.mark.parametrize("lie", LIES)
def test_what_is_no_honest_answer_is_refused_by_name_and_the_others_count(lie):
    found, refused = asked(lie)
    assert set(found) == {"c1"}
    assert set(refused) == {"c0"}


@pytest.mark.parametrize("kind", JOBS)
def test_honest_answers_pass(kind):
    job, _ = JOBS[kind]()
    log, tasks = AnswerLog(), [ClientTask("c0", None)]
    backend = Serial(serving()[0], POPULATION)
    assert "c0" in dict(answers(backend, job, tasks, ("c0",), log, POPULATION)), log.refused


@pytest.mark.parametrize(
    ("kind", "lie"), [(CountJob, full_of(10**6)), (VoteJob, [Ballot(10**9, 0)])]
)
def test_a_hostile_member_decides_no_election(kind, lie):
    method, own = serving()
    backend = Lying(method, kind, lie)
    found = vote(own, ("none", "prior"), POPULATION, MemoryStates(), backend)
    most = sum(POPULATION.partition.size(client, "val") for client in ("c1", "c2"))
    assert found.ballots["prior"].won + found.ballots["prior"].lost <= most + OWN["val"]
    assert max(found.chosen.shares) < 0.9
    assert any("'c0' is left out" in line for line in backend.said)


def test_scores_of_a_hostile_member_reach_no_table():
    method, own = serving()
    backend = Lying(method, EvaluateJob, {"accuracy": 10.0**9})
    rows = evaluate(own, ("c0", "c1"), POPULATION, MemoryStates(), backend)
    assert {row.client for row in rows} == {"c1"}
