"""The server itself: where it listens, and what it says when it cannot."""

from __future__ import annotations

import socket
import subprocess
import sys
import urllib.error
import urllib.request
from importlib.resources import files

import pytest

import duotone
from duotone.errors import ConfigError
from duotone.explorer import start


def status_of(address):
    try:
        with urllib.request.urlopen(address, timeout=60) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code


def test_the_printed_address_answers_as_it_stands(fedbn):
    command = [sys.executable, "-m", "duotone", "explore", str(fedbn.path), "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = server.stdout.readline().strip()
            assert status_of(address) == 200
            host, token = address.removeprefix("http://").removesuffix("/").split("/")
            assert host.startswith("127.0.0.1:")
            assert len(token) == 32
            assert status_of(f"http://{host}/") == 403
            assert status_of(f"{address}api/0/about") == 200
        finally:
            server.terminate()
        server.wait(timeout=60)


def test_a_notebook_shows_the_page_in_a_frame(fedbn):
    shown = fedbn.explore(height=500)
    try:
        assert status_of(shown.address) == 200
        assert f'<iframe src="{shown.address}" width="100%" height="500"' in shown._repr_html_()
    finally:
        shown.stop()


def test_a_taken_port_is_a_clear_line(fedbn):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"The port {port} is taken; choose another"):
            start(fedbn, port=port)


def test_every_start_has_a_token_of_its_own(fedbn):
    one, two = start(fedbn), start(fedbn)
    assert one.address.split("/")[-2] != two.address.split("/")[-2]
    for server in (one, two):
        server._socket.close()


def test_runs_of_one_name_are_told_apart(copied, fedbn, tmp_path):
    copied.path.rename(tmp_path / fedbn.path.name)
    server = start([fedbn, tmp_path / fedbn.path.name])
    server._socket.close()
    assert [own.name for own in server._runs] == [
        str(fedbn.path),
        str(tmp_path / fedbn.path.name),
    ]


def test_a_missing_run_is_said(tmp_path):
    with pytest.raises(duotone.RunError, match="no run folder"):
        start(tmp_path / "nowhere")


@pytest.mark.parametrize("package", ["starlette", "uvicorn"])
def test_without_the_extra_the_line_says_what_to_install(fedbn, package):
    code = f"import sys; sys.modules[{package!r}] = None; from duotone.cli import main; main()"
    command = [sys.executable, "-c", code, "explore", str(fedbn.path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.strip().endswith("pip install duotone[explore]")
    assert "\n" not in done.stderr.strip()


def test_the_pages_files_are_in_the_package():
    static = files("duotone.explorer") / "static"
    names = {"index.html", "explorer.css", "main.js", "scatter.js"}
    assert names <= {entry.name for entry in static.iterdir()}
    views = {entry.name for entry in (static / "views").iterdir()}
    assert views == {
        f"{name}.js" for name in ("federation", "client", "sample", "inks", "maps", "training")
    }


def test_no_script_writes_markup_or_fetches_from_elsewhere():
    static = files("duotone.explorer") / "static"
    scripts = [*static.iterdir(), *(static / "views").iterdir()]
    for script in scripts:
        if script.name.endswith((".js", ".html", ".css")):
            text = script.read_text("utf-8")
            for trace in ("innerHTML", "insertAdjacentHTML", "eval(", "https://", "http://"):
                assert trace not in text, (script.name, trace)
