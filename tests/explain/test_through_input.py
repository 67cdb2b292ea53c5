"""What would be said of a sample if another client had sent it: by hand, and on planted data."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from duotone.explain.through_input import _Game, through_input
from duotone.explain.witnesses import Federation

# Three clients whose hidden vectors differ along the first of three axes alone.
PLACES = {"a": -4.0, "b": 4.0, "c": 4.5}


def made(weights, places=PLACES):
    """Return the game of a sample of client a, whose network reads hidden vectors by weights."""
    generator = torch.Generator().manual_seed(0)
    hidden = {
        name: torch.randn(60, 3, generator=generator, dtype=torch.float64)
        + torch.tensor([place, 0.0, 0.0], dtype=torch.float64)
        for name, place in places.items()
    }
    head = nn.Linear(3, 2, bias=False)
    with torch.no_grad():
        head.weight.copy_(torch.tensor([[-w for w in weights], list(weights)]))
    network = nn.Sequential(head)
    method = SimpleNamespace(device="cpu", predict=lambda model, x: model(x))
    client = SimpleNamespace(name="a", method=method, class_names=("no", "yes"))
    x = torch.tensor([[-4.0, 1.5, 0.0]])
    return _Game(client, network, "0", x, x[0].double(), hidden)


def test_a_network_that_looks_at_where_clients_differ_lets_the_client_speak():
    found = made([1.0, 0.0, 0.0]).play()
    assert found.is_readable
    assert found.speaks
    assert found.answers == {"b": "yes", "c": "yes"}
    words = found.sentence("no", "image")
    assert words.startswith("The client speaks through the image itself: as one of client b's")
    assert words.endswith("called yes; 2 of 2 other clients would change it.")


def test_a_network_that_looks_elsewhere_does_not():
    found = made([0.0, 1.0, 0.0]).play()
    assert found.is_readable
    assert not found.speaks
    assert found.sentence("yes", "image") == "The answer does not depend on whose image this is."


def test_one_move_is_not_enough():
    found = made([1.0, 0.0, 0.0], {"a": -4.0, "b": -4.5, "c": 4.0}).play()
    assert found.answers == {"b": "no", "c": "yes"}
    assert not found.speaks


def test_a_change_that_hardly_costs_anything_is_not_clear():
    found = made([0.01, 0.0, 0.0]).play()
    assert found.answers == {"b": "yes", "c": "yes"}
    assert not found.speaks


def test_clients_that_do_not_differ_cannot_be_read():
    found = made([1.0, 0.0, 0.0], dict.fromkeys("abc", 0.0)).play()
    assert not found.is_readable
    assert not found.speaks
    assert found.sentence("no", "sample") == "Nothing in the sample tells the model whose it is."


def test_moved_vectors_stay_where_a_relu_leaves_them():
    game = made([1.0, 0.0, 0.0])
    game.hidden = {name: own.clamp_min(0) for name, own in game.hidden.items()}
    below = game._said([torch.tensor([-3.0, 0.0, 0.0], dtype=torch.float64)])
    assert below[0, 0] == pytest.approx(0.5)


def test_numbers_are_not_asked_about(ruled):
    client = ruled.client("c0")
    federation = Federation(client.opened)
    x = client.opened.plan.population.data("c0", "test").x[:1]
    assert through_input(federation, client, x) is not None
    info = SimpleNamespace(task="regression")
    other = SimpleNamespace(facts=SimpleNamespace(info=info), method=client.method)
    assert through_input(federation, other, x) is None


def test_an_answer_that_goes_another_way_is_not_asked_about(ruled, monkeypatch):
    client = ruled.client("c0")
    federation = Federation(client.opened)
    x = client.opened.plan.population.data("c0", "test").x[:1]
    network = client.model()
    beside = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))  # layers that nothing goes through

    class Other(nn.Module):
        def __init__(self):
            super().__init__()
            self.beside, self.network = beside, network

        def forward(self, x):
            return self.network(x)

    monkeypatch.setattr(client, "model", Other, raising=False)
    assert through_input(federation, client, x) is None


# Probabilities of "no" at clients a, b, c: by all neighbours, and by each half of them.
CLEAR = ([0.9, 0.1, 0.1], [0.9, 0.1, 0.1], [0.9, 0.1, 0.1])
PLAYS = {
    "clear": (CLEAR, True),
    "own half changes it": (([0.9, 0.1, 0.1], [0.4, 0.1, 0.1], [0.9, 0.1, 0.1]), False),
    "a half disagrees": (([0.9, 0.1, 0.1], [0.9, 0.1, 0.6], [0.9, 0.1, 0.1]), False),
    "halves differ as clients do": (([0.9, 0.2, 0.2], [0.9, 0.0, 0.0], [0.9, 0.45, 0.45]), False),
}


@pytest.mark.parametrize("play", PLAYS)
def test_halves_of_the_neighbours_must_agree(play, monkeypatch):
    shares, expected = PLAYS[play]
    told = iter(np.array([[p, 1 - p] for p in own]) for own in shares)
    game = made([1.0, 0.0, 0.0])
    monkeypatch.setattr(game, "_said", lambda vectors: next(told))
    assert game.play().speaks is expected
