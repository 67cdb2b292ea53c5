"""Commands for a federation of several machines, with Flower."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from duotone.cli.app import JsonOption, QuietOption, app, remark, show, show_json, talk

flower_app = typer.Typer(help="Train across machines, with Flower: TLS, node keys, three levels.")
app.add_typer(flower_app, name="flower", no_args_is_help=True)

FolderOption = Annotated[
    Path, typer.Option("--folder", help="The federation's folder; by default this one.")
]
HERE = Path()
DeadlineOption = Annotated[float, typer.Option(help="Seconds a client has for an answer.")]
PatienceOption = Annotated[float, typer.Option(help="Seconds to wait for the clients.")]


@flower_app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="The folder to make.")],
    clients: Annotated[list[str], typer.Option("--client", help="A client's name; repeat it.")],
    address: Annotated[
        str, typer.Option(help="Where the server listens: host:port.")
    ] = "127.0.0.1:8443",
) -> None:
    """Make the folder of a federation: its clients' names, and the app that runs submit.

    Example:

      duotone flower init hospitals --client north --client south --client west
    """
    from duotone.runs.flower_folder import create

    create(folder, address, clients)
    show(f"Federation: {folder}. Next: duotone flower certs --folder {folder}")


@flower_app.command()
def certs(folder: FolderOption = HERE) -> None:
    """Make an authority for a trial, the server's certificate, and a key for every client.

    Each client gets its own folder in keys, over a way you trust, and nothing else of it.
    """
    from duotone.runs.flower_folder import make_keys, read

    federation = read(folder)
    make_keys(federation)
    show(f"Keys: {federation.keys}. Give each client its own folder in there, and nothing else.")


@flower_app.command()
def server(folder: FolderOption = HERE) -> None:
    """Run the server until Ctrl-C: TLS, and only nodes whose keys it knows."""
    from duotone.runs.flower_folder import read
    from duotone.runs.flower_processes import run_server

    sys.exit(_until_stopped(lambda: run_server(read(folder), talk().print)))


@flower_app.command()
def client(
    name: Annotated[str, typer.Argument(help="The client's name.")],
    data: Annotated[str, typer.Option(help="Its samples, as for: duotone run --data")],
    folder: FolderOption = HERE,
    states: Annotated[
        Path | None, typer.Option(help="Where its states are kept; by default in states/NAME.")
    ] = None,
    level: Annotated[
        str, typer.Option(help="What it lets the server learn: scores, codes or simulation.")
    ] = "scores",
    port: Annotated[
        int, typer.Option(help="A port on this machine for the node's own processes; 0: any.")
    ] = 0,
) -> None:
    """Run a client's node until Ctrl-C; its samples and states stay on this machine.

    Example:

      duotone flower client north --data north.npz --folder hospitals
    """
    from duotone.data import lasting_name
    from duotone.runs.flower_folder import read
    from duotone.runs.flower_processes import program

    federation = read(folder)
    program("flower-supernode")  # refused in one line where Flower is not installed
    from duotone.runs.flower_client import NodeSettings
    from duotone.runs.flower_worker import run_client

    place = (states or federation.folder / "states" / name).resolve()
    given = {"client": name, "data": lasting_name(data), "states": place, "level": level}
    settings = NodeSettings.read(given)
    sys.exit(_until_stopped(lambda: run_client(federation, settings, port)))


@flower_app.command()
def submit(
    config: Annotated[
        Path | None, typer.Argument(help="Settings from a TOML file, as for: duotone run --config")
    ] = None,
    folder: FolderOption = HERE,
    out: Annotated[Path, typer.Option(help="The run's folder.")] = Path("runs/federated"),
    deadline: DeadlineOption = 3600.0,
    patience: PatienceOption = 300.0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Submit a run where the server runs, follow it to its end, leave an ordinary run folder.

    Examples:

      duotone flower submit fedbn.toml --folder hospitals --out runs/fedbn

      duotone flower submit --resume --folder hospitals --out runs/fedbn
    """
    from duotone.cli.running import as_table, show_results
    from duotone.config import read_toml
    from duotone.errors import ConfigError
    from duotone.runs.flower_folder import read
    from duotone.runs.flower_submit import submit as submit_run

    if (config is None) != resume:
        raise ConfigError("Give a file of settings for a new run, or --resume for one in --out.")
    try:
        run = submit_run(
            read(folder),
            {} if config is None else read_toml(config),
            out,
            deadline=deadline,
            patience=patience,
            resume=resume,
            say=lambda line: None if quiet else talk().print(line, soft_wrap=True),
        )
    except KeyboardInterrupt:  # what goes on has been said
        raise typer.Exit(130) from None
    if as_json:
        show_json(as_table(run))
    else:
        show_results([run], quiet)


@flower_app.command()
def add(
    name: Annotated[str, typer.Argument(help="The client's name.")], folder: FolderOption = HERE
) -> None:
    """Add a client to a federation that has its keys already: its name, and keys for it.

    Example:

      duotone flower add east --folder hospitals
    """
    from duotone.errors import RunError
    from duotone.runs.flower_folder import add_client, read
    from duotone.runs.flower_processes import register

    federation = add_client(read(folder), name)
    try:
        register(federation)
        then = "The server knows it."
    except RunError:
        then = "The server does not run; it registers the key when it starts."
    show(f"Keys of {name}: {federation.keys_of(name)}. {then}")


@flower_app.command("join")
def join_later(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A finished run of the federation.")],
    clients: Annotated[list[str], typer.Argument(metavar="CLIENTS…", help="Who joins.")],
    folder: FolderOption = HERE,
    deadline: DeadlineOption = 3600.0,
    patience: PatienceOption = 300.0,
    as_json: JsonOption = False,
) -> None:
    """Let clients whose nodes came later join a finished run as newcomers; nothing shared moves.

    Example:

      duotone flower join runs/fedbn east --folder hospitals
    """
    from duotone.runs.flower_folder import read
    from duotone.runs.flower_submit import join_later as join_run

    scores = join_run(read(folder), run, clients, deadline=deadline, patience=patience)
    if as_json:
        show_json(scores)
        return
    for client, found in scores.items():
        metric = "accuracy" if "accuracy" in found else "mse"
        show(f"{client} joined; its model is on its own machine. {metric}: {found[metric]:.3f}")


@flower_app.command()
def stop(
    number: Annotated[str, typer.Argument(metavar="RUN", help="Its number, as status says.")],
    folder: FolderOption = HERE,
) -> None:
    """End a submitted run; what it has committed stays, and can be resumed."""
    from duotone.runs.flower_folder import read
    from duotone.runs.flower_processes import CONNECTION, flower

    flower(read(folder), "stop", number, CONNECTION)
    show(f"Stopped: {number}")


@flower_app.command()
def status(
    folder: FolderOption = HERE, as_json: JsonOption = False, quiet: QuietOption = False
) -> None:
    """Show which clients are connected, and how the submitted runs ended."""
    from duotone.runs.flower_folder import read
    from duotone.runs.flower_processes import runs, states_of_clients

    federation = read(folder)
    states = states_of_clients(federation)
    ended = {str(run.get("run-id")): run.get("status") for run in runs(federation)}
    if as_json:
        show_json({"clients": states, "runs": ended})
        return
    remark(f"Server: {federation.address}", quiet)
    for what, state in [*states.items(), *ended.items()]:
        show(f"{what}: {state}")


def _until_stopped(work: Callable[[], int]) -> int:
    """Do something until Ctrl-C, which is how it is meant to end."""
    try:
        return work()
    except KeyboardInterrupt:
        return 0
