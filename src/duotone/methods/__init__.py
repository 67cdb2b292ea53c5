"""The methods, one readable file each. A new one is one line here, its file, its test, its page."""

from __future__ import annotations

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
