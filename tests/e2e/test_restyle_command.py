from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image


@pytest.mark.usefixtures("brief_measures")
def test_samples_are_re_styled_and_attacked(cli, folder):
    cli(
        *("run", "padpaf", "--data", "mini-digits", "--style", "padpaf4", "--partition", "iid"),
        *("--clients", "4", "--rounds", "1", "--set", "latents=0", "--set", "curve=[]"),
        *("--set", "partition.max_train=60", "--set", "partition.max_test=20"),
        *("--out", "runs/made", "-q"),
    )
    pair = ("runs/made", "--client", "2", "--as", "1")
    done = cli("restyle", *pair, "--out", "pairs.png", "--count", "4")
    assert done.stdout.strip() == "4 samples of client 2 as client 1 draws: pairs.png"
    # Two rows of four images of 8×8, seven times as large, two pixels apart.
    with Image.open(folder / "pairs.png") as picture:
        assert picture.size == (4 * 56 + 3 * 2, 2 * 56 + 2)
    done = cli("restyle", *pair, "--out", "pairs.npz", "--json")
    assert json.loads(done.stdout) == {"file": "pairs.npz", "client": "2", "as": "1", "count": 10}
    with np.load(folder / "pairs.npz") as arrays:
        assert arrays["x"].shape == (10, 8, 8, 1)
        assert arrays["y"].shape == (10,)
    done = cli("anonymise", *pair, "--out", "hidden.npz")
    assert "An attacker who knows the method as well names it for" in done.stdout
    assert (folder / "hidden.npz").exists()
    wrong = cli("restyle", *pair, "--out", "pairs.jpg", code=2)
    assert "Samples are written as .png or .npz. Got 'pairs.jpg'" in wrong.stderr
    wrong = cli(*("anonymise", "runs/made", "--client", "2", "--as", "2", "--out", "x.npz"), code=2)
    assert "hide nothing; choose another client" in wrong.stderr
    assert not (folder / "x.npz").exists()
