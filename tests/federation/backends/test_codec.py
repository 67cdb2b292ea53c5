from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from duotone.federation.backends.codec import Unsendable, packed, unpacked
from duotone.federation.jobs import TrainJob
from duotone.federation.personalise import Personalisation
from duotone.federation.serving import Serving
from duotone.federation.store import Shelf
from duotone.types import ClientState, ClientUpdate, DataInfo, FarState, RoundInfo, ServerState

INFO = RoundInfo(3, 9, 7, DataInfo((1, 4, 4), "classes", 10), 0.1 + 0.2, 2)


def again(value):
    return unpacked(*packed(value))


def test_a_job_comes_back_as_it_was_to_the_bit():
    server = ServerState({"w": torch.randn(3, 2)}, {"n": torch.tensor(5), "e": torch.empty(0, 4)})
    job = again(TrainJob(server, INFO))
    assert isinstance(job, TrainJob)
    assert job.info == INFO
    assert torch.equal(job.server.shared["w"], server.shared["w"])
    assert job.server.extra["n"].dtype == torch.int64
    assert job.server.extra["n"].shape == ()
    assert job.server.extra["e"].shape == (0, 4)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float64, torch.bool])
def test_every_number_type_travels(kind):
    tensor = torch.tensor([[1.5, 0.0, -2.25]]).to(kind)
    assert again(tensor).dtype == kind
    assert torch.equal(again(tensor), tensor)


def test_plain_values_keep_their_type_and_order():
    value = {"b": (1, 2.5, None), "a": [True, "ä", 1e-300], 3: np.float64(0.1)}
    assert again(value) == value
    assert list(again(value)) == ["b", "a", 3]
    assert isinstance(again((1,)), tuple)
    assert math.isnan(again(math.nan))
    assert np.array_equal(again(np.arange(3.0)), np.arange(3.0))


def test_what_a_client_changes_is_its_own_copy():
    server = ServerState({"w": torch.zeros(2)})
    text, arrays = packed(server)
    unpacked(text, arrays).shared["w"].fill_(1)
    assert torch.equal(unpacked(text, arrays).shared["w"], torch.zeros(2))


@pytest.mark.parametrize("state", [ClientState({"w": torch.zeros(1)}), FarState(round=3)])
def test_no_message_can_hold_the_state_of_a_client(state):
    with pytest.raises(Unsendable, match="State may not travel"):
        packed((ClientUpdate("a", {}, 1), state))


def test_a_shelf_stays_where_it_is(tmp_path):
    chosen = Personalisation("prior", (0.25, 0.75))
    serving = Serving(ServerState({}), INFO, "few-shot", 5, chosen, Shelf(tmp_path))
    found = again(serving)
    assert found.shelf is None
    assert (found.shots, found.chosen) == (5, chosen)


@pytest.mark.parametrize(
    "text",
    ['{"type": "Popen", "fields": {}}', '{"tensor": "7"}', '{"odd": 1}', "[", '{"map": [1]}', "{}"],
)
def test_whatever_a_message_says_nothing_but_known_types_is_built(text):
    with pytest.raises(ValueError):  # noqa: PT011 - the reason is the message's own
        unpacked(text, {})
