"""Networks. Nothing in here knows that it will be trained by many clients.

A model is anything that, called with a :class:`~duotone.types.DataInfo`, gives an ``nn.Module``
whose ``forward`` maps a batch to one score per class (or one number per regression target). Pixels
arrive in [0, 1], characters as numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duotone.registry import Registry

if TYPE_CHECKING:
    from duotone.types import DataInfo

MODELS = Registry(
    "model",
    {
        "cnn": "duotone.networks.classifiers:cnn",
        "cnn-bn": "duotone.networks.classifiers:cnn_bn",
        "thesis-cnn": "duotone.networks.thesis:thesis_cnn",
        "thesis-cnn-bn": "duotone.networks.thesis:thesis_cnn_bn",
        "digits-cnn": "duotone.networks.digits:DigitsCNN",
        "resnet8-gn": "duotone.networks.resnet:ResNet8",
        "content-cnn": "duotone.methods.content_style.content_networks:content_cnn",
        "content-cnn-in": "duotone.methods.content_style.content_networks:content_cnn_in",
        "content-cnn-bn": "duotone.methods.content_style.content_networks:content_cnn_bn",
        "linear": "duotone.networks.classifiers:Linear",
        "mlp": "duotone.networks.classifiers:mlp",
        "mlp-bn": "duotone.networks.classifiers:mlp_bn",
        "char-gru": "duotone.networks.recurrent:CharGRU",
    },
)

_SUMMARIES = {
    "cnn": "two 3×3 convolutions and a hidden layer of 128, for images",
    "cnn-bn": "cnn with BatchNorm after each layer but the last, for images",
    "thesis-cnn": "two narrow 3×3 convolutions and two hidden layers, for images; light",
    "thesis-cnn-bn": "thesis-cnn with BatchNorm after each layer but the last, for images",
    "digits-cnn": "the large CNN of FedBN's digit experiments, with BatchNorm, for images",
    "resnet8-gn": "a ResNet of 8 layers with GroupNorm, for images of about 32×32",
    "content-cnn": "the content encoder of content-style with its classifier, for images",
    "content-cnn-in": "content-cnn with InstanceNorm after each convolution, for images",
    "content-cnn-bn": "content-cnn with BatchNorm after each convolution, for images",
    "linear": "one linear layer, for tables and flattened images",
    "mlp": "two hidden layers of 64, for tables and flattened images",
    "mlp-bn": "mlp with BatchNorm after each hidden layer, for tables and flattened images",
    "char-gru": "a GRU of 128 units over characters, for text",
}


def default_model(data: DataInfo, for_tables: str) -> str:
    """Return the network of a run that names none.

    Args:
        data: The form of the samples.
        for_tables: What the method takes for rows of features.
    """
    if data.is_text:
        return "char-gru"
    return "cnn-bn" if data.is_image else for_tables


def describe_models() -> dict[str, str]:
    """Say in one line what each known model is, without importing any."""
    return {name: _SUMMARIES.get(name, "from a plug-in") for name in MODELS}
