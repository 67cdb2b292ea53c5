from __future__ import annotations

import pytest

from duotone.config import RunConfig, merged, parse_assignment, read_toml, validated, write_toml
from duotone.errors import ConfigError
from duotone.methods import METHODS


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("rounds=3", {"rounds": 3}),
        ("lr=0.05", {"method": {"lr": 0.05}}),
        ("method.lr=1", {"method": {"lr": 1}}),
        ("partition.alpha=0.1", {"partition": {"alpha": 0.1}}),
        ('partition.members=["mnist", "usps"]', {"partition": {"members": ["mnist", "usps"]}}),
        ("model=cnn-bn", {"model": "cnn-bn"}),
        ("variant=paper", {"method": {"variant": "paper"}}),
        ("data=a=b.npz", {"data": "a=b.npz"}),
        ("partition=iid", {"partition": {"scheme": "iid"}}),
        ("method=local", {"method": {"name": "local"}}),
    ],
)
def test_assignments_find_their_place_and_type(text, value):
    assert parse_assignment(text) == value


@pytest.mark.parametrize("text", ["lr", "=3", ""])
def test_an_assignment_needs_a_key_and_an_equals_sign(text):
    with pytest.raises(ConfigError, match="key=value"):
        parse_assignment(text)


def test_later_settings_win_table_by_table():
    base = {"rounds": 1, "partition": {"scheme": "iid", "clients": 3}}
    assert merged(base, {"partition": {"clients": 5}}) == {
        "rounds": 1,
        "partition": {"scheme": "iid", "clients": 5},
    }
    assert base["partition"]["clients"] == 3


def test_a_configuration_survives_the_file(tmp_path):
    config = RunConfig(
        rounds=3, partition={"scheme": "iid", "members": ["a"]}, method={"name": "x"}
    )
    path = tmp_path / "c.toml"
    path.write_text(write_toml(config.model_dump()))
    assert RunConfig(**read_toml(path)) == config


def test_every_problem_is_named_with_what_was_given():
    with pytest.raises(ConfigError) as caught:
        validated(RunConfig, {"rounds": -1, "sead": 3, "device": "gpu"}, owner="a run")
    problems = caught.value.args
    assert len(problems) == 3
    text = str(caught.value)
    assert text.startswith("3 settings are wrong:")
    assert "rounds = -1 is wrong" in text
    assert "Did you mean 'seed'?" in text
    assert "'auto', 'cpu' or 'cuda'" in text


def test_a_file_that_is_not_toml_is_named(tmp_path):
    (tmp_path / "c.toml").write_text("rounds = = 3")
    with pytest.raises(ConfigError, match=r"c\.toml cannot be read"):
        read_toml(tmp_path / "c.toml")


@pytest.mark.parametrize("name", METHODS)
def test_no_setting_asks_for_a_network_that_fills_the_memory(name):
    kind = METHODS.load(name)
    sizes = [field for field in kind.Config.model_fields if field.endswith(("_dim", "width"))]
    for field in sizes:
        with pytest.raises(ConfigError, match="less than or equal to"):
            validated(kind.Config, {field: 10**9}, owner="a method")
