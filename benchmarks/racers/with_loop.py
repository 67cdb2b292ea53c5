"""The plain loop of ``peers.py``: one process, a model and a DataLoader per client."""

from __future__ import annotations

import torch

import course
from course import CLIENTS, EVALUATION_BATCH, LAYOUTS, SAMPLED, Clock, options
from duotone.seeding import derive, stream
from peers import DataLoaderLoop
from with_duotone import read_population, work_of

if __name__ == "__main__":
    given = options()
    samples = course.read(given.course)
    clock = Clock(samples)
    work = work_of(samples.y_train.shape[1])
    loop = DataLoaderLoop(work, read_population(given.course), LAYOUTS[given.layout])
    names = list(loop.train)
    torch.manual_seed(derive(0, "race"))
    draw = stream(0, "race")
    clock.lap(loop.server)
    for _ in range(given.rounds):
        drawn = draw.choice(CLIENTS, SAMPLED, replace=False)
        loop.train_round([names[number] for number in drawn])
        if clock.evaluates:
            loop.evaluate(EVALUATION_BATCH)
        clock.lap(loop.server)
