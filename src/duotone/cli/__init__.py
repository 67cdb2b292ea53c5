"""The command line: parse, call, print.

Nothing here imports torch before a command needs it, so that help and mistakes answer at once.
Exit codes: 0 ok, 1 the run failed, 2 usage or configuration, 130 interrupted.
"""

from __future__ import annotations

import os
import sys

from duotone.cli import (
    browsing,
    comparing,
    demo,
    explaining,
    exploring,
    federating,
    generating,
    looking,
    reporting,
    reproducing,
    running,
    using,
)
from duotone.cli.app import Stopped, app, is_usage_error, show_usage_error
from duotone.cli.completing import check_options
from duotone.errors import DuotoneError, own_frame
from duotone.registry import allow_code, trust_only

__all__ = [
    "browsing",
    "comparing",
    "demo",
    "explaining",
    "exploring",
    "federating",
    "generating",
    "looking",
    "main",
    "reporting",
    "reproducing",
    "running",
    "using",
]  # importing a module of commands registers them


def main() -> None:
    """Run the command line."""
    debug = "--debug" in sys.argv
    trust_only(sys.argv[1:])
    allow_code("--allow-code" in sys.argv)
    sys.argv = [argument for argument in sys.argv if argument not in ("--debug", "--allow-code")]
    sys.path.append(os.getcwd())  # so that --model mynets:Net finds mynets.py beside the user
    try:
        check_options(sys.argv[1:])
        code = app(prog_name="duotone", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except DuotoneError as error:
        if debug:
            raise
        sys.stderr.write(f"error: {error}\n")
        sys.exit(error.exit_code)
    except Stopped as stopped:
        sys.stderr.write(f"\n{stopped}\n")
        sys.exit(130)
    except Exception as error:
        if is_usage_error(error):
            sys.exit(show_usage_error(error))
        own = own_frame(error)
        if debug or own is None:  # a mistake of ours: somebody must see where it is
            raise
        sys.stderr.write(
            f"error: your own code failed ({own}): {type(error).__name__}: {error}. "
            "Correct it there; --debug shows the whole traceback.\n"
        )
        sys.exit(1)
    finally:
        trust_only(None)
        allow_code(False)
