"""Policies: what they forbid, and what they cost."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import duotone
from duotone.explain import Policy, policy_card, read_policy
from duotone.explain.policy import Governed
from duotone.explain.witnesses import Federation
from duotone.types import Latents


def test_a_policy_that_says_nothing_changes_nothing(ruled):
    for group in policy_card(ruled, Policy()).groups:
        assert group.before == group.after
        assert (group.changed, group.flagged) == (0, 0)


def test_the_members_mean_head_takes_the_groups_rules_away(ruled):
    card = policy_card(ruled, Policy(layers={"head": 1.0}))
    assert len(card.groups) == 3
    assert min(group.before for group in card.groups) > 0.85
    assert np.mean([group.after for group in card.groups]) < 0.9
    assert max(group.changed for group in card.groups) > 0.1
    assert "Layer head: 100% members' mean." in str(card)


def test_a_layer_half_way_is_half_way(ruled):
    federation = Federation(ruled.client("c0").opened)
    client = federation.client("c0")
    name = "head.weight"
    every = torch.stack([federation.client(n).params[name] for n in federation.members])
    half = Governed(federation, client, Policy(layers={"head": 0.5})).client.params[name]
    assert torch.allclose(half, (client.params[name] + every.mean(dim=0)) / 2, atol=1e-6)


def test_a_habit_is_taken_off_in_logarithms(ruled):
    federation = Federation(ruled.client("c0").opened)
    client = federation.client("c0")
    x = federation.background[:5]
    free = client.scores_from(x).log_softmax(dim=1)
    bound = Governed(federation, client, Policy(habit={"toward_mean": 1})).scores_from(x)
    usual = np.mean([federation.usual(federation.client(n)) for n in federation.members], axis=0)
    expected = np.log(usual / federation.usual(client))
    assert np.allclose((bound - free).numpy(), expected)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[layers]\nhead = 2.0\n", "layers.head"),
        ("[colours]\n", "colours"),
        ("[flag]\noutside = -1\n", "flag.outside"),
    ],
)
def test_a_wrong_policy_is_refused_in_a_line(tmp_path, text, words):
    (tmp_path / "policy.toml").write_text(text)
    with pytest.raises(duotone.ConfigError, match=words) as error:
        read_policy(tmp_path / "policy.toml")
    assert "\n" not in str(error.value)


def test_layers_and_codes_that_are_not_there_are_refused(ruled):
    with pytest.raises(duotone.ConfigError, match="Local layers: head"):
        policy_card(ruled, Policy(layers={"fc1": 0.5}))
    with pytest.raises(duotone.ConfigError, match="fedrep cannot exchange"):
        policy_card(ruled, Policy(codes={"blank": [0]}))


def governed(policy):
    """Return a client whose local code is its input, with mean 1, deviation 0.5 and others at 3."""
    made = Governed.__new__(Governed)
    made.policy = policy
    made.client = SimpleNamespace(encode_from=lambda x: Latents(x[:, :0], x))
    made.mean, made.std = torch.ones(3).double(), torch.full((3,), 0.5).double()
    made.everybody = torch.full((3,), 3.0).double()
    return made


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({"freeze": [0]}, [1, 5, 7]),
        ({"blank": [1]}, [9, 3, 7]),
        ({"toward_mean": {"2": 0.25}}, [9, 5, 6]),
        ({"cap": {"0": 2.0}}, [2, 5, 7]),
        ({"merge": [[0, 2]]}, [8, 5, 8]),
    ],
)
def test_rules_for_codes_by_hand(rules, expected):
    codes = governed(Policy(codes=rules))._codes(torch.tensor([[9.0, 5.0, 7.0]]))
    assert codes[0].tolist() == pytest.approx(expected)


def test_a_code_far_from_all_the_client_showed_is_flagged():
    found = governed(Policy(flag={"outside": 4.0})).flags(
        torch.tensor([[1.0, 1.0, 2.9], [1.0, 1.0, 3.1], [-1.1, 1.0, 1.0]])
    )
    assert found.tolist() == [False, True, True]
