"""Who may ask, and what no request can do."""

from __future__ import annotations

import io
import struct
import zlib

import anyio
import httpx
import pytest
from explored_pages import PORT, TOKEN
from PIL import Image

from duotone.explorer.explored import MOST_BYTES
from duotone.explorer.web_app import VIEWS

HOST = f"127.0.0.1:{PORT}"


def test_the_address_with_its_token_answers(page):
    found = page.raw(f"/{TOKEN}/")
    assert found.status_code == 200
    assert found.headers["content-type"].startswith("text/html")


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/api/runs",
        "/wrong/",
        f"/{TOKEN}",
        f"/{TOKEN}x/",
        f"/x{TOKEN}/",
        f"//{TOKEN}/",
        "/static/main.js",
        f"/static/{TOKEN}/",
        f"/?token={TOKEN}",
    ],
)
def test_nothing_answers_without_the_token(page, path):
    found = page.raw(path)
    assert found.status_code == 403
    assert "token" in found.json()["error"]
    assert TOKEN not in found.text


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", f"127.0.0.1.evil.example:{PORT}", ""]
)
def test_another_host_is_refused(page, host):
    """A name that somebody else points at this machine must not reach the page."""
    assert page.raw(f"/{TOKEN}/", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1", ""])
def test_another_origin_is_refused(page, origin):
    assert page.raw(f"/{TOKEN}/api/runs", headers={"origin": origin}).status_code == 403


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_the_page_itself_may_ask(page, name):
    headers = {"host": f"{name}:{PORT}", "origin": f"http://{name}:{PORT}"}
    assert page.raw(f"/{TOKEN}/api/runs", headers=headers).status_code == 200


@pytest.mark.parametrize("path", [f"/{TOKEN}/", f"/{TOKEN}/api/0/about", "/", f"/{TOKEN}/nowhere"])
def test_every_answer_carries_the_headers(page, path):
    headers = page.raw(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    assert "server" not in headers


@pytest.mark.parametrize(
    "path",
    [
        "static/../web_app.py",
        "static/%2e%2e/web_app.py",
        "static/..%2fweb_app.py",
        "static/%2e%2e%2f%2e%2e%2f%2e%2e%2f%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "static//etc/passwd",
        "static/views/../../guard.py",
        "api/0/../../web_app.py",
    ],
)
def test_no_path_leads_out_of_the_static_files(page, path):
    async def ask():
        # The path as it is: a client library would tidy it up.
        sent = []

        async def send(message):
            sent.append(message)

        async def receive():
            return {"type": "http.request", "body": b"", "more_body": False}

        from urllib.parse import unquote

        raw = f"/{TOKEN}/{path}"
        scope = {"type": "http", "method": "GET", "path": unquote(raw), "raw_path": raw.encode()}
        scope |= {"headers": [(b"host", HOST.encode())], "query_string": b"", "scheme": "http"}
        scope |= {"http_version": "1.1", "root_path": "", "server": ("127.0.0.1", PORT)}
        await page.app(scope, receive, send)
        return sent

    sent = anyio.run(ask)
    assert sent[0]["status"] in (404, 405)
    body = b"".join(message.get("body", b"") for message in sent)
    assert b"import" not in body
    assert b"root:" not in body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_views_can_only_be_read(page, method):
    found = page.raw(f"/{TOKEN}/api/0/about", method)
    assert found.status_code == 405
    assert "error" in found.json()


@pytest.mark.parametrize("run", ["1", "99999999999999999999"])
def test_there_are_no_other_runs(page, run):
    found = page.raw(f"/{TOKEN}/api/{run}/about")
    assert found.status_code == 404
    assert "error" in found.json()


@pytest.mark.parametrize(
    ("view", "parameters"),
    [
        ("client", {}),
        ("client", {"client": ""}),
        ("client", {"client": "nobody"}),
        ("client", {"client": "../../etc/passwd"}),
        ("client", {"client": "0", "more": "1"}),
        ("client", {"client": "x" * 1000}),
        ("grid", {"client": "0", "start": "-1"}),
        ("grid", {"client": "0", "only": "other"}),
        ("sample", {"client": "0", "sample": "20"}),
        ("sample", {"client": "0", "sample": "-1"}),
        ("sample", {"client": "0", "sample": "1e3"}),
        ("sample", {"client": "0", "sample": "9" * 400}),
        ("sample", {"client": "0", "of": "nobody"}),
        ("sample", {"client": "0", "upload": "../x"}),
        ("why", {"client": "0", "against": "0"}),
        ("why", {"client": "0", "against": "nobody"}),
        ("policy", {"client": "0", "amount": "2"}),
        ("policy", {"client": "0", "amount": "nan"}),
        ("drawn", {"client": "0", "local": "1,2,3"}),
        ("drawn", {"client": "0", "shared": "nan"}),
        ("drawn", {"client": "0", "shared": ",".join(["1"] * 500)}),
        ("pca", {"part": "both"}),
        ("pca", {"part": "shared"}),
        ("tiles", {"rows": "1000000"}),
        ("tiles", {"rows": "1;2"}),
        ("tiles", {"rows": ",".join(["1"] * 61)}),
        ("about", {"run": "0"}),
        ("nowhere", {}),
    ],
)
def test_a_wrong_parameter_is_one_clear_line(page, view, parameters):
    status, line = page.error(view, **parameters)
    assert status in (400, 404, 409)
    assert len(line) < 300
    assert "Traceback" not in line


def test_a_parameter_given_twice_is_refused(page):
    found = page.raw(f"/{TOKEN}/api/0/client?client=0&client=1")
    assert found.status_code == 400
    assert found.json()["error"] == "The parameter 'client' is given twice; give it once."


def png(width, height):
    """Return the beginning of a PNG file that announces some size."""
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunk = struct.pack(">I", 13) + b"IHDR" + head + struct.pack(">I", zlib.crc32(b"IHDR" + head))
    return b"\x89PNG\r\n\x1a\n" + chunk


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no image",
        b"\x89PNG\r\n\x1a\n",
        png(10, 10),
        png(60_000, 60_000),
        b"GIF89a\x01\x00\x01\x00\x00\x00\x00;",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"\xff\xd8\xff\xe0" + b"\x00" * 64,
    ],
    ids=["empty", "text", "cut", "no pixels", "bomb", "gif", "svg", "broken jpeg"],
)
def test_a_malformed_image_is_refused(page, content):
    found = page.upload(content)
    assert found.status_code == 400
    assert "image" in found.json()["error"]


