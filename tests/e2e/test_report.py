"""The report as a reader gets it: made by the command, opened in a real browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("brief_measures")

BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--window-size=1280,900",
    "--virtual-time-budget=20000",
    "--dump-dom",
)
NO_BROWSER = (
    "NO BROWSER FOUND: the report was NOT opened in Chromium. Install chromium to check it."
)

WATCH = """
<script>
window.problems = [];
addEventListener("error", (event) => problems.push(String(event.message)));
addEventListener("unhandledrejection", (event) => problems.push(String(event.reason)));
addEventListener("securitypolicyviolation", (event) => problems.push(event.blockedURI));
for (const level of ["error", "warn"]) {
  const say = console[level];
  console[level] = (...words) => { problems.push(words.join(" ")); say(...words); };
}
</script>
"""
TELL = """
<script>
const ready = () => document.documentElement.dataset.ready === "yes";
const wait = (then) => ready() ? setTimeout(then, 500) : setTimeout(() => wait(then), 100);
addEventListener("load", () => wait(() => {
  const themes = [];
  for (let i = 0; i < 2; i++) {
    document.getElementById("theme").click();
    themes.push(document.querySelector(".plot").layout.font.color);
  }
  for (const input of document.querySelectorAll("input[type=radio]")) input.click();
  setTimeout(() => {
    const size = (found) => found.offsetWidth * found.offsetHeight;
    const shown = [...document.querySelectorAll(".plot:not([hidden])")];
    const told = document.createElement("pre");
    told.id = "told";
    told.textContent = JSON.stringify({
      problems,
      requests: performance.getEntriesByType("resource").map((entry) => entry.name),
      sections: Object.fromEntries(
        [...document.querySelectorAll("main > section")].map((found) => [found.id, size(found)])),
      plots: shown.map((found) => size(found)),
      drawn: shown.map((found) => found.querySelectorAll(".main-svg").length),
      wide: document.documentElement.scrollWidth - innerWidth,
      themes,
    });
    document.body.append(told);
  }, 500);
}));
</script>
"""


def opened(path: Path, folder: Path) -> dict:
    """Open a page in a browser, use its buttons, and return what it says about itself."""
    watched = folder / "watched.html"
    page = path.read_text()
    watched.write_text(page.replace("</title>", "</title>" + WATCH, 1) + TELL)
    done = subprocess.run(
        [str(BROWSER), *FLAGS, f"--user-data-dir={folder / 'profile'}", watched.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found = re.search(r'<pre id="told">(.*?)</pre>', done.stdout, re.S)
    assert found is not None, done.stderr[-2000:]
    told: dict = json.loads(found[1].replace("&gt;", ">").replace("&lt;", "<"))
    return told


def check(told: dict, *sections: str) -> None:
    assert told["problems"] == []
    assert [name for name in told["requests"] if not name.startswith(("data:", "blob:"))] == []
    assert set(sections) <= set(told["sections"])
    assert all(size > 0 for size in told["sections"].values()), told["sections"]
    assert told["plots"]
    assert all(size > 0 for size in told["plots"])
    assert all(count > 0 for count in told["drawn"])
    assert told["wide"] <= 0
    assert told["themes"][0] != told["themes"][1]


def make(cli, method: str, out: str) -> None:
    cli(
        *("run", method, "--data", "mini-digits", "--style", "none", "--partition", "dirichlet"),
        *("--clients", "4", "--rounds", "2", "--model", "mlp", "--out", out, "-q"),
        *("--set", "partition.newcomers=1", "--set", "evaluate_every=1", "--set", "latents=20"),
        *("--set", "backend=serial", "--set", "epochs=1"),
    )


def test_reports_open_offline_with_every_section_and_no_error(cli, folder, capsys):
    make(cli, "fedavg", "fedavg")
    make(cli, "local", "local")
    assert cli("report", "fedavg").stdout == "Report: fedavg/report.html\n"
    assert cli("report", "fedavg", "local").stdout == "Report: report.html\n"
    assert Path("report.html").stat().st_size < 1_000_000
    if BROWSER is None:
        with capsys.disabled():
            sys.stderr.write(f"\n{NO_BROWSER}\n")
        pytest.skip(NO_BROWSER)
    one = opened(Path("fedavg/report.html"), folder)
    check(one, "verdict", "set-up", "learning", "newcomers", "separation", "maps")
    check(one, "holdings", "fairness", "calibration", "communication", "repeat")
    check(opened(Path("report.html"), folder), "verdict", "scores", "curves", "settings", "repeat")


def test_a_folder_that_is_no_run_is_refused_in_one_line(cli, folder):
    (folder / "notes").mkdir()
    said = cli("report", "notes", code=1)
    assert said.stdout == ""
    assert said.stderr == (
        "error: notes is not the folder of a run: it lacks run.json or config.toml.\n"
    )
