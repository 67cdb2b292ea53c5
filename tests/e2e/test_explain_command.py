"""duotone explain, as a user types it."""

from __future__ import annotations

import json

import pytest

RUN = (
    *("run", "fedavg-ft", "--data", "mini-digits", "--partition", "iid", "--clients", "3"),
    *("--rounds", "1", "--out", "r", "--set", "latents=0", "--set", "partition.max_train=40", "-q"),
)


@pytest.fixture
def run(cli, folder):
    cli(*RUN)
    return folder / "r"


def test_explain_from_question_to_answer(cli, run, folder):
    assert "depends on who is asked" in cli("explain", "r").stdout
    assert "Client 1 is a member" in cli("explain", "r", "--client", "1").stdout
    asked = ("explain", "r", "--client", "1", "--sample", "0")
    said = cli(*asked, "--against", "2").stdout
    assert "answer = mean + sample + habit + reading, against all members." in said
    assert "Against 2, which says" in said
    card = json.loads(cli(*asked, "--json").stdout)
    assert card["client"] == "1"
    assert card["layers"]["names"] == [
        *("conv1", "norm1", "conv2", "norm2", "fc1", "norm3", "head"),
    ]
    assert "against the shared model" in cli(*asked, "--reference", "shared").stdout
    cli(*asked, "--html", "card.html")
    page = (folder / "card.html").read_text("utf-8")
    assert page.count("data:image/png;base64,") >= 4
    assert "http" not in page.replace("http-equiv", "")
    for arguments, words in (
        (("--client", "1", "--against", "2"), "give a FILE, or --sample"),
        (("--sample", "0"), "--client NAME"),
        ((*asked[2:], "--json", "--html", "x.html"), "choose one"),
        ((*asked[2:], "no.png"), "not both"),
        (("--client", "1", "no.png"), "no such file"),
        (("--client", "nobody"), "no client"),
    ):
        error = cli("explain", "r", *arguments, code=2).stderr
        assert words in error
        assert error.count("\n") == 1
