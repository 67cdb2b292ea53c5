from __future__ import annotations

import base64
import gzip
import html
import json
import re
import shutil

import numpy as np
import polars as pl
import pytest
from PIL import Image
from report_pages import figures_of
from scenes import made_score

from duotone.errors import ConfigError, RunError
from duotone.measures.panels import Grid, Note, Panel, PlainTable, Section, Sentence, View
from duotone.measures.score import Key
from duotone.measures.traffic import traffic_figure
from duotone.report import write_report
from duotone.report.page import Page, render
from duotone.report.plotly_code import plotly_code
from duotone.report.record import stored_pictures

SECTIONS = ("set-up", "learning", "separation", "maps", "communication", "repeat")


@pytest.fixture(scope="module", autouse=True)
def _fast_maps():
    """t-SNE is tested on its own; here a map of it need not be a good one."""
    patch = pytest.MonkeyPatch()
    patch.setattr("duotone.measures.maps.ITERATIONS", 250)
    yield
    patch.undo()


def text_of(page: str) -> str:
    """Return what a reader sees, scripts left out."""
    page = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", page, flags=re.S)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", page)))


def small_page(**changes) -> Page:
    table = pl.DataFrame({"round": [1], "bytes_up": [5], "bytes_down": [6]})
    panel = Panel("one", "A <figure>", (View((), traffic_figure(table)),), "look", "beware", table)
    grid = Grid("two", PlainTable("A table", ("name", ">value"), (("<i>x</i>", "1,5"),)))
    section = Section("part", "A part", "What is in it.", [panel, grid, Note("a note")])
    page = {"title": "T", "subtitle": "S", "verdict": [Sentence("Topic", "Said.")]}
    return Page(**{**page, "sections": [section], **changes})


def test_a_page_without_figures_holds_no_plotly():
    section = Section("part", "A part", "What is in it.", [Note("a note")])
    page = render(small_page(sections=[section]))
    assert 'id="plotly"' not in page
    assert len(page) < 30_000


def test_a_page_holds_plotly_once_and_forbids_every_request():
    page = render(small_page())
    packed = re.search(r'<script type="text/plain" id="plotly">([^<]+)</script>', page)
    assert packed is not None
    plain = gzip.decompress(base64.b85decode(packed[1].replace("/", "<")))
    assert plain == plotly_code(frozenset({"bar"})).encode()
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'")
    assert "http://" not in page
    assert "https://" not in page


def test_names_cannot_break_out_of_the_page():
    hostile = "</script><script>alert(1)</script>"
    table = pl.DataFrame({"round": [1], "bytes_up": [5], "bytes_down": [6]})
    figure = traffic_figure(table)
    figure.data[0].name = hostile
    panel = Panel("one", hostile, (View((), figure),), hostile, hostile, table)
    section = Section("part", hostile, hostile, [panel, Note(hostile)])
    page = render(small_page(title=hostile, sections=[section]))
    assert "<script>alert" not in page
    (figure,) = figures_of(page)
    assert figure["data"][0]["name"] == hostile


def test_the_data_behind_a_figure_and_a_table_can_be_downloaded():
    page = render(small_page())
    files = {
        name: base64.b64decode(content).decode().replace("\r\n", "\n")
        for content, name in re.findall(r'base64,([^"]+)" download="([^"]+)"', page)
    }
    assert files["one.csv"] == "round,bytes_up,bytes_down\n1,5,6\n"
    assert files["two.csv"] == 'name,value\n<i>x</i>,"1,5"\n'


def test_every_section_has_a_link_and_every_figure_its_remarks():
    page = render(small_page())
    assert '<a href="#part">A part</a>' in page
    assert "Look for look" in text_of(page)
    assert "Can mislead beware" in text_of(page)


def test_the_report_on_a_run_lies_in_its_folder_and_has_every_section(make_run):
    run = make_run()
    path = write_report(run)
    assert path == run.path / "report.html"
    assert path.stat().st_size < 8e6
    page = path.read_text()
    for section in SECTIONS:
        assert f'<section id="{section}"' in page
    text = text_of(page)
    assert "the worst is client b of group blue with 70.0 %" in text
    assert "an MLP probe names the client with 80.0 %" in text
    assert "duotone run --config config.toml" in text


def test_a_run_that_was_moved_reports_equally(make_run, tmp_path):
    run = make_run()
    before = write_report(run).read_bytes()
    shutil.move(run.path, tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "report.html").unlink()
    assert write_report(tmp_path / "elsewhere").read_bytes() == before
    assert str(tmp_path).encode() not in before


