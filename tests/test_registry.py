from __future__ import annotations

import math
from importlib.metadata import EntryPoint

import pytest

from duotone import registry
from duotone.errors import ConfigError, UnknownNameError
from duotone.registry import Registry, allow_code, check_file, own_code, trust_only


@pytest.fixture
def things() -> Registry:
    return Registry("thing", {"ordered": "collections:OrderedDict"}, listing="duotone things")


def test_a_name_is_imported_when_it_is_loaded(things):
    from collections import OrderedDict

    assert list(things) == ["ordered"]
    assert things.load("ordered") is OrderedDict


def test_an_import_path_is_a_name_too(things):
    import math

    assert things.load("math:pi") == math.pi


def test_an_unknown_name_suggests_the_nearest_and_says_where_to_look(things):
    with pytest.raises(UnknownNameError, match=r"Did you mean 'ordered'\? .*duotone things"):
        things.load("Orderd")
    with pytest.raises(UnknownNameError, match="cannot be imported"):
        things.load("no.such.module:Thing")


def test_plug_ins_add_names_but_never_replace_one(monkeypatch):
    points = [
        EntryPoint("mine", "math:tau", "duotone.things"),
        EntryPoint("ordered", "math:e", "duotone.things"),
    ]
    monkeypatch.setattr(
        registry, "entry_points", lambda group: points if group == "duotone.things" else []
    )
    things = Registry("thing", {"ordered": "collections:OrderedDict"})
    import math
    from collections import OrderedDict

    assert things.load("mine") == math.tau
    assert things.load("ordered") is OrderedDict


def test_code_that_a_file_names_needs_leave_and_code_that_was_typed_does_not():
    registry = Registry("model", {"known": "math:pi"})
    try:
        trust_only(["run", "--set", "model=math:tau", "math:e"])
        assert registry.load("known") == math.pi
        assert registry.load("math:tau") == math.tau
        assert registry.load("math:e") == math.e
        with pytest.raises(ConfigError, match=r"'math:inf'.*--allow-code"):
            registry.load("math:inf")
        allow_code()
        assert registry.load("math:inf") == math.inf
    finally:
        trust_only(None)
        allow_code(False)
    assert registry.load("math:inf") == math.inf, "a program of the user's own names what it likes"


NAMING_CODE = [
    {"model": "evil:Net"},
    {"method": "evil:Method"},
    {"method": {"name": "evil:Method"}},
    {"partition": {"scheme": "evil:Scheme"}},
    {"data": "evil:data"},
    {"entries": [{"name": "fine", "method": {"name": "evil:Method"}}]},
]


@pytest.mark.parametrize("values", NAMING_CODE)
def test_files_may_name_code_that_is_allowed_or_the_users_own(monkeypatch, values):
    monkeypatch.setattr("duotone.registry._own", set())
    with pytest.raises(ConfigError, match=r"'evil:.*--allow-code.*duotone\.allow_code\(\)"):
        check_file(values)
    try:
        allow_code()
        check_file(values)
    finally:
        allow_code(False)
    own_code(values)
    check_file(values)


def test_other_words_of_a_file_name_no_code():
    check_file(
        {
            "model": "cnn-bn",
            "data": "object:arrays",
            "method": {"name": "fedavg", "lr": 0.1},
            "partition": {"scheme": "natural", "newcomers": ["ward:north"]},
            "entries": [{"name": "a:b"}],
        }
    )
