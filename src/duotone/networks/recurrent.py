"""A small recurrent network for text."""

from __future__ import annotations

from torch import Tensor, nn

from duotone.errors import ConfigError
from duotone.types import DataInfo

WIDTH, UNITS = 16, 128


class CharGRU(nn.Module):
    """Characters as vectors, a GRU that reads them one by one, a linear ``head`` on its last state.

    Args:
        data: The form of the samples; text.
    """

    def __init__(self, data: DataInfo) -> None:
        super().__init__()
        if not data.is_text:
            raise ConfigError(
                f"The model 'char-gru' reads text; these samples have shape {data.shape}. For "
                "samples of any shape: --set model=mlp"
            )
        self.characters = nn.Embedding(len(data.alphabet) + 1, WIDTH)
        self.gru = nn.GRU(WIDTH, UNITS, batch_first=True)
        self.head = nn.Linear(UNITS, data.outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Return one score per class."""
        _, last = self.gru(self.characters(x))
        scores: Tensor = self.head(last[0])
        return scores
