"""What a user reads while runs go on."""

from __future__ import annotations

import pytest

from duotone.cli.progress import score_text


@pytest.mark.parametrize(
    ("scores", "text"),
    [
        ({}, ""),
        (
            {"newcomer.accuracy": 0.88, "member.accuracy": 0.9123},
            "members 91.2 % · newcomers 88.0 %",
        ),
        ({"member.mse": 0.012345}, "members mse 0.01235"),
    ],
)
def test_scores_are_said_by_role_members_first(scores, text):
    assert score_text(scores) == text
