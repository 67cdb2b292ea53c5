"""The command that says why: explain."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from duotone.cli.app import JsonOption, QuietOption, RunArgument, app, show, show_json, show_path

if TYPE_CHECKING:
    from duotone.runs.explanation import Explanation


class Reference(StrEnum):
    """Whom an answer is compared with."""

    members = "members"
    shared = "shared"


@app.command()
def explain(
    run: RunArgument,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="An image, or an npz file with one sample x."),
    ] = None,
    client: Annotated[
        str | None, typer.Option(help="Whose answer: a member, a newcomer, or one that joined.")
    ] = None,
    sample: Annotated[
        int | None, typer.Option(help="Instead of FILE, the number of an own test sample.")
    ] = None,
    against: Annotated[str | None, typer.Option(help="Another client: why do they differ?")] = None,
    reference: Annotated[
        Reference | None,
        typer.Option(
            help="Compare with all members, which needs their local parts; or with the shared "
            "model: the default where one client of a federation keeps the run."
        ),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option("--policy", metavar="FILE", help="Try limits on the local part, as TOML."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write the card as a page.")
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Say why a client answers as it does, and why another answers differently.

    Without a sample it says what is typical of the client; without a client, what the answers of
    all of them are made of.

    Examples:

      duotone explain runs/hospitals

      duotone explain runs/hospitals --client b

      duotone explain runs/hospitals --client b scan.png

      duotone explain runs/hospitals --client b --sample 3 --against a --html card.html

      duotone explain runs/hospitals --policy policy.toml
    """
    from duotone.errors import ConfigError
    from duotone.files import write_atomically

    if as_json and html is not None:
        raise ConfigError("Both --json and --html were given; choose one of them.")
    if policy is not None:
        if not (file is None and sample is None and against is None):
            raise ConfigError("A policy is tried on all test samples; leave FILE and others out.")
        from duotone.explain import policy_card, read_policy
        from duotone.runs import load_run

        card: Explanation = policy_card(load_run(run), read_policy(policy), client)
    else:
        card = _card(run, file, client, sample, against, reference)
    if as_json:
        show_json(card.as_json())
    elif html is not None:
        write_atomically(html, card.html().encode())
        show_path("The card", html, quiet)
    else:
        show(str(card))


def _card(
    run: Path,
    file: Path | None,
    client: str | None,
    sample: int | None,
    against: str | None,
    reference: Reference | None,
) -> Explanation:
    from duotone.errors import ConfigError
    from duotone.runs import load_run

    finished = load_run(run)
    if file is None and sample is None:
        if against is not None:
            raise ConfigError(
                "Two clients are compared on one sample; give a FILE, or --sample NUMBER."
            )
        return finished.card(client)
    if client is None:
        raise ConfigError("Name the client whose answer is to be explained: --client NAME")
    opened = finished.client(client)
    if reference is None:
        return opened.explain(file, sample=sample, against=against)
    return opened.explain(file, sample=sample, against=against, reference=reference.value)
