"""The methods, one readable file each. A new one is one line here, its file, its test, its page."""

from __future__ import annotations

from duotone.registry import Registry

METHODS = Registry(
    "method",
    {
        "local": "duotone.methods.local:Local",
        "fedavg": "duotone.methods.fedavg:FedAvg",
        "fedavg-ft": "duotone.methods.fedavg_ft:FedAvgFT",
    },
    listing="duotone methods",
)
