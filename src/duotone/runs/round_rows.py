"""What a round leaves in the tidy table, beside the scores of its evaluation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from duotone.federation.engine import RoundResult, size_in_bytes
from duotone.measures.measure import Row
from duotone.measures.metrics import DIRECTIONS
from duotone.measures.refusals import AGREEMENT, LENGTH, REFUSED
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
    facts += [
        (client, {LENGTH: standing.length, AGREEMENT: standing.agreement})
        for client, standing in result.standings.items()
    ]
    facts += [(client, {REFUSED: 1}) for client in result.refused]
    facts += [(client, {why: 1}) for client, why in result.absent.items()]
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


def counted(
    before: Mapping[str, Mapping[str, Any]], result: RoundResult
) -> dict[str, dict[str, Any]]:
    """Return how often each member was refused and why the last time, as a round commits it."""
    counts = {client: dict(known) for client, known in before.items()}
    for client, reason in result.refused.items():
        count = counts.get(client, {}).get("count", 0) + 1
        counts[client] = {"count": count, "round": result.info.round, "reason": reason}
    return counts


def counts_of(refused: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """Return how often each member was refused, from what a round committed."""
    return {client: int(known["count"]) for client, known in refused.items()}


def _is_own(metric: str) -> bool:
    """Say whether a client may call a number so: what evaluation measures is not its to say."""
    taken = [f"{start}{name}" for name in DIRECTIONS for start in ("", "val_")]
    return metric not in taken and not metric.startswith(tuple(f"{name}@" for name in taken))
