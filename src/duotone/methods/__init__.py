"""The methods, one readable file each. A new one is one line here, its file, its test, its page."""

from __future__ import annotations

from duotone.registry import Registry

METHODS = Registry(
    "method",
    {
        "local": "duotone.methods.local:Local",
        "fedavg": "duotone.methods.fedavg:FedAvg",
        "fedavg-ft": "duotone.methods.fedavg_ft:FedAvgFT",
        "fedprox": "duotone.methods.fedprox:FedProx",
        "fedadam": "duotone.methods.fedadam:FedAdam",
        "fedbn": "duotone.methods.fedbn:FedBN",
        "fedper": "duotone.methods.fedper:FedPer",
        "fedrep": "duotone.methods.fedrep:FedRep",
        "lg-fedavg": "duotone.methods.lg_fedavg:LGFedAvg",
        "private-bias": "duotone.methods.private_bias:PrivateBias",
        "percnn": "duotone.methods.percnn:PerCNN",
        "fedcd": "duotone.methods.fedcd:FedCD",
        "fedvc": "duotone.methods.fedvc:FedVC",
        "feddual": "duotone.methods.feddual:FedDual",
        "ditto": "duotone.methods.ditto:Ditto",
        "ditto-prox": "duotone.methods.ditto_prox:DittoProx",
        "ditto-gan": "duotone.methods.ditto_gan:DittoGAN",
        "apfl": "duotone.methods.apfl:APFL",
        "per-fedavg": "duotone.methods.per_fedavg:PerFedAvg",
        "ifca": "duotone.methods.ifca:IFCA",
        "feddva": "duotone.methods.feddva:FedDVA",
        "padpaf": "duotone.methods.padpaf:PaDPaF",
        "padpaf-vae": "duotone.methods.padpaf_vae:PaDPaFVAE",
        "content-style": "duotone.methods.content_style:ContentStyleFL",
    },
    listing="duotone methods",
)
