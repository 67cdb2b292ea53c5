"""The methods, one readable file each. A new one: two lines here, its file, its test, its page."""

from __future__ import annotations

from typing import Any

from duotone.registry import Registry

METHODS = Registry(
    "method",
    {
        "local": "duotone.methods.baselines.local:Local",
        "fedavg": "duotone.methods.baselines.fedavg:FedAvg",
        "fedavg-ft": "duotone.methods.baselines.fedavg_ft:FedAvgFT",
        "fedprox": "duotone.methods.baselines.fedprox:FedProx",
        "fedadam": "duotone.methods.baselines.fedadam:FedAdam",
        "fedbn": "duotone.methods.baselines.fedbn:FedBN",
        "fedper": "duotone.methods.baselines.fedper:FedPer",
        "fedrep": "duotone.methods.baselines.fedrep:FedRep",
        "lg-fedavg": "duotone.methods.baselines.lg_fedavg:LGFedAvg",
        "private-bias": "duotone.methods.baselines.private_bias:PrivateBias",
        "percnn": "duotone.methods.baselines.percnn:PerCNN",
        "fedcd": "duotone.methods.concepts.fedcd:FedCD",
        "fedvc": "duotone.methods.concepts.fedvc:FedVC",
        "feddual": "duotone.methods.baselines.feddual:FedDual",
        "ditto": "duotone.methods.baselines.ditto:Ditto",
        "ditto-prox": "duotone.methods.baselines.ditto:DittoProx",
        "ditto-gan": "duotone.methods.padpaf.ditto_gan:DittoGAN",
        "apfl": "duotone.methods.baselines.apfl:APFL",
        "per-fedavg": "duotone.methods.baselines.per_fedavg:PerFedAvg",
        "ifca": "duotone.methods.baselines.ifca:IFCA",
        "feddva": "duotone.methods.feddva.feddva:FedDVA",
        "padpaf": "duotone.methods.padpaf.padpaf:PaDPaF",
        "padpaf-vae": "duotone.methods.padpaf.padpaf_vae:PaDPaFVAE",
        "content-style": "duotone.methods.content_style.content_style:ContentStyleFL",
    },
    listing="duotone methods",
)

_SUMMARIES: dict[str, tuple[str, tuple[str, ...]]] = {
    "local": ("every client trains alone, nothing is shared", ("few-shot",)),
    "fedavg": ("one shared model for everybody", ("zero-shot",)),
    "fedavg-ft": ("one shared model, fine-tuned by each client", ("few-shot", "zero-shot")),
    "fedprox": ("one shared model; local training is pulled towards it", ("zero-shot",)),
    "fedadam": ("one shared model, moved by Adam on the server", ("zero-shot",)),
    "fedbn": ("one shared model with local BatchNorm", ("few-shot", "label-free")),
    "fedper": ("shared features, a local head, trained together", ("few-shot",)),
    "fedrep": ("shared features, a local head, trained in turn", ("few-shot",)),
    "lg-fedavg": ("local features under a shared head, trained together", ("few-shot",)),
    "private-bias": (
        "everything shared but the last bias: the trend is common, the level is not",
        ("few-shot",),
    ),
    "percnn": (
        "local convolutions under shared fully connected layers, trained in turn",
        ("few-shot",),
    ),
    "fedcd": (
        "one shared model whose hidden layer is split by what tells clients apart",
        ("zero-shot",),
    ),
    "fedvc": (
        "one shared model whose clients are explained as mixtures of concepts",
        ("label-free", "zero-shot"),
    ),
    "feddual": ("a shared and a local feature extractor under one shared head", ("few-shot",)),
    "ditto": (
        "a shared model, and an own one for each client that is pulled towards it",
        ("few-shot",),
    ),
    "ditto-prox": ("Ditto whose shared model is trained by FedProx", ("few-shot",)),
    "ditto-gan": (
        "a GAN for everybody, and an own one for each client that is pulled towards it",
        ("few-shot", "label-free"),
    ),
    "apfl": (
        "a shared and an own model, mixed by a share each client learns",
        ("few-shot", "zero-shot"),
    ),
    "per-fedavg": (
        "a shared start that each client adapts in a few steps",
        ("few-shot", "zero-shot"),
    ),
    "ifca": ("several shared models; each client takes the one that fits it best", ("few-shot",)),
    "feddva": (
        "a shared code of what is drawn and a local code of how, by two encoders",
        ("label-free", "zero-shot"),
    ),
    "padpaf": (
        "a GAN that draws everybody's content in each client's own style",
        ("label-free", "zero-shot"),
    ),
    "padpaf-vae": (
        "a VAE with a code of everybody's content and one of each client's own style",
        ("label-free", "zero-shot"),
    ),
    "content-style": (
        "a shared encoder of content for predictions beside a local encoder of style",
        ("label-free", "zero-shot"),
    ),
}
"""What a method does, and what newcomers start from: its ``title`` and ``newcomer_rules``."""


def describe_methods() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Say in one line what each known method does, and its newcomer rules; imports no built-in."""
    return {
        name: _SUMMARIES[name] if name in _SUMMARIES else _asked(METHODS.load(name))
        for name in METHODS
    }


def _asked(method: Any) -> tuple[str, tuple[str, ...]]:
    return method.title, method.newcomer_rules