def test_a_large_image_is_refused_before_it_is_read(page):
    found = page.upload(b"\x00" * (MOST_BYTES + 1))
    assert found.status_code == 413
    assert "8 MB" in found.json()["error"]


def test_only_so_many_images_are_kept(page):
    buffer = io.BytesIO()
    Image.new("L", (8, 8), 200).save(buffer, "PNG")
    first, *_ = [page.upload(buffer.getvalue()).json()["upload"] for _ in range(21)]
    status, line = page.error("sample", client="0", upload=first)
    assert status == 400
    assert "drop it again" in line


def test_a_thousand_sliders_at_once_are_answered_or_told_to_wait(drawn_page):
    drawn_page.ask("drawn", client="0")  # models are open

    async def ask():
        transport = httpx.ASGITransport(drawn_page.app)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}") as client:
            statuses = {}

            async def one(number):
                path = f"/{TOKEN}/api/0/drawn?client={number % 2}&sample={number % 10}"
                found = await client.get(path)
                statuses.setdefault(found.status_code, []).append(found)

            async with anyio.create_task_group() as group:
                for number in range(1000):
                    group.start_soon(one, number)
            return statuses

    statuses = anyio.run(ask)
    assert sum(map(len, statuses.values())) == 1000
    assert set(statuses) <= {200, 503}
    assert len(statuses[200]) > 100
    assert "ask again" in statuses[503][0].json()["error"]
    assert drawn_page.ask("drawn", client="0")["picture"]


def test_an_own_mistake_names_no_secrets(page, monkeypatch, capsys):
    def broken(explored, asked):
        raise KeyError("/secret/place")

    view = VIEWS["about"]
    monkeypatch.setitem(VIEWS, "about", type(view)(broken, view.form, view.lane))
    status, line = page.error("about")
    assert status == 500
    assert "secret" not in line
    assert "/secret/place" in capsys.readouterr().err
