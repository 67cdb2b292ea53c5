"""How a newcomer trains a local part of its own."""

from __future__ import annotations

from duotone.federation.local_training import train, turns_so_far
from duotone.federation.method import Method
from duotone.types import ClientData, ClientState, RoundInfo, ServerState


def catch_up(
    method: Method, server: ServerState, state: ClientState, data: ClientData, info: RoundInfo
) -> ClientState:
    """Train a newcomer's local part beside the fixed shared one, as long as a member's."""
    model = method.load(method.personal(server, state), info.data)
    own = method.parameters_of(model, "local")
    for drawn in turns_so_far(info):
        train(model, data, method.config, drawn, parameters=own, phase="newcomer")
    return ClientState(method.split(model)[1])
