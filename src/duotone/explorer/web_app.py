"""The web application: which address asks what, where it is computed, and how errors look."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from anyio import CapacityLimiter, to_thread
from plotly.offline import get_plotlyjs
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from duotone.errors import ConfigError, DataError, DuotoneError, UnknownNameError
from duotone.explorer import (
    about,
    client_view,
    disputed,
    federation_view,
    inks_view,
    map_view,
    sample_view,
    training_view,
)
from duotone.explorer.asked_of import (
    Asked,
    AskedBetween,
    AskedCard,
    AskedClient,
    AskedCodes,
    AskedGrid,
    AskedMap,
    AskedPolicy,
    AskedRows,
    AskedSample,
    read_query,
)
from duotone.explorer.explored import MOST_BYTES, Explored
from duotone.explorer.guard import Guard
from duotone.measures.inks import PART, SERIES

_STATIC = Path(__file__).parent / "static"
_REPORT_STYLE = Path(__file__).parents[1] / "report" / "template" / "page.css"
_MOST_WAITING = 200
Lane = Literal["quick", "thorough", "cards", "maps", "t-SNE"]


@dataclass(frozen=True, slots=True)
class View:
    """One question of the page.

    Attributes:
        answer: Computes the answer.
        form: The parameters.
        lane: With which set of models; each serves one request at a time.
    """

    answer: Callable[[Explored, Any], dict[str, Any]]
    form: type[Asked]
    lane: Lane


VIEWS: Mapping[str, View] = {
    "about": View(about.about, Asked, "quick"),
    "samples-at-hand": View(about.samples_at_hand, Asked, "maps"),
    "federation": View(federation_view.federation, Asked, "quick"),
    "thumbnails": View(federation_view.thumbnails, Asked, "maps"),
    "disputed": View(disputed.disputed, Asked, "thorough"),
    "client": View(client_view.client_portrait, AskedClient, "thorough"),
    "grid": View(client_view.grid, AskedGrid, "thorough"),
    "sample": View(sample_view.sample, AskedSample, "quick"),
    "why": View(sample_view.why, AskedCard, "cards"),
    "policy": View(sample_view.policy, AskedPolicy, "thorough"),
    "sliders": View(inks_view.sliders, AskedCodes, "quick"),
    "drawn": View(inks_view.drawn, AskedCodes, "quick"),
    "everybody": View(inks_view.everybody, AskedCodes, "quick"),
    "between": View(inks_view.between, AskedBetween, "quick"),
    "pca": View(map_view.pca_map, AskedMap, "maps"),
    "tsne": View(map_view.tsne_map, AskedMap, "t-SNE"),
    "map-colours": View(map_view.map_colours, Asked, "maps"),
    "correctness": View(map_view.correctness, Asked, "thorough"),
    "tiles": View(map_view.tiles, AskedRows, "maps"),
    "training": View(training_view.training, Asked, "maps"),
}


class Lanes:
    """Where requests wait for their turn: one thread at a time for each run and set of models."""

    def __init__(self) -> None:
        self._limits: dict[tuple[int, Lane], CapacityLimiter] = {}

    async def work(
        self, request: Request, key: tuple[int, Lane], function: Callable[[], Any]
    ) -> Any:
        """Return what a function returns, computed in a thread of its own.

        Raises:
            HTTPException: Too many wait already, or whoever asked is gone.
        """
        limit = self._limits.setdefault(key, CapacityLimiter(1))
        if limit.statistics().tasks_waiting >= _MOST_WAITING:
            raise HTTPException(503, "Too many requests wait for an answer; ask again later.")
        async with limit:
            if await request.is_disconnected():  # a slider has moved on
                raise HTTPException(499, "Nobody waits for the answer any more.")
            return await to_thread.run_sync(function)


class Pages:
    """Answers requests about some runs.

    Args:
        runs: The runs, in the order of their numbers.
    """

    def __init__(self, runs: Sequence[Explored]) -> None:
        self.runs = runs
        self.lanes = Lanes()

    def routes(self) -> list[Route | Mount]:
        """Return which address asks what."""
        return [
            Route("/", self.page),
            Route("/api/runs", self.names),
            Route("/api/{run:int}/follow", self.follow),
            Route("/api/{run:int}/upload", self.upload, methods=["POST"]),
            Route("/api/{run:int}/{view}", self.view),
            Route("/report.css", self.style),
            Route("/plotly.js", self.plotly),
            Mount("/static", StaticFiles(directory=_STATIC)),
        ]

    async def page(self, request: Request) -> Response:
        """Return the page itself, the same for every run."""
        return Response((_STATIC / "index.html").read_bytes(), media_type="text/html")

    async def style(self, request: Request) -> Response:
        """Return the colours and tables of reports, which the page shares."""
        return Response(_REPORT_STYLE.read_bytes(), media_type="text/css")

    async def plotly(self, request: Request) -> Response:
        """Return Plotly's JavaScript, as the installed package has it."""
        return Response(get_plotlyjs(), media_type="text/javascript")

    async def names(self, request: Request) -> Response:
        """Return the names of the runs, and the colours that tell things apart."""
        names = [explored.name for explored in self.runs]
        return JSONResponse({"runs": names, "series": SERIES, "parts": PART})

    async def view(self, request: Request) -> Response:
        """Answer one question about one run."""
        view = VIEWS.get(request.path_params["view"])
        if view is None:
            raise HTTPException(404, "There is no such address in the explorer.")
        explored = self._run(request)
        asked = read_query(view.form, request.query_params)
        key = (request.path_params["run"], view.lane)
        found = await self.lanes.work(request, key, lambda: view.answer(explored, asked))
        return JSONResponse(found)

    async def upload(self, request: Request) -> Response:
        """Take an image of the user's own; it is kept in memory alone."""
        explored = self._run(request)
        read_query(Asked, request.query_params)
        content = bytearray()
        async for chunk in request.stream():
            content += chunk
            if len(content) > MOST_BYTES:
                raise HTTPException(
                    413, f"The image has more than {MOST_BYTES // 2**20} MB; make it smaller."
                )
        key: tuple[int, Lane] = (request.path_params["run"], "quick")
        name = await self.lanes.work(request, key, lambda: explored.keep_upload(bytes(content)))
        return JSONResponse({"upload": name})

    async def follow(self, request: Request) -> Response:
        """Tell of every round of a running run."""
        explored = self._run(request)
        return StreamingResponse(training_view.news(explored), media_type="text/event-stream")

    def _run(self, request: Request) -> Explored:
        number = int(request.path_params["run"])
        if number >= len(self.runs):
            raise HTTPException(404, f"There are runs 0 to {len(self.runs) - 1}. Got {number}.")
        explored = self.runs[number]
        explored.check_there()
        return explored


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _told(error.status_code, str(error.detail))


async def _wrong(request: Request, error: Exception) -> Response:
    status = 409  # the run does not have what was asked for
    if isinstance(error, UnknownNameError):
        status = 404
    elif isinstance(error, ConfigError | DataError):
        status = 400
    return _told(status, str(error))


async def _broken(request: Request, error: Exception) -> Response:
    sys.stderr.write("".join(traceback.format_exception(error)))
    name = type(error).__name__
    return _told(500, f"The explorer itself failed ({name}); the terminal it runs in says where.")


def _told(status: int, line: str) -> Response:
    body = json.dumps({"error": " ".join(line.split())}, ensure_ascii=False)
    return Response(body, status, media_type="application/json")


def web_app(runs: Sequence[Explored], token: str, port: int) -> ASGIApp:
    """Return the application for some runs, behind its door."""
    handlers: dict[Any, Callable[[Request, Exception], Awaitable[Response]]] = {
        HTTPException: _refused,
        DuotoneError: _wrong,
        Exception: _broken,
    }
    app = Starlette(routes=Pages(runs).routes(), exception_handlers=handlers)
    return Guard(app, token, port)
