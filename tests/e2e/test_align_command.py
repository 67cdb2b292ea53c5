from __future__ import annotations

import pytest


@pytest.mark.usefixtures("brief_measures")
def test_a_finished_run_is_read(cli, folder):
    cli(
        *("run", "fedavg", "--data", "planted-table", "--clients", "5", "--rounds", "2"),
        *("--set", "curve=[]", "--set", "latents=20", "--out", "runs/plain", "-q"),
    )
    done = cli("align", "runs/plain", "--rank", "2")
    assert "fedcd" in done.stdout
    assert "runs/plain-aligned" in done.stdout
    assert (folder / "runs" / "plain-aligned" / "latents.npz").exists()
    wrong = cli("align", "runs/plain", "--layer", "fc9", "--out", "runs/other", code=2)
    assert "fc9" in wrong.stderr
