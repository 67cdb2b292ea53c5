"""The page in a real browser: every view, every kind of run, and what people do there."""

from __future__ import annotations

import base64
import io
import json
import shutil
import subprocess
import sys
import time
from urllib.parse import urlsplit

import pytest
from explored_pages import finished
from PIL import Image

from duotone.explorer import start

webdriver = pytest.importorskip("selenium.webdriver")
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="there is no Chromium"),
]
VIEWS = ("federation", "client", "sample", "inks", "maps", "training")
TABLE = {"scheme": "natural", "max_test": 20}
TWO_CLASSES = {"scheme": "pathological", "clients": 8, "newcomers": 2, "classes_per_client": 2}
RUNS = {
    "feddva": {},
    "fedvc": {"method": {"name": "fedvc", "concepts": 3, "dimensions": 2}},
    "padpaf": {},
    "conditional": {"method": {"name": "padpaf", "conditional": True}},
    "content-style": {},
    "fedbn": {},
    "fedavg": {},
    "table": {"method": "fedrep", "data": "planted-rule-table", "partition": TABLE},
    "shares": {
        **{"method": "fedavg", "model": "mlp", "partition": TWO_CLASSES, "rounds": 15},
        **{"personalise": "prior", "evaluate_every": 15},
    },
}
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
)