def test_a_run_without_codes_and_probes_still_reports(make_run):
    run = make_run()
    (run.path / "latents.npz").unlink()
    summary = run.folder.summary()
    scores = {k: v for k, v in summary["scores"].items() if not k.startswith("probe.")}
    run.folder.write_summary({**summary, "scores": scores})
    page = write_report(run).read_text()
    assert '<section id="maps"' not in page
    assert "No probe was trained" in text_of(page)


def save_picture(run, title: str, section: str, name: str = "t.png", **changes) -> None:
    """Add a picture to a run by hand."""
    place = run.path / "figures"
    place.mkdir(exist_ok=True)
    Image.fromarray(np.zeros((2, 2), np.uint8)).save(place / name)
    entry = {"file": name, "title": title, "caption": "slant", "mislead": "luck"}
    listed = place / "figures.json"
    known = json.loads(listed.read_text()) if listed.exists() else []
    listed.write_text(json.dumps([*known, {**entry, "section": section, **changes}]))


SWAP = {Key("swap", "label"): made_score(0.5)}
PAIR = {"content_client": "a", "style_client": "b", "label": 0.5, "style": None}


def test_pictures_and_the_swap_matrix_of_a_run_are_in_its_report(make_run):
    run = make_run(more=SWAP)
    save_picture(run, "Tilt", "traversals")
    run.folder.write_table("swap", {"matrix": [PAIR]})
    page = write_report(run).read_text()
    assert "Tilt" in page
    assert 'id="swap-matrix"' in page


@pytest.mark.parametrize("name", ["../run.json", "none.png"])
def test_a_picture_is_a_file_beside_the_list(make_run, name):
    run = make_run()
    save_picture(run, "Tilt", "swaps", file=name)
    with pytest.raises(RunError, match="not a file beside it"):
        write_report(run)


def test_a_picture_is_no_link_to_one_of_the_readers_own(make_run, tmp_path):
    run = make_run()
    save_picture(run, "Tilt", "swaps")
    own = run.path / "figures" / "t.png"
    own.rename(tmp_path / "scan.png")
    own.symlink_to(tmp_path / "scan.png")
    with pytest.raises(RunError, match=r"t\.png cannot be read"):
        stored_pictures(run.path)


def test_a_picture_is_a_png(make_run):
    run = make_run()
    save_picture(run, "Tilt", "swaps")
    (run.path / "figures" / "t.png").write_bytes(b"GIF")
    with pytest.raises(RunError, match="not a PNG"):
        write_report(run)


def test_what_each_client_generates_is_in_the_report(make_run):
    run = make_run(more={Key("generate", "fd"): made_score(12.5, unit="distance")})
    clients = [
        {"client": "a", "kind": "member", "style": "red", "fd": 12.5, "floor": 1.25},
        {"client": "b", "kind": "newcomer", "style": "new", "labels": 3.0},
    ]
    run.folder.write_table("generate", {"clients": clients, "pairs": []})
    page = write_report(run).read_text()
    assert "member a (red)" in page
    assert "12.50" in page


def test_what_each_pair_re_styles_is_in_the_report(make_run):
    run = make_run(more={Key("restyle", "attacker"): made_score(0.3)})
    pair = {"source": "a", "target": "b", "label_kept": 0.875, "attacker_informed": 0.5}
    run.folder.write_table("restyle", {"pairs": [pair]})
    page = write_report(run).read_text()
    assert "a as b" in page
    assert "0.88" in page


@pytest.mark.parametrize(
    ("measure", "question", "file"),
    [("swap", "label", "swap"), ("generate", "fd", "generate"), ("restyle", "attacker", "restyle")],
)
def test_damaged_details_are_a_clear_error(make_run, measure, question, file):
    run = make_run(more={Key(measure, question): made_score(0.5)})
    run.folder.write_table(file, {"something": "else"})
    with pytest.raises(RunError, match=f"{file}.json is damaged"):
        write_report(run)


def test_pictures_of_one_title_stand_together(make_run):
    run = make_run(more={Key("generate", "fd"): made_score(12.5, unit="distance")})
    run.folder.write_table("generate", {"clients": [], "pairs": []})
    for name in ("one", "two"):
        save_picture(run, f"Every style: client {name}", "samples", f"{name}.png")
    text = text_of(write_report(run).read_text())
    assert text.count("Every style") == 1
    assert text.count("slant") == 1
    assert "client one" in text
    assert "client two" in text


def test_a_run_of_an_earlier_version_is_a_clear_error(make_run):
    run = make_run()
    summary = run.folder.summary()
    scores = {
        n: {k: v for k, v in s.items() if k != "measure"} for n, s in summary["scores"].items()
    }
    run.folder.write_summary({**summary, "scores": scores})
    with pytest.raises(RunError, match="an earlier version of duotone made this run"):
        write_report(run)


