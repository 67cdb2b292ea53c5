"""What a round leaves in the tidy table, beside the scores of its evaluation."""

from __future__ import annotations

from collections import Counter

from duotone.federation.engine import RoundResult, size_in_bytes
from duotone.measures.measure import Row
from duotone.measures.metrics import DIRECTIONS
from duotone.partition.partition import Partition


def training_rows(result: RoundResult, partition: Partition) -> list[Row]:
    """Return what training itself says, and the ledger: what left each client, and what came."""
    facts = [
        (
            update.client,
            {
                **{name: value for name, value in update.metrics.items() if _is_own(name)},
                "bytes_down": result.sent_bytes,
                "bytes_up": size_in_bytes(update.shared) + size_in_bytes(update.extra),
            },
        )
        for update in result.updates
    ]
    collected: Counter[str] = Counter()
    for update in result.collected:
        collected[update.client] += size_in_bytes(update.extra)
    facts += [(client, {"bytes_collected": size}) for client, size in collected.items()]
    return [
        Row(
            result.info.round,
            client,
            partition[client].group,
            partition[client].role,
            "shared",
            name,
            value,
        )
        for client, found in facts
        for name, value in sorted(found.items())
    ]


def _is_own(metric: str) -> bool:
    """Say whether a client may call a number so: what evaluation measures is not its to say."""
    return metric.removeprefix("val_").partition("@")[0] not in DIRECTIONS
