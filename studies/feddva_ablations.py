"""FedDVA with some of its repairs taken back, for one table; see feddva-ablation.toml."""

from __future__ import annotations

from torch import Tensor, nn

from duotone.methods.feddva import FedDVA, constrained, kl_to_batch_bound
from duotone.models.dual_vae import DualVAE
from duotone.models.gaussian import Gaussian, kl_to_standard
from duotone.types import DataInfo, RoundInfo


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
