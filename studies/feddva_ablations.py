"""FedDVA with some of its repairs taken back, and its constraint watched.

See feddva-ablation.toml and feddva-constraint.toml.
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor, nn

from duotone.methods.feddva.dual_vae import DualVAE
from duotone.methods.feddva.feddva import FedDVA
from duotone.methods.feddva.terms import constrained, kl_to_batch, kl_to_batch_bound
from duotone.networks.gaussian import Gaussian, kl_to_standard
from duotone.types import ClientData, ClientState, ClientUpdate, DataInfo, RoundInfo, ServerState


class OnePieceDecoder(FedDVA):
    """The default with the paper's decoder, which may mix both codes."""

    name = "one-piece decoder"

    def build(self, data: DataInfo) -> DualVAE:
        """Build encoders, a decoder in one piece, and the head."""
        return DualVAE(data, self.config.shared_dim, self.config.local_dim, "one-piece")


class VAEPerClient(FedDVA):
    """A plain VAE for every client: nothing is shared, both codes have the usual prior."""

    name = "VAE per client"

    def build(self, data: DataInfo) -> DualVAE:
        """Build encoders, a decoder in one piece, and the head."""
        return DualVAE(data, self.config.shared_dim, self.config.local_dim, "one-piece")

    def is_shared(self, name: str, owner: nn.Module) -> bool:
        """Share nothing but the head, which takes no part in drawing."""
        return name.startswith("head.")

    def beta(self, info: RoundInfo) -> float:
        """Return the weight of a plain VAE."""
        return 1.0

    def _regulariser(self, q_c: Gaussian, c: Tensor) -> Tensor:
        return kl_to_standard(q_c).mean()


class LooseBound(FedDVA):
    """The default with the bound of Eq. (26) and the paper's threshold."""

    name = "bound of Eq. 26"

    def _regulariser(self, q_c: Gaussian, c: Tensor) -> Tensor:
        xi = 8.0 * self.config.local_dim if self.config.xi is None else self.config.xi
        return constrained(kl_to_batch_bound(q_c), kl_to_standard(q_c), xi).mean()


class Watched(FedDVA):
    """The default, bit for bit; it logs in which share of a round's steps the constraint binds."""

    name = "feddva, watched"

    def client_update(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> tuple[ClientUpdate, ClientState]:
        """Train as ever; report the steps in which ξ + KL to the client's mixture was larger."""
        self._binds: list[bool] = []
        update, state = super().client_update(server, client, data, info)
        share = sum(self._binds) / len(self._binds)
        return replace(update, metrics={**update.metrics, "binds": share}), state

    def _regulariser(self, q_c: Gaussian, c: Tensor) -> Tensor:
        to_client, to_all = kl_to_batch(q_c, c).mean(), kl_to_standard(q_c).mean()
        self._binds.append(bool(self.xi + to_client > to_all))
        return super()._regulariser(q_c, c)


class PerSample(FedDVA):
    """The default with the larger side taken for each sample, as Eq. (7) is printed."""

    name = "larger side per sample"

    def _regulariser(self, q_c: Gaussian, c: Tensor) -> Tensor:
        return constrained(kl_to_batch(q_c, c), kl_to_standard(q_c), self.xi).mean()
