"""FedAvg: one model for all clients.

McMahan, Moore, Ramage, Hampson, Agüera y Arcas: *Communication-Efficient Learning of Deep Networks
from Decentralized Data*, AISTATS 2017, Algorithm 1.

**Shared:** every parameter and every buffer; BatchNorm's running statistics are averaged like
weights. **Local:** nothing. **Explains:** nothing about a client: all clients use the same model,
which makes it the yardstick for every method that personalises.

==========  =====================================
paper       code
==========  =====================================
w_t         ``ServerState.shared``
C·K         ``sampled``
E, B, η     ``epochs``, ``batch_size``, ``lr``
n_k         ``ClientUpdate.weight``
==========  =====================================

*Members and newcomers* use the shared model as it is (zero-shot).

*Deviations.* The average runs over the sampled clients and is normalised by their samples, as in
later practice; the paper's listing divides by all samples. The learning rate decays by rounds
(``lr_decay=1`` turns that off).

It is the base contract with every default answer, so there is no code below.
"""

from __future__ import annotations

from duotone.federation.method import Method


class FedAvg(Method):
    """Average what the clients trained."""

    name = "fedavg"
    title = "one shared model for everybody"
    paper = (
        "McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized "
        "Data, AISTATS 2017"
    )
