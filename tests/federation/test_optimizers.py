from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from duotone.federation.optimizers import SGD, Adam


def moved(make, steps=4):
    """Return parameters after some steps on drawn gradients; one has none at first."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(4, 3, 3, 3), (4,), (2, 5)]
    parameters = [torch.randn(shape, generator=generator).requires_grad_() for shape in shapes]
    parameters[0] = parameters[0].detach().to(memory_format=torch.channels_last).requires_grad_()
    optimizer = make(parameters)
    for step in range(steps):
        optimizer.zero_grad()
        assert all(p.grad is None for p in parameters)
        for place, p in enumerate(parameters):
            if place or step:
                p.grad = torch.randn(p.shape, generator=generator)
        optimizer.step()
    return [p.detach() for p in parameters]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (lambda p: SGD([(p, 0.1)]), lambda p: torch.optim.SGD(p, 0.1)),
        (
            lambda p: SGD([(p, 0.1)], momentum=0.9, weight_decay=0.01),
            lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.01),
        ),
        (lambda p: Adam([(p, 0.02)]), lambda p: torch.optim.Adam(p, 0.02, fused=True)),
        (
            lambda p: Adam([(p[:1], 0.02), (p[1:], 0.3)], (0.5, 0.9), 0.01),
            lambda p: torch.optim.Adam(
                [{"params": p[:1]}, {"params": p[1:], "lr": 0.3}],
                0.02,
                (0.5, 0.9),
                weight_decay=0.01,
                fused=True,
            ),
        ),
    ],
    ids=["sgd", "momentum and decay", "adam", "two rates"],
)
def test_every_step_is_that_of_torch(ours, theirs):
    for own, torchs in zip(moved(ours), moved(theirs), strict=True):
        assert torch.equal(own, torchs)


def test_training_does_not_load_the_compiler():
    script = (
        "import sys, torch; from duotone.federation.optimizers import SGD, Adam\n"
        "p = torch.ones(2, requires_grad=True); p.sum().backward()\n"
        "SGD([([p], 0.1)]).step(); Adam([([p], 0.1)]).step()\n"
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
