"""Methods that leak on purpose: what form can catch is caught by the engine, the rest is named.

Each keeps its last layer, as FedPer does, and tries to send it or the samples anyway. Those that
pass are listed in docs/security.md: a method is code that runs at the client, and whoever installs
it trusts it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from federations import make_population

from duotone.errors import TrainingError
from duotone.federation.engine import RoundResult, federate
from duotone.methods.baselines.fedper import FedPer
from duotone.networks.classifiers import mlp
from duotone.types import ClientData, ClientState, ClientUpdate, Form, ServerState

Twist = Callable[[ClientUpdate, ClientState, ClientData], ClientUpdate]


def head(state: ClientState) -> torch.Tensor:
    return state.local["head.weight"]


class Leaky(FedPer):
    twist: Twist

    def client_update(self, server, client, data, info):
        update, state = super().client_update(server, client, data, info)
        return type(self).twist(update, state, data), state


def leaking(twist: Twist, **answers: object) -> Leaky:
    made = type("Made", (Leaky,), {"twist": staticmethod(twist), **answers})
    return made(made.Config(epochs=1), mlp)


def one_round(method: FedPer, **given) -> RoundResult:
    (result,) = federate(method, make_population(members=2), rounds=1, **given)
    return result


def extra(**tensors: torch.Tensor) -> Callable[[ClientUpdate], ClientUpdate]:
    return lambda update: replace(update, extra=tensors)


def hidden_in_low_bits(update: ClientUpdate, state: ClientState, _: ClientData) -> ClientUpdate:
    name, carrier = next(iter(update.shared.items()))
    bits = carrier.clone().view(torch.int32).flatten()
    secret = (head(state).flatten() > 0).int()
    bits[: len(secret)] = (bits[: len(secret)] & ~1) | secret
    hidden = bits.view(torch.float32).reshape(carrier.shape)
    return replace(update, shared={**update.shared, name: hidden})


def named_by_a_secret(update: ClientUpdate, state: ClientState, _: ClientData) -> ClientUpdate:
    named = {f"secret {float(head(state)[0, 0])}": torch.zeros(())}
    return replace(update, shared={**update.shared, **named})


CAUGHT: dict[str, Twist] = {
    "an exact copy": lambda u, s, d: extra(copy=head(s))(u),
    "scaled": lambda u, s, d: extra(scaled=3 * head(s))(u),
    "concatenated": lambda u, s, d: replace(
        u, shared={n: torch.cat([t.flatten(), head(s).flatten()]) for n, t in u.shared.items()}
    ),
    "reshaped": lambda u, s, d: extra(flat=head(s).flatten())(u),
    "raw images in extra": lambda u, s, d: extra(x=d.x)(u),
    "tensor names": named_by_a_secret,
    "a weight beyond the samples": lambda u, s, d: replace(u, weight=1e6 + float(head(s).mean())),
}
"""What the engine refuses."""

PASSES: dict[str, Twist] = {
    "low bits": hidden_in_low_bits,
    "a declared metric": lambda u, s, d: replace(u, metrics={"train_loss": float(head(s).mean())}),
    "a weight": lambda u, s, d: replace(u, weight=1 + abs(float(head(s).tanh().mean()))),
}
"""What no form can tell from honest work."""


@pytest.mark.parametrize("name", CAUGHT)
def test_what_form_can_catch_is_refused(name):
    with pytest.raises(TrainingError, match="was left out because"):
        one_round(leaking(CAUGHT[name]))


@pytest.mark.parametrize("name", PASSES)
def test_what_form_cannot_catch_passes_and_is_named_in_the_threat_model(name):
    assert one_round(leaking(PASSES[name])).refused == {}
    text = (Path(__file__).parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
    assert f"**{name}**" in text


def declared(update: ClientUpdate, state: ClientState, data: ClientData) -> ClientUpdate:
    return replace(update, extra={"x": data.x})


def test_declared_images_pass_the_form_and_are_caught_by_the_bound_on_bytes():
    form = {"x": Form((24, 1, 8, 8))}
    method = leaking(declared, extra_form=lambda self, server, info: form)
    result = one_round(method)
    assert result.refused == {}
    usual = sum(t.numel() * 4 for t in result.updates[0].shared.values())
    with pytest.raises(TrainingError, match="more than the allowed"):
        one_round(leaking(declared, extra_form=lambda self, server, info: form), max_bytes=usual)


def collecting(form: dict[str, Form]) -> Leaky:
    return leaking(
        lambda u, s, d: u,
        collects=lambda self, info: 1,
        collect=lambda self, server, client, data, info: ClientUpdate(
            data.client, {}, 1, {"x": data.x}
        ),
        collected_form=lambda self, server, info: form,
        pool=lambda self, server, collected, info: server,
    )


def test_images_among_the_statistics_are_refused_unless_they_are_declared():
    assert "of its statistics" in one_round(collecting({})).refused["c0"]
    honest = one_round(collecting({"x": Form((24, 1, 8, 8))}))
    assert honest.refused == {}
    usual = sum(t.numel() * 4 for t in honest.updates[0].shared.values())
    big = collecting({"x": Form((24, 1, 8, 8))})
    if usual < 24 * 64 * 4:
        assert "more than the allowed" in one_round(big, max_bytes=usual).refused["c0"]


def test_the_servers_state_cannot_be_written_in_place():
    class Writes(FedPer):
        def start(self, info):
            return ServerState(super().start(info).shared, {"board": torch.zeros(64)})

        def client_update(self, server, client, data, info):
            server.extra["board"].copy_(data.x[0].flatten())
            return super().client_update(server, client, data, info)

    result = one_round(Writes(Writes.Config(epochs=1), mlp))
    assert result.server.extra["board"].tolist() == [0] * 64


def test_metrics_that_are_not_declared_do_not_leave():
    def chatty(update: ClientUpdate, state: ClientState, _: ClientData) -> ClientUpdate:
        numbers = {f"m{i}": float(v) for i, v in enumerate(head(state).flatten())}
        return replace(update, metrics={**update.metrics, **numbers})

    result = one_round(leaking(chatty))
    assert {tuple(update.metrics) for update in result.updates} == {("train_loss",)}
    assert result.dropped["c0"].endswith("of its metrics are not declared")


def test_what_a_method_remembers_in_itself_does_not_reach_the_server():
    class Remembers(FedPer):
        def __init__(self, *given):
            super().__init__(*given)
            self.board = {"first": torch.zeros(64)}

        def client_update(self, server, client, data, info):
            self.seen = data.x
            self.board[data.client] = data.x
            self.board["first"].copy_(data.x[0].flatten())
            return super().client_update(server, client, data, info)

        def server_update(self, server, updates, info):
            found.append((hasattr(self, "seen"), set(self.board), float(self.board["first"].sum())))
            return super().server_update(server, updates, info)

    found: list[tuple[bool, set[str], float]] = []
    one_round(Remembers(Remembers.Config(epochs=1), mlp))
    assert found == [(False, {"first"}, 0.0)]
