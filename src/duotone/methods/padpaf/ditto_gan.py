"""Ditto for GANs: one GAN for all clients, and one for each client that stays near it.

Li, Hu, Beirami, Smith: *Ditto: Fair and Robust Federated Learning Through Personalization*, ICML
2021; as the baseline of Almansoori, Horváth, Takáč: *PaDPaF*, TMLR 2024, Table 1.

**Shared:** a whole GAN, as ``padpaf`` with ``share = "all"``. **Local:** a second whole GAN per
client, which draws for it. **Explains:** what a client draws differently from the shared GAN,
against the pull, its images made it; and its two discriminators give features of content and style.

============  =====================================
paper         code
============  =====================================
w_g           ``ServerState.shared``
w             ``ClientState.extra["own/…"]``
λ             ``prox``, ½‖w − w_g‖² in the losses of both players
FedProx's μ   ``global_prox``
============  =====================================

*Members* draw and classify with their own GAN. *Newcomers* start theirs from the shared one and
train it on all their images for one round's epochs under the same pull, with the learning rate of
the first round: with labels (few-shot), or without, which leaves the shared head (label-free).

*Equal steps.* In each round a client's images are parted at random into two halves; one trains the
shared GAN, the other the own one, for ``epochs`` passes each, as in the authors' code. A round thus
takes as many steps as one of ``padpaf``.

*The lens.* Both GANs are the networks of ``padpaf``. The shared lens starts plain. The own one is
fitted to the client's images at its first turn, as in ``padpaf`` with ``share = "none"``, and then
pulled like all other parameters (``lens = "plain"``: not fitted).

*Buffers.* Each GAN has its own vectors of spectral normalisation, and they never leave. The
statistics of content features are averaged for the shared GAN; the own one has its own.

*Deviations.* Those of ``padpaf`` in networks and optimisers. In the authors' code the own GAN is
overwritten by the shared one in every round; here it continues from where it was.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from pydantic import Field
from torch import nn

from duotone.federation.local_training import proximal_term
from duotone.federation.params import packed, unpacked, whole
from duotone.methods.padpaf.adversarial import GANMethod, GANSettings, Pull
from duotone.types import ClientData, ClientState, ClientUpdate, Params, RoundInfo, ServerState


class DittoGANConfig(GANSettings):
    """Settings of Ditto for GANs."""

    prox: float = Field(1.0, ge=0)
    """Strength λ of the pull on the own GAN (paper: 1); 0 trains it alone."""
    global_prox: float = Field(0.0, ge=0)
    """Strength μ of the pull on the shared GAN's training (paper: 1 for Ditto + FedProx)."""


class DittoGAN(GANMethod):
    """Average one GAN; let each client keep another one near it."""

    name = "ditto-gan"
    title = "a GAN for everybody, and an own one for each client that is pulled towards it"
    paper = (
        "Li et al., Ditto, ICML 2021; as a baseline of Almansoori et al., "
        "Partial Disentanglement with Partially-Federated GANs, TMLR 2024"
    )
    Config = DittoGANConfig
    config: DittoGANConfig
    rounds = 16
    newcomer_rules = ("few-shot", "label-free")

    def client_update(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> tuple[ClientUpdate, ClientState]:
        """Train the shared GAN on one half of the images, and the own one on the other."""
        first, second = halves(data, info.generator("client", data.client, "halves"))
        received = {**server.shared, **client.local}
        model = self.load(received, info.data)
        loss = self._play(
            model, first, info, pull=self._pull(model, received, self.config.global_prox)
        )
        update, state = self.trained(model, data, loss)
        own = self.load(self.personal(server, client), info.data)
        if "started" not in client.extra:
            self._fit_lens(own, second.x)
        self._play(own, second, info, pull=self._pull(own, received, self.config.prox))
        extra = {**packed(whole(own), "own"), "started": torch.tensor(info.round)}
        return update, ClientState(state.local, extra)

    def first_state(self, server: ServerState, info: RoundInfo) -> ClientState:
        """Start the own GAN from the shared one."""
        local = super().first_state(server, info).local
        return ClientState(local, packed({**server.shared, **local}, "own"))

    def join(self, server: ServerState, data: ClientData, info: RoundInfo) -> ClientState:
        """Train a newcomer's own GAN on its images."""
        local = self.first_state(server, info).local
        received = {**server.shared, **local}
        model = self.load(received, info.data)
        self._fit_lens(model, data.x)
        pull = self._pull(model, received, self.config.prox)
        self._play(model, data, replace(info, round=1), phase="newcomer", pull=pull)
        return ClientState(local, packed(whole(model), "own"))

    def personal(self, server: ServerState, client: ClientState) -> Params:
        """Return the client's own GAN; the shared one only pulls it."""
        return unpacked(client.extra, "own")

    def _pull(self, model: nn.Module, anchor: Params, strength: float) -> Pull | None:
        """Return a proximal term for both players, or none where its strength is 0."""
        if not strength:
            return None
        fixed = {name: tensor.to(self.device) for name, tensor in anchor.items()}
        return lambda: strength * proximal_term(model, fixed)


def halves(data: ClientData, generator: torch.Generator) -> tuple[ClientData, ClientData]:
    """Part a client's samples at random; a single one is in both halves."""
    order = torch.randperm(len(data), generator=generator)
    middle = math.ceil(len(data) / 2)
    rows = (order[:middle], order[middle:] if len(data) > 1 else order)
    first, second = (
        replace(data, x=data.x[some], y=None if data.y is None else data.y[some]) for some in rows
    )
    return first, second
