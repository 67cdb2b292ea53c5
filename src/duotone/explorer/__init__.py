"""The explorer: a local web page that shows what is shared and what is local, and moves it.

duotone explore runs/demo/feddva          opens the page
run.explore()                             shows it in a notebook

Nothing here changes a run, and nothing leaves this machine.
"""

from __future__ import annotations

from duotone.errors import MissingExtraError

try:
    from duotone.explorer.local_server import LocalServer, beside, start
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] not in ("starlette", "uvicorn", "anyio"):
        raise
    raise MissingExtraError(
        "The explorer needs starlette and uvicorn; install them with: pip install duotone[explore]"
    ) from error

__all__ = ["LocalServer", "beside", "start"]
