"""The command that opens the explorer: explore."""

from __future__ import annotations

from typing import Annotated

import typer

from duotone.cli.app import RunsArgument, app, show


@app.command()
def explore(
    runs: RunsArgument,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Where to listen; 0 takes any that is free.")
    ] = 0,
    is_opened: Annotated[
        bool, typer.Option("--open/--no-open", help="Whether to open the browser.")
    ] = True,
) -> None:
    """Open a page where the two inks can be seen, moved and questioned; Ctrl-C ends it.

    It answers this machine alone, under an address that nobody can guess. Nothing in a run changes.

    Examples:

      duotone explore runs/demo/feddva

      duotone explore runs/demo/fedavg runs/demo/feddva --no-open --port 8100
    """
    import contextlib
    import webbrowser

    from duotone.explorer import start

    server = start(runs, port=port)
    show(server.address)
    if is_opened:
        webbrowser.open(server.address)
    with contextlib.suppress(KeyboardInterrupt):  # the way to end it
        server.serve()