class Browser:
    """Chromium without a window, and an explorer to look at."""

    def __init__(self, address, downloads):
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for flag in FLAGS:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
        service = webdriver.ChromeService(DRIVER)
        self.driver = webdriver.Chrome(options=options, service=service)
        self.address = address
        self.size(1280, 900)

    def size(self, width, height):
        more = {"deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride", {"width": width, "height": height, **more}
        )

    def dark(self):
        features = [{"name": "prefers-color-scheme", "value": "dark"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def open(self, place):
        """Open a view as if its address had been pasted into a new tab."""
        self.driver.get("about:blank")
        self.driver.get(f"{self.address}#/{place}")
        self.settle()

    def settle(self):
        """Wait until the view has all that it asked for."""
        busy = "return document.getElementById('main')?.getAttribute('aria-busy')"
        self.until(lambda: self.run(busy) == "false")

    def until(self, is_so, patience=90):
        end = time.monotonic() + patience
        while not is_so():
            assert time.monotonic() < end, self.run("return document.body.innerText")[:2000]
            time.sleep(0.05)

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def find(self, selector):
        return self.driver.find_element("css selector", selector)

    def press(self, words):
        """Press the button that says so."""
        buttons = "[...document.querySelectorAll('button')]"
        self.run(f"{buttons}.find(button => button.innerText === arguments[0]).click()", words)

    def click(self, selector):
        """Click where it is; the page scrolls smoothly, and a click would come too early."""
        found = self.find(selector)
        self.run("arguments[0].scrollIntoView({behavior: 'instant', block: 'center'})", found)
        found.click()

    def every(self, selector):
        return self.driver.find_elements("css selector", selector)

    def text(self):
        return self.run("return document.getElementById('main').innerText")

    def hash(self):
        return self.run("return location.hash")

    def overlaps(self):
        """Return pieces of the page that lie upon one another, none being part of the other."""
        return self.run(
            """const kinds = 'h2, h3, h4, p, button, select, img, tr, figcaption, .slider, canvas';
            const there = [...document.querySelectorAll('#main :is(' + kinds + '), footer p')]
              .filter(e => !e.closest('.features'))  // which scrolls
              .map(e => [e, e.getBoundingClientRect()]).filter(([, r]) => r.width && r.height);
            const over = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2
              && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2;
            const words = e => e.tagName + ' ' + (e.innerText || e.alt || '').slice(0, 60);
            return there.flatMap(([a, r], k) => there.slice(k + 1)
              .filter(([b, q]) => over(r, q) && !a.contains(b) && !b.contains(a))
              .map(([b]) => words(a) + ' | ' + words(b)));"""
        )

    def complaints(self):
        """Return what the console complained of."""
        return [line for line in self.driver.get_log("browser") if line["level"] == "SEVERE"]

    def hosts(self):
        """Return everybody that was asked for anything."""
        found = set()
        for line in self.driver.get_log("performance"):
            message = json.loads(line["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                parts = urlsplit(message["params"]["request"]["url"])
                if parts.scheme not in ("data", "blob", "about", "chrome"):
                    found.add(parts.hostname)
        return found


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    place = tmp_path_factory.mktemp("explored")
    return {name: finished(place / name, **({"method": name} | own)) for name, own in RUNS.items()}


@pytest.fixture(scope="module")
def browser(runs, tmp_path_factory):
    server = start(list(runs.values()))
    server.serve_beside()
    opened = Browser(server.address, tmp_path_factory.mktemp("downloads"))
    yield opened
    opened.driver.quit()
    server.stop()


@pytest.fixture(autouse=True)
def _nothing_goes_wrong_or_away(browser):
    """No test may leave a complaint in the console, or ask anybody but this machine."""
    browser.size(1280, 900)
    yield
    assert browser.complaints() == []
    assert browser.hosts() <= {"127.0.0.1"}


def number(name):
    return list(RUNS).index(name)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", RUNS)
def test_every_view_of_every_kind_of_run(browser, name, view):
    browser.open(f"{view}?run={number(name)}")
    text = browser.text()
    assert "failed" not in text
    assert "undefined" not in text
    assert "NaN" not in text
    assert len(text) > 80
    assert browser.overlaps() == []


@pytest.mark.parametrize("view", VIEWS)
def test_a_narrow_screen_never_scrolls_sideways(browser, view):
    browser.size(390, 844)
    browser.open(f"{view}?run={number('feddva')}")
    assert browser.run("return document.documentElement.scrollWidth") <= 390
    assert browser.overlaps() == []


def test_from_the_federation_to_a_client_to_a_sample_and_back(browser):
    browser.open(f"federation?run={number('fedbn')}")
    browser.click("table a")
    browser.until(lambda: browser.hash().startswith("#/client"))
    browser.settle()
    browser.click(".samples a.tile")
    browser.until(lambda: browser.hash().startswith("#/sample"))
    browser.settle()
    assert "Who would say what" in browser.text()
    browser.driver.back()
    browser.settle()
    assert browser.hash().startswith("#/client")


def test_a_client_on_the_map_can_be_clicked(browser):
    browser.open(f"federation?run={number('feddva')}")
    canvas = browser.find("canvas.map")
    browser.run("arguments[0].scrollIntoView({behavior: 'instant', block: 'center'})", canvas)
    box = canvas.rect
    actions = webdriver.ActionChains(browser.driver)
    # The outermost clients touch the margins; along the upper and left ones somebody is met.
    for step in range(0, int(box["width"]), 12):
        if browser.run("return !document.querySelector('.tip').hidden"):
            break
        for height in (-1, 0, 1):
            down = height * (box["height"] / 2 - 48)
            actions.move_to_element_with_offset(canvas, int(step - box["width"] / 2), int(down))
            actions.perform()
            if browser.run("return !document.querySelector('.tip').hidden"):
                break
    assert "client" in browser.find(".tip").text
    actions.click().perform()
    browser.until(lambda: browser.hash().startswith("#/client"))
    browser.settle()


def test_a_slider_draws_anew_and_the_address_restores_it(browser):
    browser.open(f"inks?run={number('feddva')}&client=0&sample=1")
    before = browser.find(".shot.huge").get_attribute("src")
    slider = browser.find(".ink.shared input[type=range]")
    browser.run(
        "arguments[0].value = arguments[0].max; arguments[0].dispatchEvent(new Event('input'))",
        slider,
    )
    browser.until(lambda: browser.find(".shot.huge").get_attribute("src") != before)
    moved, place = browser.find(".shot.huge").get_attribute("src"), browser.hash()
    browser.open(place.removeprefix("#/"))
    assert browser.find(".shot.huge").get_attribute("src") == moved
    browser.run(
        "[...document.querySelectorAll('button')].find(b => b.innerText === 'Reset').click()"
    )
    browser.until(lambda: browser.find(".shot.huge").get_attribute("src") == before)


def put(browser, slider, end):
    browser.run(
        "arguments[0].value = arguments[0][arguments[1]]; "
        "arguments[0].dispatchEvent(new Event('input'))",
        slider,
        end,
    )


def test_concepts_are_sliders_that_change_the_answer(browser):
    browser.open(f"inks?run={number('fedvc')}&client=0&sample=1")
    assert "concept 0" in browser.text()
    before = browser.find(".said").text
    put(browser, browser.find(".ink.local input[type=range]"), "min")
    browser.until(lambda: "local=" in browser.hash())
    browser.settle()
    assert "the sliders stand" in before


def test_shares_of_classes_are_sliders_that_change_the_answer(browser):
    browser.open(f"inks?run={number('shares')}&client=0&sample=1")
    says = browser.find(".said .bar-name").text
    other = "0" if says != "0" else "1"
    for slider in browser.every(".ink.classes input[type=range]"):
        put(browser, slider, "min")
    put(browser, browser.find(f".ink.classes input[aria-label='classes {other}']"), "max")
    browser.until(lambda: browser.find(".said .bar-name").text == other)
    place = browser.hash()
    assert "classes=" in place
    browser.open(place.removeprefix("#/"))
    assert browser.find(".said .bar-name").text == other
    browser.press("Reset")
    browser.until(lambda: browser.find(".said .bar-name").text == says)


def test_a_conditional_gan_is_asked_for_a_class(browser):
    browser.open(f"inks?run={number('conditional')}&client=0")
    before = browser.find(".shot.huge").get_attribute("src")
    browser.run(
        """const box = [...document.querySelectorAll('.pick')]
          .find(e => e.innerText.startsWith('draws the class')).querySelector('select');
        box.value = '3'; box.dispatchEvent(new Event('change'));"""
    )
    browser.until(lambda: "label=3" in browser.hash())
    browser.settle()
    assert browser.find(".shot.huge").get_attribute("src") != before


def test_the_first_view_leads_to_what_clients_disagree_about(browser):
    browser.open(f"federation?run={number('shares')}")
    browser.until(lambda: browser.every(".glance .hand"))
    assert "What clients disagree about" in browser.text()
    assert browser.overlaps() == []
    browser.click(".glance .hand")
    browser.until(lambda: browser.hash().startswith("#/sample"))
    browser.settle()
    assert len(browser.every(".who-group")) > 1, "not all say the same"


def test_a_run_that_is_deleted_is_a_clear_line(browser, runs, tmp_path):
    shutil.copytree(runs["fedbn"].path, tmp_path / "gone")
    server = start(tmp_path / "gone")
    server.serve_beside()
    ours, browser.address = browser.address, server.address
    try:
        browser.open("federation")
        shutil.rmtree(tmp_path / "gone")
        browser.find("body").send_keys("2")
        browser.until(lambda: "was deleted or moved while it was shown" in browser.text())
        assert [line["message"].split()[0] for line in browser.complaints()]  # answers of 409
    finally:
        browser.address = ours
        server.stop()


def test_an_own_image_is_dropped_and_questioned(browser):
    buffer = io.BytesIO()
    Image.new("L", (30, 30), 180).save(buffer, "PNG")
    browser.open(f"sample?run={number('fedbn')}")
    browser.run(
        """const bytes = Uint8Array.from(atob(arguments[0]), c => c.charCodeAt(0));
        const dropped = new DataTransfer();
        dropped.items.add(new File([bytes], 'own.png', { type: 'image/png' }));
        document.dispatchEvent(new DragEvent('drop', { dataTransfer: dropped, bubbles: true }));""",
        base64.b64encode(buffer.getvalue()).decode(),
    )
    browser.until(lambda: "upload=" in browser.hash())
    browser.settle()
    assert "Your own image" in browser.text()
    assert "says" in browser.text()


def test_a_region_of_the_map_becomes_a_grid(browser):
    browser.open(f"maps?run={number('feddva')}")
    canvas = browser.find(".two-maps canvas")
    browser.run("arguments[0].focus()", canvas)
    canvas.send_keys(webdriver.Keys.ENTER)
    browser.until(lambda: len(browser.every(".selection .tile")) > 10)


def test_keys_alone_lead_through_the_page(browser):
    browser.open(f"federation?run={number('feddva')}")
    body = browser.find("body")
    for key, view in zip("23456", VIEWS[1:], strict=True):
        body.send_keys(key)
        browser.until(lambda view=view: browser.hash().startswith(f"#/{view}"))
        browser.settle()
    body.send_keys("3")
    browser.until(lambda: browser.hash().startswith("#/sample"))
    browser.settle()
    body.send_keys(webdriver.Keys.ARROW_RIGHT)
    browser.until(lambda: "sample=1" in browser.hash())
    browser.settle()
    body.send_keys("]")
    browser.until(lambda: "client=1" in browser.hash())
    browser.settle()
    assert "shared=" not in browser.hash()  # where sliders stood belongs to another sample
    body.send_keys("4")
    browser.until(lambda: browser.hash().startswith("#/inks"))
    browser.settle()
    before = browser.find(".shot.huge").get_attribute("src")
    slider = browser.find(".ink.shared input[type=range]")
    browser.run("arguments[0].focus()", slider)
    for _ in range(40):
        slider.send_keys(webdriver.Keys.ARROW_RIGHT)
    browser.until(lambda: browser.find(".shot.huge").get_attribute("src") != before)
    # Everything that can be used can be reached, and shows that it has the focus.
    reached = browser.run(
        """return [...document.querySelectorAll('a[href], button, select, input, canvas')]
        .filter(e => e.offsetParent && !e.disabled && e.tabIndex < 0).length"""
    )
    assert reached == 0


def test_everything_has_a_name(browser):
    for view in VIEWS:
        browser.open(f"{view}?run={number('feddva')}")
        nameless = browser.run(
            """return [...document.querySelectorAll('button, a[href], select, input, canvas, img')]
            .filter(e => e.offsetParent && !(e.getAttribute('aria-label') || e.innerText
              || e.closest('label')?.innerText || e.getAttribute('alt') !== null
              || e.getAttribute('aria-hidden'))).map(e => e.outerHTML)"""
        )
        assert nameless == [], view


def test_dark_is_dark(browser):
    browser.dark()
    try:
        browser.open("federation?run=0")
        colour = browser.run("return getComputedStyle(document.body).backgroundColor")
        assert colour == "rgb(20, 24, 27)"
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_the_view_is_saved_as_one_page_that_runs_nothing(browser, tmp_path):
    behaviour = {"behavior": "allow", "downloadPath": str(tmp_path)}
    browser.driver.execute_cdp_cmd("Browser.setDownloadBehavior", behaviour)
    browser.open(f"federation?run={number('feddva')}")
    expected = browser.find(".lead").text
    browser.press("Save this view")
    browser.until(lambda: list(tmp_path.glob("*.html")))
    (saved,) = tmp_path.glob("*.html")
    text = saved.read_text("utf-8")
    assert "<script" not in text
    assert "default-src 'none'" in text
    assert "127.0.0.1" not in text  # nobody who gets the file learns the token
    browser.driver.get(saved.as_uri())
    assert browser.find(".lead").text == expected
    assert browser.every("img.map")
    for words, ending in (("CSV", "csv"), ("JSON", "json"), ("PNG", "png")):
        browser.open(f"federation?run={number('feddva')}")
        browser.press(words)
        browser.until(lambda ending=ending: list(tmp_path.glob(f"*.{ending}")))
    browser.hosts()  # the saved file is no host


def test_a_running_run_is_followed(browser, tmp_path):
    place = tmp_path / "live"
    command = [sys.executable, "-m", "duotone", "run", "fedavg", "--data", "mini-digits", "-q"]
    command += ["--clients", "3", "--partition", "iid", "--rounds", "12", "--out", str(place)]
    settings = ("backend=serial", "latents=0", "evaluate_every=1", "partition.max_train=60")
    command += [word for setting in settings for word in ("--set", setting)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as running:
        browser.until(lambda: (place / "run.json").exists())
        server = start(place)
        server.serve_beside()
        ours, browser.address = browser.address, server.address
        try:
            browser.open("training")
            first = browser.find("progress").get_attribute("value")
            browser.until(lambda: browser.find("progress").get_attribute("value") != first)
            running.wait(timeout=300)
            browser.until(lambda: "finished" in browser.find(".lead").text)
            browser.until(lambda: browser.every(".plot .scatterlayer"))
        finally:
            browser.address = ours
            server.stop()
