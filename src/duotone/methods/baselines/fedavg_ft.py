"""FedAvg + fine-tuning: one model for all clients, then a few local epochs.

Wang, Mathews, Kiddon, Eichner, Beaufays, Ramage: *Federated Evaluation of On-device
Personalization*, 2019. The oldest way to personalise, and a hard one to beat: train with FedAvg,
then let every client continue on its own samples.

**Shared:** every parameter and buffer during training. **Local:** the fine-tuned copy, which never
leaves the client and never comes back into training. **Explains:** the difference between the two
copies is what is personal, but nothing says what it means.

*Members* fine-tune on their own labelled training samples whenever they are evaluated. *Newcomers*
do the same (few-shot); without labels they use the shared model as it is.

BatchNorm's affine parameters and running statistics are fine-tuned with the rest. At the learning
rate of training, a few steps on a client's few samples can throw a BatchNorm network far off
(measured: single clients fell from 88 to 40 %), so fine-tuning has a smaller one of its own.
"""

from __future__ import annotations

from pydantic import Field

from duotone.federation.local_training import train
from duotone.federation.method import Method
from duotone.federation.params import whole
from duotone.federation.settings import MethodSettings
from duotone.types import ClientData, ClientState, RoundInfo, ServerState


class FedAvgFTConfig(MethodSettings):
    """Settings of FedAvg + fine-tuning."""

    finetune_epochs: int = Field(2, ge=0)
    """Passes over the client's own samples after training; 0 turns it into FedAvg."""
    finetune_lr: float = Field(0.01, gt=0)
    """Learning rate of fine-tuning; a tenth of the training one, for a client has few samples."""


class FedAvgFT(Method):
    """Average what the clients trained, then fine-tune locally."""

    name = "fedavg-ft"
    title = "one shared model, fine-tuned by each client"
    paper = "Wang et al., Federated Evaluation of On-device Personalization, 2019"
    Config = FedAvgFTConfig
    config: FedAvgFTConfig
    features_part = "local"
    newcomer_rules = ("few-shot", "zero-shot")

    def before_use(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> ClientState:
        """Fine-tune the shared model; without labels, keep it as it is."""
        if data.y is None or self.config.finetune_epochs == 0:
            return client
        model = self.load(self.personal(server, client), info.data)
        gentle = self.config.model_copy(
            update={
                "lr": self.config.finetune_lr,
                "lr_decay": 1.0,
                "epochs": self.config.finetune_epochs,
            }
        )
        train(model, data, gentle, info, phase="fine-tune")
        return ClientState(whole(model))
