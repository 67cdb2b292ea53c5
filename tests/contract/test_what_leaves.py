"""The boundary, for every method: nothing local leaves a client, neither trained nor collected.

What is local is written down here once more, from the methods' papers and pages, and compared with
the names of what was sent. What a client holds (its samples, its states before and after, its local
parameters as it trained them) is looked for in the numbers of what was sent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import pytest
import torch
from federations import make_population

from duotone.federation.engine import federate
from duotone.methods import METHODS
from duotone.methods.baselines.fedrep import FedRep
from duotone.networks.classifiers import cnn_bn
from duotone.networks.reading import as_network
from duotone.types import ClientUpdate, RoundInfo

# -- what is whose, by the papers

VECTORS = r"\._[uv]$"  # of spectral normalisation: they belong to one client's weights
STYLE = r"^(vectorizer|generator\.lens|style)\."
NOTHING = r"(?!)"
LOCAL = {
    "apfl": NOTHING,  # a whole second model is, see KEPT
    "content-style": r"^(style|mapping|decoder\.pixels)\.",
    "ditto": NOTHING,
    "ditto-gan": VECTORS,
    "ditto-prox": NOTHING,
    "fedadam": NOTHING,
    "fedavg": NOTHING,
    "fedavg-ft": NOTHING,
    "fedbn": r"^norm\d\.",
    "fedcd": NOTHING,
    "feddual": r"^local\.",
    "feddva": r"^(decoder\.mark\.|own_codes$)",
    "fedper": r"^head\.",
    "fedprox": NOTHING,
    "fedrep": r"^head\.",
    "fedvc": r"^head\.weights$",
    "ifca": NOTHING,
    "lg-fedavg": r"^(?!head\.)",
    "local": r"",
    "padpaf": f"{STYLE}|{VECTORS}",
    "padpaf-vae": STYLE,
    "per-fedavg": NOTHING,
    "percnn": r"^(conv\d|norm[12])\.",
    "private-bias": r"^head\.(bias|centre)$",
}
"""Which tensors of its model a client keeps, by their names."""

KEPT = {
    "apfl": r"^(own|mixed)/|^alpha$",
    "ditto": r"^own/",
    "ditto-gan": r"^own/|^started$",
    "ditto-prox": r"^own/",
    "feddva": r"^round$",
    "ifca": r"^group$",
    "padpaf": r"^started$",
    "padpaf-vae": r"^started$",
}
"""What a client remembers besides."""

SENT = {"ifca": {"group"}, "fedvc, as printed": {"mass", "places"}}
"""What an update carries besides the shared part."""

SUMS = {"mass", "places", "squares", "entropy"}
TOLD = {
    "fedcd": {"mean", "covariance"},
    "fedvc": {"mean", "covariance", "weight", "bias", *SUMS},
    "fedvc, as printed": SUMS,
    "fedvc, unified": SUMS,
}
"""What members tell when they are asked for statistics."""

VARIANTS = {
    "content-style, as printed": ("content-style", {"variant": "paper"}, r"^style\."),
    "fedcd, bottleneck": ("fedcd", {"complement": "bottleneck"}, NOTHING),
    "feddva, as printed": ("feddva", {"variant": "paper"}, r"^(decoder\.|own_codes$)"),
    "feddva, own heads": ("feddva", {"heads": "local"}, r"^(decoder\.mark\.|own_codes$|head\.)"),
    "fedvc, as printed": ("fedvc", {"variant": "paper"}, LOCAL["fedvc"]),
    "fedvc, unified": ("fedvc", {"variant": "paper", "learning": "unified"}, LOCAL["fedvc"]),
    "padpaf, all shared": ("padpaf", {"share": "all"}, VECTORS),
    "padpaf, none shared": ("padpaf", {"share": "none"}, r""),
}
TOLD["fedcd, bottleneck"] = TOLD["fedcd"]
CASES = {**{name: (name, {}, LOCAL.get(name)) for name in sorted(METHODS)}, **VARIANTS}
# Clients of these tests are alike: concepts must be asked for, or there is nothing to tell of them.
CASES["fedvc"] = ("fedvc", {"concepts": 2, "dimensions": 1}, LOCAL["fedvc"])


FOLLOWS = {
    # Members tell sums over concepts, from which their weights follow; its page says so.
    "fedvc": r" head\.weights$",
    # The vector of a layer with one output is that layer's own weight, which is shared.
    "ditto-gan": r"\.score\..*\._v$",
    "padpaf": r"\.score\..*\._v$",
}
"""What is kept and yet follows from what is sent."""

CLOSE = 1e-5
"""Relative error within which two numbers are the same."""


# -- watching a run


@dataclass(frozen=True, slots=True)
class Message:
    """Something that left a client, and what the client held and the server knew by then."""

    update: ClientUpdate
    collected: bool
    held: dict[str, torch.Tensor]
    known: dict[str, torch.Tensor]
    remembered: frozenset[str]


def watched(method, local):
    """Note all that leaves clients of a method; return the list that the messages go into."""
    messages: list[Message] = []
    train, collect = method.client_update, getattr(method, "collect", None)

    def note(update, collected, server, data, info, *states):
        model = method.module(info.data).state_dict()
        held = {f"trained {n}": t.clone() for n, t in model.items() if re.search(local, n)}
        for number, state in enumerate(states):
            for part in (state.local, state.extra):
                held |= {f"state {number} {name}": tensor for name, tensor in part.items()}
        held |= {f"sample {number}": x for number, x in enumerate(data.x)}
        held["labels"] = data.labels
        remembered = frozenset(name for state in states for name in state.extra)
        known = {**server.shared, **server.extra}
        messages.append(Message(update, collected, held, known, remembered))

    def client_update(server, client, data, info):
        update, state = train(server, client, data, info)
        note(update, False, server, data, info, client, state)
        return update, state

    def collected(server, client, data, info):
        update = collect(server, client, data, info)
        note(update, True, server, data, info, client)
        return update

    method.client_update = client_update
    if collect is not None:
        method.collect = collected
    return messages


def watch(kind, settings, local):
    # Several batches per epoch: after one step a client's own model and the shared one are equal.
    settings = {"batch_size": 8, **settings}
    method = kind(kind.Config(**settings), as_network(cnn_bn))
    messages = watched(method, local)
    results = list(federate(method, make_population(), rounds=2, sampled=2))
    names = set(method.build(make_population().info).state_dict())
    return messages, results, names


def flat(tensors):
    """Return all numbers of some tensors in a row."""
    return torch.cat([torch.zeros(0), *(t.double().flatten().cpu() for t in tensors)]).double()


def secrets_in(numbers, held, known=None):
    """Return the names of held tensors that some numbers contain, as they are or scaled.

    However it was reshaped or packed between others, a copy shows as a run of numbers in the same
    proportions. What has few numbers or hardly varies, and what the server knew before, is no
    secret.
    """
    found = [
        name for name, tensor in held.items() if is_secret(tensor) and has_run(numbers, tensor)
    ]
    if known is None or not found:
        return found
    public = flat(known.values())
    return [name for name in found if not has_run(public, held[name])]


def is_secret(tensor):
    sizes = tensor.abs()
    varies = bool((sizes < 0.999 * sizes.max()).any())
    is_list = tensor.dtype == torch.int64 and tensor.numel() > 12  # labels
    return varies and (is_list or len(tensor.unique()) > 4)


def has_run(numbers, secret):
    """Say whether a secret's numbers follow each other somewhere, times whatever factor."""
    values = secret.double().flatten()
    count = len(values)
    if count > len(numbers):
        return False
    # Two ratios sort out nearly all places: of the largest number to two that differ from it.
    order = values.abs().argsort(descending=True)
    different = order[values.abs()[order] < 0.999 * values.abs().max()]
    first, second, third = order[0], different[0], different[len(different) // 2]
    windows = numbers.unfold(0, count, 1)
    base = windows[:, first]
    may = base.abs() > 1e-9
    for place in (second, third):
        off = windows[:, place] - base * (values[place] / values[first])
        may &= off.abs() <= CLOSE * base.abs()
    candidates = windows[may]
    largest = candidates[:, first : first + 1]
    off = candidates - largest * (values / values[first])
    return bool((off.abs() <= CLOSE * largest.abs()).all(dim=1).any())


def leaks(message):
    sent = flat([*message.update.shared.values(), *message.update.extra.values()])
    return secrets_in(sent, message.held, message.known)


# -- what holds for every method


@pytest.fixture(scope="module")
def run_of():
    """Watch each case once."""
    runs = {}

    def found(case):
        if case not in runs:
            name, settings, local = CASES[case]
            assert local is not None, f"say in LOCAL what stays with a client of {name}"
            runs[case] = watch(METHODS.load(name), settings, local)
        return runs[case]

    return found


@pytest.mark.parametrize("case", CASES)
def test_what_leaves_has_no_name_of_anything_local(case, run_of):
    messages, _, names = run_of(case)
    method, _, local = CASES[case]
    shared = {name for name in names if not re.search(local, name)}
    assert messages
    for message in messages:
        update = message.update
        assert set(update.shared) == (set() if message.collected else shared)
        declared = (TOLD if message.collected else SENT).get(case, set())
        assert set(update.extra) <= declared
        assert update.weight == 24, "the number of its training samples"
        for name in message.remembered:
            assert re.search(KEPT.get(method, NOTHING), name), f"say in KEPT that {name} stays"


@pytest.mark.parametrize("case", CASES)
def test_what_leaves_has_no_number_of_anything_a_client_holds(case, run_of):
    messages, _, _ = run_of(case)
    follows = FOLLOWS.get(CASES[case][0], NOTHING)
    for message in messages:
        found = [name for name in leaks(message) if not re.search(follows, name)]
        assert found == [], f"left client {message.update.client}"


@pytest.mark.parametrize("case", CASES)
def test_the_server_is_told_nothing_else(case, run_of):
    messages, results, _ = run_of(case)
    told = [u for result in results for u in (*result.updates, *result.collected)]
    sent = [message.update for message in messages]
    assert sorted(map(contents, told)) == sorted(map(contents, sent))


def contents(update):
    """Return what an update holds: screening hands on the tensors that it was given."""
    parts = {"shared": update.shared, "extra": update.extra}
    tensors = [(p, n, t.data_ptr()) for p, part in parts.items() for n, t in part.items()]
    return update.client, update.weight, sorted(tensors), sorted(update.metrics.items())


@pytest.mark.parametrize("case", ["fedcd", "fedvc"])
def test_statistics_are_looked_at_as_well(case, run_of):
    messages, _, _ = run_of(case)
    told = {name for message in messages if message.collected for name in message.update.extra}
    assert told == TOLD[case]


# -- methods that leak on purpose are caught


class Leaking(FedRep):
    """Sends what it should keep, with its update and when it is asked."""

    def client_update(self, server, client, data, info):
        update, state = super().client_update(server, client, data, info)
        return replace(update, extra=self.leaked(state, data)), state

    def collect(self, server, client, data, info):
        return ClientUpdate(data.client, {}, len(data), self.leaked(client, data))


WAYS = {
    "as it is": lambda state, data: {"more": state.local["head.weight"]},
    "scaled": lambda state, data: {"more": -3 * state.local["head.weight"]},
    "reshaped": lambda state, data: {"more": state.local["head.weight"].view(2, -1)},
    "between others": lambda state, data: {
        "more": torch.cat([torch.rand(50), state.local["head.weight"].flatten(), torch.rand(9)])
    },
    "samples": lambda state, data: {"more": data.x},
    "one sample": lambda state, data: {"more": data.x[5]},
    "labels": lambda state, data: {"more": data.labels},
}


@pytest.mark.parametrize("way", WAYS)
def test_a_leak_is_found(way):
    kind = type("Leak", (Leaking,), {"leaked": staticmethod(WAYS[way])})
    method = kind(kind.Config(), as_network(cnn_bn))
    messages = watched(method, LOCAL["fedrep"])
    data = make_population().data("c0")
    info = RoundInfo(1, 1, 0, data.info)
    server = method.start(info)
    first = method.first_state(server, info)
    _, state = method.client_update(server, first, data, info)
    method.collect(server, state, data, info)
    assert [bool(leaks(message)) for message in messages] == [True, True]


def test_what_the_server_knew_before_is_no_secret():
    first, second = torch.arange(6.0), torch.tensor([3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0])
    sent = flat([torch.ones(3), 2 * first, second])
    held = {"a": first, "b": second, "c": second.flip(0)}
    assert secrets_in(sent, held) == ["a", "b"]
    assert secrets_in(sent, held, {"first": first}) == ["b"]
