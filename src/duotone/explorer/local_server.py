"""The server: on this machine's loopback alone, in the foreground or beside a notebook."""

from __future__ import annotations

import errno
import html
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from duotone.errors import ConfigError
from duotone.explorer.explored import Explored
from duotone.explorer.guard import new_token
from duotone.explorer.web_app import web_app
from duotone.runs import Run, load_run
from duotone.runs.compare import runs_below

_HOST = "127.0.0.1"
_PATIENCE = 20.0


@dataclass(frozen=True)
class LocalServer:
    """An explorer that listens.

    In a notebook it shows itself.

    Attributes:
        address: Where the page is, with its token.
        height: Of the frame in a notebook, in pixels.
    """

    address: str
    height: int
    _server: uvicorn.Server
    _socket: socket.socket
    _runs: Sequence[Explored]

    def serve(self) -> None:
        """Answer until Ctrl-C."""
        self._warm_up()
        self._server.run(sockets=[self._socket])

    def serve_beside(self) -> None:
        """Answer in a thread of its own until this process ends, or :meth:`stop`."""
        self._warm_up()
        thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True
        )
        thread.start()
        until = time.monotonic() + _PATIENCE
        while not self._server.started and thread.is_alive() and time.monotonic() < until:
            time.sleep(0.01)

    def stop(self) -> None:
        """End a server that answers beside."""
        self._server.should_exit = True

    def _warm_up(self) -> None:
        """Load data in the background: the first view needs none, the second does."""
        for explored in self._runs[:1]:
            if explored.run.status == "finished":
                threading.Thread(target=explored.has_data, daemon=True).start()

    def _repr_html_(self) -> str:
        address = html.escape(self.address)
        return (
            f'<iframe src="{address}" width="100%" height="{self.height}" '
            f'style="border:0" title="duotone explorer"></iframe>'
        )


def beside(run: Run, *, height: int) -> LocalServer:
    """Return an explorer that answers already, in a thread of its own; see :meth:`Run.explore`."""
    server = start(run, height=height)
    server.serve_beside()
    return server


def start(
    runs: Run | str | Path | Sequence[Run | str | Path], *, port: int = 0, height: int = 0
) -> LocalServer:
    """Open runs and a port for them; the returned server begins to answer when it is told to.

    Args:
        runs: Runs, or folders of runs or studies.
        port: Where to listen; 0 takes any that is free.
        height: Of the frame in a notebook, in pixels.

    Raises:
        RunError: A run is missing or damaged.
        ConfigError: The port is taken.
    """
    given = [runs] if isinstance(runs, Run | str | Path) else list(runs)
    if not given:
        raise ConfigError("The explorer needs at least one run.")
    opened: list[Run] = []
    for item in given:
        opened += [item] if isinstance(item, Run) else map(load_run, runs_below([Path(item)]))
    explored = [Explored(run, _called(run, opened)) for run in opened]
    bound = _bound(port)
    token, number = new_token(), bound.getsockname()[1]
    config = uvicorn.Config(
        web_app(explored, token, number),
        log_level="error",
        ws="none",  # nothing here speaks it, and the library that does would be another way in
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
        h11_max_incomplete_event_size=16_384,
    )
    address = f"http://{_HOST}:{number}/{token}/"
    return LocalServer(address, height, uvicorn.Server(config), bound, explored)


def _called(run: Run, every: Sequence[Run]) -> str:
    """Return a short name of a run that no other has."""
    name = run.path.resolve().name
    alike = [other for other in every if other.path.resolve().name == name]
    return name if len(alike) == 1 else str(run.path)


def _bound(port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((_HOST, port))
        bound.listen()  # who comes before the server answers waits, and is not turned away
    except OverflowError as error:
        bound.close()
        raise ConfigError(f"A port is a number up to 65535. Got {port}.") from error
    except OSError as error:
        bound.close()
        why = "is taken" if error.errno == errno.EADDRINUSE else f"cannot be used ({error})"
        raise ConfigError(
            f"The port {port} {why}; choose another with --port, or leave it out for a free one."
        ) from error
    return bound
