"""Small finished runs to be explored, and a page that asks about them without a network."""

from __future__ import annotations

import warnings

import anyio
import httpx

import duotone
from duotone.explorer.explored import Explored
from duotone.explorer.web_app import web_app

TOKEN, PORT = "a-token", 8123


def finished(out, method, **settings):
    """Return a small finished run on images of 8 × 8 pixels, with styles of its own."""
    partition = {"scheme": "iid", "clients": 3, "newcomers": 1, "max_train": 60, "max_test": 20}
    chosen = {
        "data": "mini-digits",
        "partition": partition,
        "latents": 20,
        "curve": [],
        "rounds": 1,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without observers, messages are warnings
        return duotone.run(method=method, backend="serial", out=out, **(chosen | settings))


class Page:
    """Asks the explorer of some runs, as its page does, without a network."""

    def __init__(self, *runs):
        self.explored = [Explored(run, run.path.name) for run in runs]
        self.app = web_app(self.explored, TOKEN, PORT)

    async def _send(self, method, path, headers, content):
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(
            transport=transport, base_url=f"http://127.0.0.1:{PORT}"
        ) as client:
            return await client.request(method, path, headers=headers, content=content)

    def raw(self, path, method="GET", headers=None, content=None):
        """Return the answer to any request."""
        return anyio.run(self._send, method, path, headers, content)

    def response(self, view, **parameters):
        """Return the answer to a question about the first run, whatever it is."""
        query = httpx.QueryParams(parameters)
        return self.raw(f"/{TOKEN}/api/0/{view}?{query}")

    def ask(self, view, **parameters):
        """Return what the explorer says."""
        found = self.response(view, **parameters)
        assert found.status_code == 200, found.text
        return found.json()

    def error(self, view, **parameters):
        """Return status and line of a refusal."""
        found = self.response(view, **parameters)
        line = found.json()["error"]
        assert "\n" not in line
        assert line
        return found.status_code, line

    def upload(self, content, headers=None):
        """Drop an image."""
        return self.raw(f"/{TOKEN}/api/0/upload", "POST", headers, content)
