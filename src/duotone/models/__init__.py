"""Networks. Nothing in here knows that it will be trained by many clients.

A model is anything that, called with a :class:`~duotone.types.DataInfo`, gives an ``nn.Module``
whose ``forward`` maps a batch to one score per class (or one number per regression target). Pixels
arrive in [0, 1].
"""

from __future__ import annotations

from duotone.registry import Registry

MODELS = Registry(
    "model",
    {
        "cnn": "duotone.models.classifiers:cnn",
        "cnn-bn": "duotone.models.classifiers:cnn_bn",
        "mlp": "duotone.models.classifiers:mlp",
    },
)
