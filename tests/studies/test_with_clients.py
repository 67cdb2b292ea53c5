from __future__ import annotations

import json

from studies.with_clients import with_clients

import duotone
from duotone.runs.study import run_study

STUDY = {
    "title": "two rounds",
    "seeds": [0, 1],
    "methods": ["fedavg"],
    "settings": {
        "data": "mini-digits",
        "model": "mlp",
        "rounds": 2,
        "evaluate_every": 1,
        "latents": 0,
        "curve": [],
        "backend": "serial",
        "partition": {"scheme": "iid", "clients": 3, "newcomers": 1, "max_train": 40},
    },
}


def test_every_client_of_every_seed_is_kept(tmp_path):
    study = run_study(STUDY, tmp_path / "study")
    kept = json.loads(with_clients(study.path))
    assert kept["evaluated_rounds"] == [1, 2]
    assert kept["title"] == "two rounds"
    lines = [dict(zip(kept["client_columns"], line, strict=True)) for line in kept["clients"]]
    assert {(line["seed"], line["client"]) for line in lines} == {
        (seed, client) for seed in (0, 1) for client in "012"
    }
    run = duotone.load_run(study.path / "fedavg" / "seed1")
    members = [
        line["accuracy"][-1] for line in lines if line["seed"] == 1 and line["kind"] == "member"
    ]
    expected = run.summary["scores"]["member.accuracy"]["value"]
    assert abs(sum(members) / len(members) - expected) < 1e-3
