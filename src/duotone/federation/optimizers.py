"""The steps of local training: SGD and Adam, bit for bit those of ``torch.optim``.

The first optimiser that ``torch.optim`` makes loads torch's compiler, which costs every process a
second. Clients train from a fresh optimiser in every round and nothing of it is kept, so what they
need of one is short.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

Group: TypeAlias = tuple[Iterable[Tensor], float]
"""Parameters, and their learning rate."""

_VECTOR = 16
"""Numbers that the widest vector instructions take at once."""


class Optimizer(ABC):
    """Moves parameters along their gradients.

    Args:
        groups: What may change, and how fast.
        weight_decay: Added to a gradient: this share of the parameter.
    """

    stacks = False
    """Whether parameters are stacks, whose entries have nothing to do with one another."""

    def __init__(self, groups: Iterable[Group], weight_decay: float) -> None:
        self.groups = [(list(parameters), lr) for parameters, lr in groups]
        self.weight_decay = weight_decay

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for parameters, _ in self.groups:
            for parameter in parameters:
                parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Move every parameter that has a gradient."""
        for parameters, lr in self.groups:
            moving = [p for p in parameters if p.grad is not None]
            if moving:
                self.move(moving, lr)

    def keep_first(self, count: int) -> None:
        """Go on with the first entries of parameters that are stacks; the others stay."""
        for parameters, _ in self.groups:
            for parameter in parameters:
                parameter.grad = None
                parameter.data = parameter.data[:count]

    @abstractmethod
    def move(self, parameters: Sequence[Tensor], lr: float) -> None:
        """Move parameters that have a gradient; there is at least one."""


class SGD(Optimizer):
    """Gradient descent with momentum.

    Args:
        groups: What may change, and how fast.
        momentum: How much of the last step is in the next.
        weight_decay: Added to a gradient: this share of the parameter.
    """

    def __init__(
        self, groups: Iterable[Group], momentum: float = 0.0, weight_decay: float = 0.0
    ) -> None:
        super().__init__(groups, weight_decay)
        self.momentum = momentum
        self._last: dict[Tensor, Tensor] = {}

    def keep_first(self, count: int) -> None:
        """Go on with the first entries of parameters that are stacks."""
        super().keep_first(count)
        self._last = {parameter: last[:count] for parameter, last in self._last.items()}

    def move(self, parameters: Sequence[Tensor], lr: float) -> None:
        """Move parameters that have a gradient."""
        for parameter in parameters:
            gradient = parameter.grad
            assert gradient is not None
            if self.weight_decay:
                gradient = gradient.add(parameter, alpha=self.weight_decay)
            if self.momentum:
                last = self._last.get(parameter)
                if last is None:
                    gradient = self._last[parameter] = gradient.clone()
                else:
                    gradient = last.mul_(self.momentum).add_(gradient)
            parameter.add_(gradient, alpha=-lr)


class Adam(Optimizer):
    """Adam, in one fused pass over each parameter: a fifth of a dual VAE's time saved.

    Args:
        groups: What may change, and how fast.
        betas: How slowly the means of gradients and of their squares forget.
        weight_decay: Added to a gradient: this share of the parameter.
    """

    def __init__(
        self,
        groups: Iterable[Group],
        betas: tuple[float, float] = (0.9, 0.999),
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(groups, weight_decay)
        self.betas = betas
        self._means: dict[Tensor, tuple[Tensor, Tensor, Tensor]] = {}

    def keep_first(self, count: int) -> None:
        """Go on with the first entries of parameters that are stacks."""
        super().keep_first(count)
        self._means = {
            parameter: (first[:count], second[:count], steps)
            for parameter, (first, second, steps) in self._means.items()
        }

    def _pieces(self, tensors: Iterable[Tensor]) -> list[Tensor]:
        """Return what the fused pass is given of tensors: each at once, if that is the same.

        The pass rounds the few numbers left over by vector instructions in another way, so each
        entry of a stack that leaves some over is given by itself.
        """
        return [
            piece
            for tensor in tensors
            for piece in (
                tensor.unbind() if self.stacks and tensor[0].numel() % _VECTOR else (tensor,)
            )
        ]

    def move(self, parameters: Sequence[Tensor], lr: float) -> None:
        """Move parameters that have a gradient."""
        gradients = [parameter.grad for parameter in parameters]
        for parameter in parameters:
            if parameter not in self._means:
                steps = torch.zeros((), device=parameter.device)
                first, second = torch.zeros_like(parameter), torch.zeros_like(parameter)
                self._means[parameter] = (first, second, steps)
        means = [self._means[parameter] for parameter in parameters]
        for _, _, steps in means:
            steps += 1
        torch._fused_adam_(
            self._pieces(parameters),
            self._pieces([gradient for gradient in gradients if gradient is not None]),
            self._pieces([first for first, _, _ in means]),
            self._pieces([second for _, second, _ in means]),
            [],
            [
                steps
                for parameter, (_, _, steps) in zip(parameters, means, strict=True)
                for _ in self._pieces([parameter])
            ],
            amsgrad=False,
            lr=lr,
            beta1=self.betas[0],
            beta2=self.betas[1],
            weight_decay=self.weight_decay,
            eps=1e-8,
            maximize=False,
        )
