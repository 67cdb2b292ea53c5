from __future__ import annotations

import json

import pytest
from PIL import Image


@pytest.mark.usefixtures("brief_measures")
def test_samples_of_a_client_become_a_picture(cli, folder):
    cli(
        *("run", "feddva", "--data", "mini-digits", "--style", "marks", "--partition", "iid"),
        *("--clients", "4", "--rounds", "1", "--set", "latents=0", "--set", "curve=[]"),
        *("--out", "runs/made", "-q"),
    )
    done = cli("generate", "runs/made", "--client", "1", "--label", "7", "--out", "sevens.png")
    assert done.stdout.strip() == "20 samples of label 7: sevens.png"
    # Two rows of ten images of 8×8, seven times as large, two pixels apart.
    with Image.open(folder / "sevens.png") as picture:
        assert picture.size == (10 * 56 + 9 * 2, 2 * 56 + 2)
    arguments = ("generate", "runs/made", "--client", "1", "--count", "3", "--out", "three.png")
    assert json.loads(cli(*arguments, "--json").stdout) == {
        "file": "three.png",
        "client": "1",
        "label": None,
        "is_seen": None,
        "count": 3,
    }
    wrong = cli("generate", "runs/made", "--client", "11", "--out", "x.png", code=2)
    assert "has no client '11'" in wrong.stderr
    wrong = cli("generate", "runs/made", "--client", "1", "--label", "12", "--out", "x", code=2)
    assert "There is no label 12" in wrong.stderr
    assert not (folder / "x.png").exists()
