"""How long the explorer lets people wait: its start, a slider, the first view, a full map."""

from __future__ import annotations

import shutil
import tempfile
import time
import urllib.request
import warnings
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import duotone

SLIDES = 200
DOTS = 10_000
CLIENTS = 20
FRAMES = 60


def arrays(rows: int, tested: int) -> dict[str, Any]:
    """Return made-up images of 28×28."""
    rng = np.random.default_rng(0)
    return {
        "x_train": rng.integers(0, 256, (rows, 28, 28), dtype=np.uint8),
        "y_train": rng.integers(0, 10, rows),
        "x_test": rng.integers(0, 256, (tested, 28, 28), dtype=np.uint8),
        "y_test": rng.integers(0, 10, tested),
    }


def made(out: Path, method: str, clients: int, **settings: Any) -> duotone.Run:
    """Make a run of one round."""
    each = DOTS // CLIENTS // 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return duotone.run(
            method={"name": method, "epochs": 1},
            data=arrays(clients * (each + 60), clients * each),
            partition={"scheme": "iid", "clients": clients},
            rounds=1,
            sampled=2,
            curve=[],
            out=out,
            **settings,
        )


def asked(address: str) -> float:
    """Ask once; return the seconds it took."""
    began = perf_counter()
    with urllib.request.urlopen(address, timeout=60) as response:
        response.read()
    return perf_counter() - began


def slides(run: duotone.Run) -> dict[str, float]:
    """Measure the start, and sliders one after the other, as the page sends them."""
    from duotone.explorer import start

    began = perf_counter()
    server = start(run)
    server.serve_beside()
    asked(server.address)
    ready = perf_counter() - began
    address = f"{server.address}api/0/drawn?client=1&sample=2&local="
    asked(address.removesuffix("&local="))
    places = np.random.default_rng(1).normal(size=(SLIDES, 4)).round(3)
    seconds = [asked(address + ",".join(map(str, row))) for row in places]
    server.stop()
    low, high = np.quantile(seconds, [0.5, 0.95])
    return {"start": ready, "slider": float(low), "slider 95 %": float(high)}


def seen(run: duotone.Run) -> dict[str, float] | None:
    """Measure the first view and the frames of a full map that is moved; None without Chromium."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and driver):
        return None
    from selenium import webdriver

    from duotone.explorer import start

    server = start(run)
    server.serve_beside()
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        browser.get("about:blank")
        began = perf_counter()
        browser.get(server.address)
        _settled(browser)
        first = perf_counter() - began
        browser.get("about:blank")
        browser.get(f"{server.address}#/maps")
        _settled(browser)
        # Time of the page's own thread: other programs on the machine do not count.
        browser.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
        before = _worked(browser)
        frames = browser.execute_async_script(_PAN, FRAMES)
        work = (_worked(browser) - before) / FRAMES
    finally:
        browser.quit()
        server.stop()
    low, high = np.quantile(frames, [0.5, 0.95])
    passed = {"frame": float(low) / 1000, "frame 95 %": float(high) / 1000}
    return {"first view": first, "work per frame": work, **passed}


# Drags the map a little in every frame, and notes when the next one comes.
_PAN = """
const [count, done] = arguments;
const canvas = [...document.querySelectorAll(".two-maps canvas, .one-map canvas")].at(-1);
const box = canvas.getBoundingClientRect();
const send = (name, x) => canvas.dispatchEvent(new PointerEvent(name, {
  pointerId: 1, clientX: box.left + 200 + x, clientY: box.top + 200, bubbles: true }));
canvas.setPointerCapture = () => {};
send("pointerdown", 0);
const times = [];
let step = 0;
let last = null;
const frame = (now) => {
  if (last !== null) times.push(now - last);
  last = now;
  send("pointermove", 5 + 2 * step);
  if (++step <= count) requestAnimationFrame(frame);
  else { send("pointerup", 0); done(times); }
};
requestAnimationFrame(frame);
"""


def _worked(browser: Any) -> float:
    found = browser.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return float({one["name"]: one["value"] for one in found}["TaskDuration"])


def _settled(browser: Any) -> None:
    question = "return document.getElementById('main')?.getAttribute('aria-busy')"
    while browser.execute_script(question) != "false":
        time.sleep(0.01)


def measure() -> dict[str, Any]:
    """Measure all of it; return seconds."""
    import duotone.explorer  # noqa: F401  loading libraries is not what is measured

    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        figures |= slides(made(Path(folder) / "drawn", "feddva", 4, level="scores"))
        run = made(Path(folder) / "map", "fedbn", CLIENTS, latents=DOTS // CLIENTS // 2)
        figures |= seen(run) or {}
    print(f"\nExplorer: {SLIDES} slider steps, a map of {DOTS:,} dots; seconds")
    for name, value in figures.items():
        print(f"{name:>15} {value:>8.4f}")
    return {"dots": DOTS, "slides": SLIDES, "seconds": figures}
