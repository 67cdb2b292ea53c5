"""What settings are called elsewhere, for those who come from there."""

from __future__ import annotations

from collections.abc import Collection

SYNONYMS = {
    "lr": ("learning_rate", "local_lr", "eta"),
    "epochs": ("local_epochs", "local_epoch", "num_epochs", "n_epochs"),
    "batch_size": ("batchsize", "batch", "local_batch_size", "bs"),
    "weight_decay": ("wd", "l2"),
    "optimizer": ("optimiser", "local_optimizer"),
    "rounds": ("global_rounds", "num_rounds", "n_rounds", "global_epoch", "communication_rounds"),
    "sampled": ("join_ratio", "fraction_fit", "client_fraction", "clients_per_round"),
    "partition.clients": ("clients", "num_clients", "n_clients"),
    "partition.alpha": ("alpha", "dirichlet_alpha", "dir_alpha"),
    "partition.scheme": ("scheme", "partitioner"),
    "data": ("dataset",),
    "model": ("network", "net", "architecture"),
    "seed": ("random_state", "random_seed"),
    "style": ("styles", "transform"),
    "system.dropout": ("client_drop_rate", "dropout_rate", "drop_rate", "straggler_rate"),
    "system.speeds": ("train_slow_rate", "send_slow_rate", "stragglers", "slow_rate"),
}
"""By our name, those of PFLlib, FL-bench, Flower, scikit-learn and papers."""


def synonym(name: str, known: Collection[str]) -> str | None:
    """Return what we call a setting that has another name elsewhere; ``None`` if nobody does.

    >>> synonym("learning_rate", ["lr"]), synonym("alpha", []), synonym("learning_rate", [])
    ('lr', 'partition.alpha', None)

    Args:
        name: What was asked for.
        known: The settings there are; those in a table of the run always count as known.
    """
    for own, others in SYNONYMS.items():
        if name.lower() in others and (own in known or "." in own):
            return own
    return None
