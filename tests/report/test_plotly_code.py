from __future__ import annotations

import shutil
import subprocess

import pytest
from plotly.offline import get_plotlyjs

from duotone.report.plotly_code import plotly_code, trimmed

# A bundle as Plotly's is built: wrappers, modules that call one another, two modules in one unit
# (k and its inner l), a list of kinds, and what is returned.
BEGIN = "var P=(()=>{var L=(e,t,r)=>()=>{e()},M=(e,t)=>()=>{t()};"
CORE = "var core=M((a,b)=>{b.exports=axes()});var axes=M(a=>{a.x=1});"
BAR = 'var bar=M((a,b)=>{b.exports={moduleType:"trace",name:"bar",plot:axes(),x:ticks()}});'
TICKS = "var ticks=M((a,b)=>{b.exports=inner()});"
PIE = 'var pie=M((a,b)=>{b.exports={moduleType:"trace",name:"pie",plot:world()}});'
WORLD = (
    'var world=M((a,b)=>{b.exports="large"});function hoisted(){}var q,inner=L(()=>{hoisted()});'
)
BOX = 'var box=M((a,b)=>{b.exports={moduleType:"trace",name:"box",plot:none()}});'
NONE = "var none=M((a,b)=>{b.exports=a.core()});"
PASS = "var lib=M((a,b)=>{b.exports=bar()});"
ENTRY = "var all=M((a,b)=>{var c=core();c.register([lib(),pie(),box(),odd()]);b.exports=c});"
END = "return all();})();/* licence */"
BUNDLE = BEGIN + CORE + BAR + TICKS + PIE + WORLD + BOX + NONE + PASS + ENTRY + END


def test_a_bundle_keeps_what_the_kinds_call_and_nothing_else():
    wanted = ENTRY.replace("lib(),pie(),box(),odd()", "lib()")
    # World lies in one unit with what ticks call, so it stays; pie, box and none go.
    assert trimmed(BUNDLE, {"bar"}) == BEGIN + CORE + BAR + TICKS + WORLD + PASS + wanted + END
    wanted = ENTRY.replace("lib(),pie(),box(),odd()", "box()")
    assert trimmed(BUNDLE, {"scatter", "box"}) == BEGIN + CORE + BOX + NONE + wanted + END


def test_kinds_of_the_core_need_no_place_on_the_list():
    wanted = ENTRY.replace("lib(),pie(),box(),odd()", "")
    assert trimmed(BUNDLE, {"scatter"}) == BEGIN + CORE + wanted + END


@pytest.mark.parametrize(
    "bundle",
    [
        "Plotly = {};",
        "",
        BUNDLE.replace(".register(", ".enrol("),
        BUNDLE.replace("return all()", "return some()"),
        BUNDLE.replace("=M(", "=N("),
    ],
)
def test_a_bundle_of_another_form_stays_whole(bundle):
    assert trimmed(bundle, {"bar"}) == bundle


def test_a_kind_that_is_not_on_the_list_takes_the_whole():
    assert trimmed(BUNDLE, {"bar", "odd"}) == BUNDLE


def test_a_version_that_nobody_looked_at_stays_whole(monkeypatch):
    monkeypatch.setattr("duotone.report.plotly_code.get_plotlyjs_version", lambda: "99.0.0")
    assert plotly_code(frozenset({"bar"})) == get_plotlyjs()


def test_the_installed_library_becomes_a_quarter_and_keeps_its_licences():
    whole, part = get_plotlyjs(), plotly_code(frozenset({"bar", "heatmap", "scatter"}))
    assert len(part) < len(whole) / 4
    assert part.startswith(whole[:200])
    notes = "/*! Bundled license information:"
    assert part[part.rindex(notes) :] == whole[whole.rindex(notes) :]


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not there to read JavaScript")
@pytest.mark.parametrize("kinds", [{"scatter"}, {"bar", "heatmap", "scatter"}, {"pie", "violin"}])
def test_what_is_left_is_javascript(kinds, tmp_path):
    place = tmp_path / "plotly.js"
    place.write_text(plotly_code(frozenset(kinds)), encoding="utf-8")
    subprocess.run(["node", "--check", str(place)], check=True)
