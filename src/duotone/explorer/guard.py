"""The door of the explorer: who may ask, and what every answer carries.

The first piece of the path is the token. So every address the page uses, modules, pictures and
events included, carries it without a cookie, which other programs on this machine would be sent.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import MutableMapping
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        # Plotly writes its styles into the page.
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        # A notebook on this machine may show the page in a frame; nobody else knows its address.
        "frame-ancestors 'self' http://127.0.0.1:* http://localhost:*",
    )
)
HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


def new_token() -> str:
    """Return a token that nobody can guess."""
    return secrets.token_urlsafe(24)


class Guard:
    """Lets through who knows the token and comes from this machine's own page.

    Args:
        app: What stands behind the door.
        token: The first piece of every path.
        port: Where the server listens.
    """

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self.app = app
        self.token = token.encode()
        self.hosts = {f"{name}:{port}".encode() for name in ("127.0.0.1", "localhost")}
        self.origins = {b"http://" + host for host in self.hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return

        async def dressed(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message.get("headers", ()), *own]
            await send(message)

        refusal = self._refusal(scope)
        if refusal is None:
            await self.app(self._inside(scope), receive, dressed)
            return
        status, line = refusal
        head = [(b"content-type", b"application/json")]
        await dressed({"type": "http.response.start", "status": status, "headers": head})
        await dressed({"type": "http.response.body", "body": json.dumps({"error": line}).encode()})

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Return why a request is refused; ``None`` if it is not."""
        given = list(scope["headers"])
        hosts = [value for name, value in given if name == b"host"]
        if len(hosts) != 1 or hosts[0].lower() not in self.hosts:
            return 421, "The explorer answers under 127.0.0.1 and localhost alone."
        origins = [value for name, value in given if name == b"origin"]
        if any(origin not in self.origins for origin in origins):
            return 403, "The explorer answers its own page alone, not other sites."
        if not secrets.compare_digest(_first(scope["path"]).encode(), self.token):
            return 403, "This address lacks the token; open the one that duotone explore printed."
        return None

    def _inside(self, scope: Scope) -> MutableMapping[str, Any]:
        """Return a request without the token, which nothing behind the door needs to know."""
        path = "/" + scope["path"][1:].partition("/")[2]
        return {**scope, "path": path, "raw_path": path.encode()}


def _first(path: str) -> str:
    """Return the first piece of a path that goes on behind it.

    >>> _first("/abc/static/main.js"), _first("/abc")
    ('abc', '')
    """
    first, slash, _ = path[1:].partition("/")
    return first if slash else ""
