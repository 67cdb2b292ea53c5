from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scenes import made_score

from duotone.measures.curve import newcomer_figure
from duotone.measures.holdings import partition_figure
from duotone.measures.inks import PART, ROLE, SERIES, natural, plain, series
from duotone.measures.learning_figures import (
    client_figure,
    group_figure,
    hardest_groups,
    learning_figure,
    overlaid_figure,
)
from duotone.measures.maps import map_figure
from duotone.measures.probe_figures import probe_figure
from duotone.measures.probes import probe_table
from duotone.measures.score import Key
from duotone.measures.swaps import swap_figure
from duotone.measures.traffic import traffic_figure
from duotone.partition.lines import Line


def clients(count: int) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "client": [f"c{i}" for i in range(count)],
            "group": ["g"] * count,
            "kind": ["member"] * (count - 1) + ["newcomer"],
            "value": [0.5 + 0.4 * i / count for i in range(count)],
        }
    )


def curves(*kinds: str) -> pl.DataFrame:
    return pl.DataFrame(
        [
            {"round": r, "kind": kind, "group": "g", "mean": 0.5 + r / 10, "std": 0.1}
            for kind in kinds
            for r in (1, 2)
        ]
    )


def trace(figure, name):
    return next(found for found in figure.data if found.name == name and found.mode != "lines")


def test_the_band_around_a_curve_is_one_standard_deviation_wide():
    figure = learning_figure(curves("member"), "accuracy")
    band = next(found for found in figure.data if found.fill == "toself")
    np.testing.assert_allclose(band.y, [0.7, 0.8, 0.6, 0.5])
    np.testing.assert_allclose(trace(figure, "members").y, [0.6, 0.7])


def test_the_band_of_an_accuracy_stays_between_zero_and_one():
    table = pl.DataFrame({"round": [1], "kind": ["member"], "mean": [0.95], "std": [0.2]})
    band = learning_figure(table, "accuracy").data[0]
    assert max(band.y) == 1
    error = learning_figure(table, "mse").data[0]
    assert max(error.y) == pytest.approx(1.15)


def test_members_and_newcomers_differ_in_more_than_colour():
    figure = learning_figure(curves("member", "newcomer"), "accuracy")
    member, newcomer = trace(figure, "members"), trace(figure, "newcomers")
    assert member.line.dash != newcomer.line.dash
    assert member.marker.symbol != newcomer.marker.symbol


def test_bars_are_sorted_and_the_worst_client_is_named():
    figure = client_figure(clients(4), "accuracy")
    assert list(figure.layout.yaxis.ticktext) == ["c3", "c2", "c1", "<b>worst: c0</b>"]


def test_the_worst_of_an_error_is_the_largest():
    figure = client_figure(clients(4), "mse")
    assert figure.layout.yaxis.ticktext[-1] == "<b>worst: c3</b>"


def test_of_many_clients_the_worst_sixty_are_drawn_with_room_for_each():
    figure = client_figure(clients(100), "accuracy")
    assert sum(len(found.y) for found in figure.data) == 60
    assert figure.layout.yaxis.ticktext[-1] == "<b>worst: c0</b>"
    assert figure.layout.height >= 60 * 12


def test_a_small_figure_per_group_of_at_most_sixteen_of_the_worst():
    table = pl.DataFrame(
        [
            {"round": 1, "kind": "member", "group": f"g{i}", "mean": i / 20, "std": 0.0}
            for i in range(20)
        ]
    )
    assert hardest_groups(table, "accuracy") == [f"g{i}" for i in range(16)]
    assert hardest_groups(table, "mse") == [f"g{i}" for i in range(4, 20)]
    titles = [found.text for found in group_figure(table, "accuracy").layout.annotations]
    assert titles == [f"g{i}" for i in range(16)]


def test_the_partition_picture_shows_shares_in_the_ink_of_the_kind():
    lines = [
        Line("a", "red", "member", np.array([0.25, 0.75]), np.array([40])),
        Line("b", "red", "newcomer", np.array([1.0, 0.0]), np.array([10])),
    ]
    figure = partition_figure(lines, "label", [str(i) for i in range(len(lines[0].shares))])
    members, newcomers = (found for found in figure.data if found.type == "heatmap")
    np.testing.assert_allclose(members.z, [[0.25, 0.75], [np.nan, np.nan]])
    np.testing.assert_allclose(newcomers.z, [[np.nan, np.nan], [1.0, 0.0]])
    assert members.colorscale[-1][1] == ROLE["member"]
    assert [found.x for found in figure.data if found.type == "bar"] == [(40.0,), (10.0,)]
    assert list(figure.layout.yaxis.ticktext) == ["a · red", "b · red"]
    assert len(figure.layout.shapes) == 1  # between the member and the newcomer


