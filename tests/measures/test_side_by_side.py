"""Work in pieces: the same bits wherever it is done, in order, and a failure is said."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from federations import make_population
from scenes import make_scene

from duotone.errors import TrainingError
from duotone.federation.backends import ClientTask
from duotone.federation.backends.lent import Lent
from duotone.federation.backends.processes import Processes
from duotone.federation.backends.serial import Serial
from duotone.federation.engine import federate
from duotone.federation.serving import Serving
from duotone.federation.settings import MethodSettings
from duotone.measures.judges import Judges, Untrained, train_judges, untrained_judges
from duotone.measures.judging import judges, judges_of_made, judges_of_newcomers
from duotone.measures.lessons import Lesson
from duotone.measures.measure import Course, InPieces
from duotone.measures.probe_networks import _Loss, _Target
from duotone.measures.questions import Question
from duotone.measures.side_by_side import side_by_side
from duotone.methods.baselines.fedavg import FedAvg
from duotone.networks.classifiers import mlp
from duotone.partition.partition import Population
from duotone.types import RoundInfo


def told(number, method, population):
    return number, os.getpid(), len(population.partition)


def broken(method, population):
    raise ValueError("no such thing")


def judged(judges, x, method, population):
    return judges.verdicts(x)


@pytest.fixture(scope="module")
def trained():
    population = make_population(samples=40)
    return FedAvg(MethodSettings(), mlp), population


@pytest.fixture(scope="module")
def workers(trained):
    with Processes(*trained, 2) as backend:
        yield backend


def test_pieces_are_done_by_workers_and_answered_in_order(trained, workers):
    found = side_by_side(workers, *trained, [partial(told, number) for number in range(5)])
    assert [number for number, _, _ in found] == [0, 1, 2, 3, 4]
    assert os.getpid() not in {process for _, process, _ in found}
    assert {clients for _, _, clients in found} == {len(trained[1].partition)}


def test_without_workers_pieces_are_done_here(trained):
    found = side_by_side(Serial(*trained), *trained, [partial(told, number) for number in range(2)])
    assert [process for _, process, _ in found] == [os.getpid()] * 2


def test_a_piece_that_fails_is_said(trained, workers):
    for backend in (workers, Serial(*trained)):
        with pytest.raises(TrainingError, match=r"Measuring failed: ValueError: no such thing"):
            side_by_side(backend, *trained, [partial(told, 0), broken])
    assert side_by_side(workers, *trained, [partial(told, 7)])[0][0] == 7  # the pool lives on


def test_judges_are_the_same_wherever_they_learn_and_wherever_they_judge(trained, workers):
    _, population = trained
    untrained = untrained_judges(population, seed=0)
    learnt = side_by_side(workers, *trained, untrained.lessons)
    there, here = untrained.trained(learnt), train_judges(population, seed=0)
    for name, tensor in here.network.state_dict().items():
        assert torch.equal(tensor, there.network.state_dict()[name]), name
    x = population.data(population.partition.clients[0], "test").x
    (sent,) = side_by_side(workers, *trained, [partial(judged, here, x)])
    for trait, verdicts in here.verdicts(x).items():
        assert np.array_equal(verdicts, sent[trait])


def test_what_is_prepared_together_is_made_once(trained, monkeypatch):
    method, population = trained
    info = RoundInfo(seed=0, round=1, rounds=1, data=population.info)
    scene = make_scene(method, population, Serving(method.start(info), info, "zero-shot"))
    taught = []
    monkeypatch.setattr(Lesson, "learnt", lambda lesson: taught.append(lesson))
    monkeypatch.setattr(
        Untrained,
        "trained",
        lambda self, learnt: Judges(torch.nn.Identity(), (), self.styles, self.style_of),
    )
    scene.prepare([judges_of_newcomers, judges_of_made, judges])
    assert len(taught) == 1
    assert scene.once(judges_of_newcomers) is scene.once(judges_of_made) is scene.once(judges)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_what_another_thing_is_made_of_is_not_made_again(trained, order):
    method, population = trained
    info = RoundInfo(seed=0, round=1, rounds=1, data=population.info)
    scene = make_scene(method, population, Serving(method.start(info), info, "zero-shot"))
    done = []
    base = InPieces(lambda scene: Course([lambda method, population: done.append(1)], len))
    above = InPieces(lambda scene: Course((), lambda _: scene.once(base), (base,)))
    things = (base, above)
    scene.prepare([things[place] for place in order])
    assert done == [1]
    assert scene.once(above) == 1


def test_things_of_several_pieces_get_their_own(trained):
    method, population = trained
    info = RoundInfo(seed=0, round=1, rounds=1, data=population.info)
    scene = make_scene(method, population, Serving(method.start(info), info, "zero-shot"))
    two = InPieces(lambda scene: Course([partial(told, 1), partial(told, 2)], firsts))
    none = InPieces(lambda scene: Course((), firsts))
    one = InPieces(lambda scene: Course([partial(told, 3)], firsts))
    scene.prepare([two, none, one, two])
    assert [scene.once(thing) for thing in (two, none, one)] == [[1, 2], [], [3]]


def firsts(found):
    return [number for number, _, _ in found]


def test_lent_workers_train_another_method_to_the_same_bits(trained, workers):
    _, population = trained
    other = FedAvg(MethodSettings(lr=0.2, epochs=2), mlp)
    *_, alone = federate(other, population, rounds=2, backend=Serial(other, population))
    *_, lent = federate(other, population, rounds=2, backend=Lent(workers, other, population))
    for name, tensor in alone.server.shared.items():
        assert torch.equal(tensor, lent.server.shared[name]), name


class CountJob:
    def __call__(self, method, population, task):
        return len(population.data(task.client).x)


@pytest.mark.parametrize(("is_labelled", "samples"), [(True, 5), (False, 40)])
def test_a_method_that_needs_labels_sees_only_samples_that_have_one(trained, is_labelled, samples):
    method, whole = trained
    some = Population(whole.dataset, whole.partition, labelled=5, keeps_unlabelled=True)
    lent = Lent(Serial(method, some), method, some, is_labelled=is_labelled)
    (found,) = lent.map_clients(CountJob(), [ClientTask("c0", None)])
    assert found.value == samples


def test_numbers_of_different_widths_have_the_loss_they_have_alone():
    # Errors of the first: 1² and 2²; of the second 1² + 3² and 1²; the last sample is not asked.
    first = Question("height", np.array([[0.0], [2.0], [np.nan]]))
    second = Question("phase", np.array([[1.0, -1.0], [0.0, 0.0], [np.nan, np.nan]]))
    targets = [
        replace(_Target.of(asking), values=torch.from_numpy(asking.answers).float().nan_to_num())
        for asking in (first, second)
    ]
    outputs = torch.tensor(
        [[[1.0, 9.0], [4.0, 9.0], [7.0, 9.0]], [[2.0, 2.0], [0.0, 1.0], [5.0, 5.0]]]
    )
    assert _Loss(targets)(outputs, torch.arange(3)).tolist() == [2.5, 5.5]


def test_probes_and_judges_do_not_load_the_compiler():
    script = (
        "import sys, torch, numpy as np\n"
        "from duotone.measures.lessons import taught\n"
        "from duotone.measures.probe_networks import train_probes\n"
        "from duotone.measures.questions import Question\n"
        "codes = np.random.default_rng(0).normal(size=(60, 3))\n"
        "train_probes(codes, [Question('label', np.arange(60) % 2)], 0)\n"
        "batches = np.zeros((2, 4), int)\n"
        "taught((4,), 2, 0, batches, lambda network, batch: network(torch.rand(4, 4)).sum())\n"
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
