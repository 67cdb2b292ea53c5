"""What the papers print: the settings that ``variant=paper`` starts from.

A method as published is its equations and its training. ``variant=paper`` gives both: settings that
its paper prints for a data set are the defaults there, under whatever the user sets. Where a paper
is silent (the number of rounds of FedVC, the batches of PaDPaF) the method's own default stays, and
``docs/reproduction.md`` says "not printed". Ten members per round, which the thesis prints, are the
default of every run that has as many.

Settings are a run's tables, as in a configuration file. Only data is in here, and no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any, TypeAlias

from duotone.config import NAME_OF_TABLE, merged

Tables: TypeAlias = dict[str, Any]


def printed_settings(values: Mapping[str, Any]) -> Tables:
    """Return what the paper prints for a run of its method as published; else nothing.

    Args:
        values: A run's settings as they were given.

    >>> method = {"name": "fedcd", "variant": "paper"}
    >>> printed_settings({"data": "mnist", "method": method})["rounds"]
    200
    >>> printed_settings({"data": "mnist", "method": "fedcd"})
    {}
    """
    method = values.get("method")
    if not isinstance(method, Mapping) or method.get("variant") != "paper":
        return {}
    name = method.get(NAME_OF_TABLE["method"])
    found = _PRINTED.get(name) if isinstance(name, str) else None
    return found(_family(values.get("data")), method) if found else {}


def printed_training(values: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return rounds and epochs per round that the paper prints; ``None`` where it is silent."""
    found = printed_settings(values)
    epochs = found.get("method", {}).get("epochs")
    return (found["rounds"], epochs) if "rounds" in found and epochs else None


def _family(data: object) -> str:
    """Return the data set of the papers that some data is: its name, or that of a file."""
    name = PurePath(str(data)).stem.lower()
    return {
        "digits": "mnist",
        "digits4": "digits5",
        "celeba64": "celeba",
        "celeba64-attributes": "celeba",
    }.get(name, name)


def _feddva(data: str, method: Mapping[str, Any]) -> Tables:
    """Appendix H of the paper, for all data sets; codes have more dimensions to classify."""
    dimensions = 8 if method.get("classify") == "tune" else 4
    return {
        "rounds": 200,
        "method": {
            "epochs": 5,
            "batch_size": 256,
            "lr": 0.001,
            "lr_end": 1.0,
            "shared_dim": dimensions,
            "local_dim": dimensions,
            "alpha": 1.0,
            "beta": 0.75,
            "xi": 8.0 * method.get("local_dim", dimensions),
        },
    }


def _fedcd(data: str, method: Mapping[str, Any]) -> Tables:
    """Section 5.3.2 and Table 5.1 of the thesis."""
    always = {
        "method": {
            "lr": 0.005,
            "lr_decay": 0.8,
            "lr_decay_every": 50,
            "align_every": 5,
            "rate": 0.001,
        },
    }
    table_5_1 = {"mnist": (200, 5, 10), "cifar10": (400, 30, 32), "digits5": (400, 10, 10)}
    if data not in table_5_1:
        return always
    rounds, epochs, batch = table_5_1[data]
    return merged(always, {"rounds": rounds, "method": {"epochs": epochs, "batch_size": batch}})


def _fedvc(data: str, method: Mapping[str, Any]) -> Tables:
    """Section 6.3.2 of the thesis; the number of rounds is not printed."""
    return {
        "method": {
            "lr": 0.005,
            "lr_decay": 0.8,
            "lr_decay_every": 10,
            "epochs": 2,
            "batch_size": 10,
            "concepts": 10,
            "dimensions": 10,
            "iota": 0.1,
            "kappa": 0.05,
        },
    }


def _gan(data: str, method: Mapping[str, Any]) -> Tables:
    """Appendices A to C of PaDPaF. Rounds of half an epoch are taken two at a time.

    So 300 rounds of half an epoch are 150 of one, and a decay of 0.99 in each is one of 0.98. How
    long CIFAR-10 was trained is not printed.
    """
    rates = {"lr": 0.001, "server_lr": 0.01}
    rounds, epochs, turns, latent = 150, 1, 3, 128
    if data == "cifar10":
        rates = {"lr": 0.0003, "server_lr": 0.003}
    if data == "celeba":
        rounds, epochs, turns, latent = 200, 2, 5, 256
    training = {} if data == "cifar10" else {"epochs": epochs}
    return {
        **({} if data == "cifar10" else {"rounds": rounds}),
        "method": {
            **rates,
            **training,
            "turns": turns,
            "lr_decay": 0.98,
            "lr_decay_every": 1,
            "lr_end": 1.0,
            "server_optimizer": "adam",
            "content_dim": latent,
            "style_dim": latent,
            "blocks": "residual",
            "width": latent // 2,
        },
    }


def _ditto_gan(data: str, method: Mapping[str, Any]) -> Tables:
    """The same, with the 120 rounds of Fig. 7 and a prox parameter of 1."""
    return merged(_gan(data, method), {"rounds": 60, "method": {"prox": 1.0}})


def _padpaf_vae(data: str, method: Mapping[str, Any]) -> Tables:
    """The same, with the 100 rounds of Fig. 8; β and λ are not printed. Its network is plain."""
    found = merged(_gan(data, method), {"rounds": 50})
    for name in ("turns", "blocks", "width"):
        del found["method"][name]
    return found


def _content_style(data: str, method: Mapping[str, Any]) -> Tables:
    """Section 4.1 of content–style FL: Adam at 0.001, at most 300 epochs."""
    return {"rounds": 300, "method": {"epochs": 1, "lr": 0.001, "lr_decay": 1.0}}


_PRINTED: dict[str, Callable[[str, Mapping[str, Any]], Tables]] = {
    "feddva": _feddva,
    "fedcd": _fedcd,
    "fedvc": _fedvc,
    "padpaf": _gan,
    "padpaf-vae": _padpaf_vae,
    "ditto-gan": _ditto_gan,
    "content-style": _content_style,
}
