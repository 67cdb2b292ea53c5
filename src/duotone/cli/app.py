"""The application, the options that commands have in common, and where output goes."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core
from rich.console import Console

from duotone.cli.completing import partitions, run_folders


class Stopped(Exception):
    """Ctrl-C stopped a command at once; the message says what is left and how to go on."""


class Commands(typer.core.TyperGroup):
    """The commands; Ctrl-C, which Typer would end in silence, becomes a line."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Stopped(
                "Stopped at once. What was committed is safe; see it with: duotone runs"
            ) from None


app = typer.Typer(
    cls=Commands,
    help="Personalised federated learning that shows what is shared, what is local, and why.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    suggest_commands=False,  # click says it already
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="Bring official data files into the form duotone reads.")
app.add_typer(data_app, name="data", no_args_is_help=True)

DATA, FEDERATION, OUTPUT = "Data", "Federation", "Output"


class Device(StrEnum):
    """Where tensors live."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


def talk() -> Console:
    """Return the console for people: standard error, so that standard output is data only."""
    return Console(stderr=True, highlight=False, markup=False)


def show(renderable: Any) -> None:
    """Print a result to standard output; without a terminal nothing is wrapped."""
    width = None if sys.stdout.isatty() else 160
    console = Console(width=width, highlight=False, markup=False)
    console.print(renderable, soft_wrap=isinstance(renderable, str))


def remark(line: str, quiet: bool) -> None:
    """Print a line that explains or advises, unless the user wants results alone."""
    if not quiet:
        show(line)


def show_path(what: str, path: Path, quiet: bool) -> None:
    """Print where a result was written; for those who want results alone, nothing but the path."""
    show(str(path) if quiet else f"{what}: {path}")


def show_json(content: Any) -> None:
    """Print a result for machines."""
    sys.stdout.write(json.dumps(content, indent=2, default=str) + "\n")


def is_usage_error(error: Exception) -> bool:
    """Say whether the parser of the command line raised an error.

    Its class is click's, whose place differs from one version of Typer to the next.
    """
    return hasattr(error, "format_message") and hasattr(error, "exit_code")


def show_usage_error(error: Any) -> int:
    """Print what is wrong with a command line in one line; return the exit code.

    A command without arguments shows its help instead.
    """
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
    else:
        path = "duotone" if context is None else context.command_path
        sys.stderr.write(f"error: {error.format_message()} Help: {path} -h\n")
    return int(error.exit_code)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        sys.stdout.write(f"duotone {version('duotone')}\n")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error (with any command).")
    ] = False,
    allow_code: Annotated[
        bool,
        typer.Option("--allow-code", help="Run Python code that a file names (with any command)."),
    ] = False,
) -> None:
    """Personalised federated learning that shows what is shared, what is local, and why.

    Start with:  [bold]duotone demo[/bold]
    """


DataOption = Annotated[
    str | None,
    typer.Option(
        "--data",
        help="Name, hub:NAME, .npz, .csv or .parquet file, or folder CLIENT/CLASS/*.png.",
        rich_help_panel=DATA,
    ),
]
StyleOption = Annotated[
    str | None,
    typer.Option(
        help="Each client's own look: none, marks, padpaf4, padpaf8, …", rich_help_panel=DATA
    ),
]
PartitionOption = Annotated[
    str | None,
    typer.Option(
        "--partition",
        help="Who holds what: iid, dirichlet, groups, domains, pathological, quantity, attribute, "
        "natural.",
        rich_help_panel=DATA,
        autocompletion=partitions,
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="cnn, cnn-bn, thesis-cnn, thesis-cnn-bn, digits-cnn, resnet8-gn, content-cnn, "
        "content-cnn-in, content-cnn-bn, linear, mlp, mlp-bn, or package.module:Class.",
    ),
]
ClientsOption = Annotated[
    int | None, typer.Option(help="Members and newcomers together.", rich_help_panel=DATA)
]
SeedOption = Annotated[
    int | None, typer.Option(help="Source of every random draw.", rich_help_panel=FEDERATION)
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Any other setting; may be repeated."),
]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Settings from a TOML file.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
QuietOption = Annotated[
    bool, typer.Option("-q", "--quiet", help="Results alone: no progress, no remarks.")
]
RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run folder.", autocompletion=run_folders)
]
RunsArgument = Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run or study folders.")]
ReferenceOption = Annotated[
    str | None,
    typer.Option(
        help="The entry the others are compared with; by default the study's, else fedavg, else "
        "the first."
    ),
]
AnywayOption = Annotated[
    bool, typer.Option("--anyway", help="Also runs on different data or partitions, untested.")
]
