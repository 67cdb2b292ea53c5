"""FedAdam: one model for all clients, which the server moves by Adam.

Reddi, Charles, Zaheer, Garrett, Rush, Konečný, Kumar, McMahan: *Adaptive Federated Optimization*,
ICLR 2021, Algorithm 2.

**Shared:** every parameter and buffer. The mean change of a round is taken as a gradient and Adam
makes a step of it; BatchNorm's statistics are no parameters and simply take the mean. **Local:**
nothing. **Explains:** nothing about a client.

==========  =====================================
paper       code
==========  =====================================
x_t         ``ServerState.shared``
Δ_t         mean of the updates minus x_t
m_t, v_t    ``ServerState.extra["adam.m/…"]``, ``["adam.v/…"]``
η_l, η      ``lr``, ``server_lr``
β₁, β₂, τ   those of ``ServerAdam``: 0.9, 0.99, 0.001
==========  =====================================

*Members and newcomers* use the shared model as it is (zero-shot).

*Deviations.* The mean weighs clients by their samples, as everywhere here; the paper's Algorithm 2
takes the plain mean.

Every method has the server's optimiser as a setting; this one is FedAvg with Adam as its default,
so there is no more code below.
"""

from __future__ import annotations

from typing import Literal

from duotone.federation.method import Method
from duotone.federation.settings import MethodSettings


class FedAdamConfig(MethodSettings):
    """Settings of FedAdam: those of every method, with Adam on the server."""

    server_optimizer: Literal["average", "adam"] = "adam"
    """What the server does with the mean of the updates; "average" is FedAvg."""


class FedAdam(Method):
    """Average the changes, and step by Adam."""

    name = "fedadam"
    title = "one shared model, moved by Adam on the server"
    paper = "Reddi et al., Adaptive Federated Optimization, ICLR 2021"
    Config = FedAdamConfig
