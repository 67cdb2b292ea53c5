"""What a run is, who its clients are, and what the page can show of it."""

from __future__ import annotations

from typing import Any

from duotone.errors import DuotoneError
from duotone.explorer.asked_of import Asked
from duotone.explorer.class_shares import has_class_shares
from duotone.explorer.explored import Explored
from duotone.federation.protocols import Decodes, ExchangesCodes, FindsConcepts, Generates
from duotone.measures.accuracy import last_values
from duotone.measures.inks import natural
from duotone.measures.metrics import DIRECTIONS, is_share


def about(explored: Explored, asked: Asked) -> dict[str, Any]:
    """Return the facts that every view needs, from the run folder alone."""
    run = explored.run
    facts, config, status = run.folder.facts(), run.config, run.status
    found: dict[str, Any] = {
        "name": explored.name,
        "method": str(config.method["name"]),
        "data": config.data,
        "style": config.style,
        "seed": config.seed,
        "rounds": config.rounds,
        "round": run.folder.manifest().last.round,
        "status": status,
        "members": facts["members"],
        "newcomers": facts["newcomers"],
        "clients": [],
        "can": {},
        "missing": [],
    }
    if status != "finished":
        found["missing"].append(
            f"The run is {status}: its training can be seen; clients, samples and codes when it "
            "is finished."
        )
        return found
    try:
        return found | _finished(explored)
    except DuotoneError as error:
        found["missing"].append(str(error))
        return found


def _finished(explored: Explored) -> dict[str, Any]:
    opened, run = explored.quick.opened, explored.run
    method, info = opened.method, opened.info
    metric = str(run.summary["headline"])
    values = last_values(run.metrics, metric, int(run.summary["rounds"]))
    scores = dict(values.select("client", "value").iter_rows())
    names = opened.class_names or tuple(map(str, range(info.outputs)))
    draws = "codes" if isinstance(method, Decodes) else None
    if draws is None and isinstance(method, Generates):
        draws = "draws"
    return {
        "title": method.title,
        "paper": method.paper,
        "task": info.task,
        "is_image": info.is_image,
        "class_names": list(names) if info.task == "classes" else [],
        "headline": {
            "metric": metric,
            "is_share": is_share(metric),
            "direction": DIRECTIONS[metric],
        },
        "clients": [
            {
                "name": name,
                "role": who.role,
                "group": who.group,
                "samples": who.samples,
                "score": scores.get(name),
            }
            for name, who in sorted(opened.clients.items(), key=lambda pair: natural(pair[0]))
        ],
        "can": {
            "draw": draws,
            "labels": draws == "draws" and isinstance(method, Generates) and method.draws_labels,
            "exchange": isinstance(method, ExchangesCodes),
            "concepts": isinstance(method, FindsConcepts),
            "shares": has_class_shares(explored),
            "maps": (run.path / "latents.npz").exists(),
        },
        "missing": [],
    }


def samples_at_hand(explored: Explored, asked: Asked) -> dict[str, Any]:
    """Say whether samples are at hand; why not, if they are not."""
    try:
        explored.population()
    except DuotoneError as error:
        return {"at_hand": False, "why": str(error)}
    return {"at_hand": True, "why": None}