def test_bytes_are_shown_as_megabytes():
    table = pl.DataFrame({"round": [1, 2], "bytes_up": [2_000_000, 0], "bytes_down": [500_000, 0]})
    up, down = traffic_figure(table).data
    assert list(up.y) == [2.0, 0.0]
    assert list(down.y) == [0.5, 0.0]


def test_points_of_the_newcomer_curve_are_evenly_spaced_words():
    table = pl.DataFrame(
        {"point": ["0", "5", "all"], "mean": [0.1, 0.2, 0.3], "std": [0.0, 0.0, 0.0]}
    )
    figure = newcomer_figure(table, "accuracy")
    assert figure.layout.xaxis.type == "category"
    assert list(figure.data[0].x) == ["0", "5", "all"]


def test_a_curve_for_every_entry():
    table = pl.DataFrame(
        {
            "entry": ["x", "x", "y"],
            "round": [1, 2, 1],
            "mean": [0.1, 0.2, 0.3],
            "std": [0.0, 0.0, 0.0],
        }
    )
    figure = overlaid_figure(table, "accuracy")
    assert list(trace(figure, "x").y) == [0.1, 0.2]
    assert list(trace(figure, "y").y) == [0.3]


def test_probes_of_the_two_parts_wear_the_two_inks_beside_their_references():
    scores = {
        Key("probe", "client", part=part, variant=v): made_score(value, low=value - 0.1, high=1.0)
        for part, value in (("shared", 0.3), ("local", 0.9))
        for v in ("", "linear", "chance", "control", "untrained")
    }
    figure = probe_figure(probe_table(scores))
    by_name = {found.name: found for found in figure.data}
    shared = by_name["shared part, MLP"]
    assert (list(shared.x), list(shared.y)) == ([0.3], [0])
    assert shared.marker.color == PART["shared"]
    np.testing.assert_allclose(shared.error_x.array, [0.7])
    np.testing.assert_allclose(shared.error_x.arrayminus, [0.1])
    assert by_name["local part, linear"].marker.color == PART["local"]
    assert list(by_name["chance"].y) == [0, 1]
    assert {"dealt at random", "untrained network"} <= set(by_name)


def map_points(label: list) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "part": ["shared", "shared", "local", "local"],
            "x": [0.0, 1.0, 2.0, 3.0],
            "y": [0.0] * 4,
            "client": ["a", "b", "a", "b"],
            "group": ["g"] * 4,
            "label": label,
            "kind": ["member", "newcomer"] * 2,
        }
    )


def test_a_map_has_a_panel_for_each_part_and_open_marks_for_newcomers():
    figure = map_figure(map_points([0, 1, 0, 1]), "client", {"shared": "s", "local": "l"})
    found = {(t.name, t.xaxis): t for t in figure.data}
    assert set(found) == {("a", "x"), ("a", "x2"), ("b", "x"), ("b", "x2")}
    assert list(found["b", "x2"].x) == [3.0]
    assert found["b", "x"].marker.symbol[0].endswith("-open")
    assert not found["a", "x"].marker.symbol[0].endswith("-open")
    assert (figure.layout.xaxis.title.text, figure.layout.xaxis2.title.text) == ("s", "l")


def test_a_continuous_label_colours_a_map_by_a_scale():
    points = map_points([0.5, 1.5, 0.5, 1.5])
    figure = map_figure(points, "label", {"shared": "s", "local": "l"})
    assert list(figure.data[0].marker.color) == [0.5, 1.5]
    assert not figure.layout.showlegend


def test_the_swap_matrix_has_content_in_rows_and_the_local_part_in_columns():
    pairs = pl.DataFrame(
        {
            "content_client": ["c10", "c10", "c9"],
            "style_client": ["c9", "c10", "c9"],
            "label": [0.1, 0.2, None],
        }
    )
    heat = swap_figure(pairs, "label").data[0]
    assert list(heat.y) == ["c9", "c10"]
    np.testing.assert_allclose(heat.z, [[np.nan, np.nan], [0.1, 0.2]])


def test_names_are_never_read_as_markup():
    table = clients(2).with_columns(client=pl.Series(["<b>x</b>", "y"]))
    assert "<b>x</b>" not in client_figure(table, "accuracy").to_json()
    assert plain("<a>&") == "&lt;a&gt;&amp;"


def test_thirty_five_things_look_different():
    assert len({series(place)[:2] for place in range(35)}) == 35
    assert len(SERIES) == 7


def test_names_with_numbers_are_sorted_as_people_do():
    assert sorted(["c10", "c9", "b", "10", "9"], key=natural) == ["9", "10", "b", "c9", "c10"]
