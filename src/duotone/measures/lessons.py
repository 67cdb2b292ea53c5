"""Small networks that read samples, and how they are taught: judges and attackers are both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from duotone.data.colours import half_changed, random_levels
from duotone.data.dataset import Array
from duotone.federation.backends.serial import one_thread
from duotone.federation.method import Method
from duotone.federation.optimizers import Adam
from duotone.measures.agreement import Scale
from duotone.networks.classifiers import mlp_bn
from duotone.networks.thesis import thesis_cnn_bn
from duotone.partition.partition import Population, Rows, network_inputs
from duotone.types import DataInfo, Params

_LR = 3e-3


@dataclass(frozen=True, slots=True)
class Trait:
    """Something about a sample that the judges can tell.

    Attributes:
        name: "label", "style", or the name of a continuous factor.
        scale: Classes have one output each, an angle has cosine and sine, a number has one.
        outputs: How many outputs of the network tell it.
        mean: Of a number, over the training samples.
        std: Likewise; the network is taught standardised numbers.
    """

    name: str
    scale: Scale
    outputs: int
    mean: float = 0.0
    std: float = 1.0


@dataclass(frozen=True, slots=True)
class Lesson:
    """What one judging network is taught: a piece of work that any process can do.

    Attributes:
        shape: Of a sample, as a network sees it.
        traits: What it is to tell.
        samples: Those that are shown, as the data set has them.
        targets: By trait, what is to be said of each of them.
        batches: For each step the samples shown ``(steps, batch)``.
        seed: Of its first weights, and of colours.
        in_other_colours: Whether half of the images are shown in other colours.
    """

    shape: tuple[int, ...]
    traits: Sequence[Trait]
    samples: Array
    targets: Mapping[str, Tensor]
    batches: NDArray[np.int64]
    seed: int
    in_other_colours: bool

    @property
    def outputs(self) -> int:
        """How many numbers the network gives."""
        return sum(trait.outputs for trait in self.traits)

    def __call__(self, method: Method, population: Population) -> Params:
        """Return what the network has learnt, as a piece of work."""
        return self.learnt()

    def learnt(self) -> Params:
        """Teach the network; return what it has learnt."""
        return learnt_by(taught(self.shape, self.outputs, self.seed, self.batches, self._loss))

    def _loss(self, network: nn.Module, batch: Rows) -> Tensor:
        x = network_inputs(self.samples[batch])
        if self.in_other_colours:
            x = half_changed(x, *random_levels(*x.shape[:2]))
        output, total = network(x), torch.zeros(())
        for trait, columns in columns_of(self.traits):
            total = total + _trait_loss(trait, output[:, columns], self.targets[trait.name][batch])
        return total

    def network(self, learnt: Params) -> nn.Module:
        """Return the network with what it has learnt."""
        return with_learnt(self.shape, self.outputs, learnt)


def columns_of(traits: Sequence[Trait]) -> Iterator[tuple[Trait, slice]]:
    """Yield each trait with the outputs that tell it."""
    begin = 0
    for trait in traits:
        yield trait, slice(begin, begin + trait.outputs)
        begin += trait.outputs


def _trait_loss(trait: Trait, output: Tensor, target: Tensor) -> Tensor:
    if trait.scale == "categorical":
        return functional.cross_entropy(output, target)
    known = target.isfinite().all(dim=1)
    errors = (output[known] - target[known]).square().sum(dim=1)
    return errors.sum() / len(target)


def taught(
    shape: tuple[int, ...],
    outputs: int,
    seed: int,
    batches: NDArray[np.int64],
    loss: Callable[[nn.Module, Rows], Tensor],
) -> nn.Module:
    """Train a small network that reads samples, by Adam with a falling learning rate.

    Args:
        shape: Of a sample.
        outputs: How many numbers it gives.
        seed: Of its first weights, and of what the loss draws.
        batches: For each step the samples shown.
        loss: Of the network on a batch.
    """
    with torch.random.fork_rng(devices=[]), one_thread():
        torch.manual_seed(seed)
        network = judging_network(shape, outputs)
        parameters = list(network.parameters())
        optimizer = Adam([(parameters, _LR)])
        for step, batch in enumerate(batches):
            found = loss(network, batch)
            optimizer.zero_grad()
            found.backward()  # type: ignore[no-untyped-call]
            with torch.no_grad():
                optimizer.move(parameters, _LR * (1 - step / len(batches)))
    return network.eval()


def learnt_by(network: nn.Module) -> Params:
    """Return what a network has learnt, to be sent to another process."""
    return {name: tensor.detach() for name, tensor in network.state_dict().items()}


def with_learnt(shape: tuple[int, ...], outputs: int, learnt: Params) -> nn.Module:
    """Return a network that was taught, in evaluation mode and in the layout it was taught in."""
    with torch.random.fork_rng(devices=[]):  # first weights are drawn, and nobody needs them
        network = judging_network(shape, outputs)
    network.load_state_dict(dict(learnt))
    return network.eval()


def judging_network(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Build a small network that reads samples of some shape."""
    form = DataInfo(shape, "classes", outputs)
    network = (thesis_cnn_bn if form.is_image and min(shape[1:]) >= 4 else mlp_bn)(form)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network