def test_an_unfinished_run_is_refused_with_the_way_to_finish_it(make_run, change_json):
    run = make_run()
    change_json(run.path / "run.json", status="interrupted")
    with pytest.raises(RunError, match=r"is interrupted.*duotone resume"):
        write_report(run)


@pytest.mark.parametrize("file", ["summary.json", "run.json", "latents.npz", "metrics.csv"])
def test_a_truncated_file_is_a_clear_error(make_run, file):
    run = make_run()
    content = (run.path / file).read_bytes()
    (run.path / file).write_bytes(content[: len(content) // 3])
    with pytest.raises(RunError, match=file):
        write_report(run)


def test_a_foreign_folder_is_a_clear_error(tmp_path):
    (tmp_path / "notes").mkdir()
    with pytest.raises(RunError, match="not the folder of a run"):
        write_report(tmp_path / "notes")
    with pytest.raises(RunError, match="There is no run folder"):
        write_report(tmp_path / "nowhere")


def test_several_runs_are_compared_with_their_seeds_pooled(make_run, tmp_path):
    runs = [
        make_run(f"{method}{seed}", seed=seed, method=method, gain=gain)
        for method, gain in (("fedavg", 0.0), ("fedprox", 0.1))
        for seed in (0, 1)
    ]
    path = write_report(runs)
    assert path == tmp_path / "report.html"
    text = text_of(path.read_text())
    assert "2 entries, 4 runs" in text
    assert "Against fedavg" in text
    assert "Settings that differ" in text
    assert "method.name fedavg fedprox" in text
    assert "fedprox − fedavg: +5.0 points, 95 % interval" in text
    assert "not declared before the runs, so no verdict." in text
    with pytest.raises(ConfigError, match="no entry 'local'"):
        write_report(runs, reference="local")


def test_runs_on_different_partitions_are_not_ranked(make_run, change_json):
    first, second = make_run("first"), make_run("second", method="fedprox")
    change_json(second.path / "run.json", partition_fingerprint="other")
    with pytest.raises(RunError, match="the partition fingerprint differs"):
        write_report([first, second])
    text = text_of(write_report([first, second], anyway=True).read_text())
    assert "not ranked: the partition fingerprint differs" in text
    assert "Against fedavg" not in text


def test_the_file_can_be_chosen_but_not_be_a_folder(make_run, tmp_path):
    run = make_run()
    assert write_report(str(run.path), tmp_path / "new" / "r.html").is_file()
    with pytest.raises(ConfigError, match="is a folder"):
        write_report(run, tmp_path)
    with pytest.raises(ConfigError, match="nothing to compare"):
        write_report(run, reference="fedavg")


def test_the_first_screen_says_what_the_reader_got(make_run, change_json):
    run = make_run(method="fedbn")
    facts = run.folder.facts()
    parts = {**facts["parts"], "local": {"parameters": 60, "buffers": 0, "bytes": 240}}
    change_json(run.path / "run.json", parts=parts)
    text = text_of(write_report(run).read_text())
    assert "2 clients trained fedbn for 2 rounds; they share a part of one network" in text
    assert "Members reach 80.0 % accuracy and newcomers reach 60.0 % accuracy" in text
    assert "240 parameters shared by all (80 %) · 60 local to each client" in text
    assert text.index("2 clients trained") < text.index("What it says")


def test_a_comparison_opens_with_who_did_best_and_shows_the_pictures_of_entries(make_run):
    first, second = make_run("one"), make_run("two", method="local", gain=0.2)
    case = {
        "sample": 0,
        "class": 1,
        "label": 1,
        "clients": [
            {
                "client": client,
                "says": says,
                "probability": 0.9,
                "parts": dict.fromkeys(("mean", "sample", "habit", "reading"), 0.1),
            }
            for client, says in (("a", 1), ("b", 0))
        ],
    }
    second.folder.write_table("answers", {"case": case})
    page = write_report([first, second]).read_text()
    text = text_of(page)
    assert "For members local is highest (90.0 %), then fedavg (80.0 %)." in text
    assert "For newcomers fedavg (60.0 %) and local (60.0 %) are level." in text
    assert "highest for newcomers 60.0 % fedavg, level with local" in text
    assert "One seed each, so another may rank them differently." in text
    assert "local · One sample: client a says 1, client b says 0" in text
    assert page.count("data:image/svg+xml;base64,") == 1


def test_a_run_shows_its_first_screen_in_a_notebook(make_run, change_json):
    run = make_run()
    shown = run._repr_html_()
    assert "2 clients trained fedavg for 2 rounds" in shown
    assert "240 parameters shared · 0 local to each client" in shown
    assert shown.count("background:") == 1  # one ink
    change_json(run.path / "run.json", status="interrupted")
    assert "duotone resume" in run._repr_html_()
