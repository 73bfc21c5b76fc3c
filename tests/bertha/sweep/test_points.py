"""The points of a sweep, from grids and files."""

import json

import pytest

from bertha.errors import UserError
from bertha.sweep.pareto import pareto_front
from bertha.sweep.points import Point, grid, parse_value, point_of, read_points


def test_a_grid_is_all_combinations():
    points = grid({"array_n": [4, 8], "latency": [10, 20, 30]})
    assert len({point.key for point in points}) == 6
    assert {(point.config.array_n, point.latency) for point in points} == {
        (n, latency) for n in (4, 8) for latency in (10, 20, 30)
    }


def test_values_of_text():
    assert parse_value("scratchpad_bytes", "256K") == 1 << 18
    assert parse_value("scratchpad_bytes", "2m") == 1 << 21
    assert parse_value("latency", " 40 ") == 40
    assert parse_value("sentences", "20+40") == (20, 40)
    assert parse_value("bandwidth", "0.5x") == "0.5x"
    assert parse_value("bandwidth", "2.5") == 2.5
    for name, text in (("latency", "soon"), ("bandwidth", "0x"), ("sentences", "20,40")):
        with pytest.raises(UserError, match=f"{name} can't be {text!r}"):
            parse_value(name, text)


def test_bandwidth_by_the_bus():
    assert point_of({"axi_data_bits": 32, "bandwidth": "0.25x"}).bytes_per_cycle == 1
    assert point_of({"axi_data_bits": 32}).bytes_per_cycle == 8  # as runs have it
    assert point_of({"axi_data_bits": 128}).bytes_per_cycle == 16
    assert point_of({"bandwidth": 3}).bytes_per_cycle == 3


def test_what_is_as_by_default_makes_no_other_point():
    assert point_of({"latency": 100, "recipe": "w8a8-split"}).key == Point().key
    assert point_of({"latency": 100, "model": ""}).key == Point().key


def test_files(tmp_path):
    table = tmp_path / "points.csv"
    table.write_text("model,array_n,bandwidth,sentences\nreduced,4,0.5x,4+4\nreduced,8,,\n")
    lines = tmp_path / "points.json"
    lines.write_text(
        json.dumps(
            [
                {"model": "reduced", "array_n": 4, "bandwidth": "0.5x", "sentences": [4, 4]},
                {"model": "reduced", "array_n": 8},
            ]
        )
    )
    axes = tmp_path / "axes.json"
    axes.write_text(json.dumps({"model": ["reduced"], "scratchpad_bytes": ["8K", 65536]}))
    assert [p.key for p in read_points(table)] == [p.key for p in read_points(lines)]
    assert [p.changes["scratchpad_bytes"] for p in read_points(axes)] == [8192, 65536]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "", "must hold a point at least"),
        ("a.csv", "model,side\nreduced,4\n", "a sweep can vary model, tokens.*not 'side'"),
        ("a.csv", "model,array_n\nreduced\n", "line 2 of .* must have a value for every name"),
        ("a.json", "{", "must be JSON"),
        ("a.json", "[1]", "must hold a list of points or an object of lists"),
    ],
)
def test_files_that_are_wrong(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=message):
        read_points(tmp_path / name)


def test_no_file(tmp_path):
    with pytest.raises(UserError, match="points can't be read from"):
        read_points(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"array_n": 5}, "array_n must be a power of two, not 5"),
        ({"recipe": "fp4"}, "recipe must be one of"),
        ({"latency": 0}, "latency must be from 1"),
        ({"preset": "huge"}, "preset must be one of"),
    ],
)
def test_points_that_are_wrong(values, message):
    with pytest.raises(UserError, match=message):
        point_of(values).check()


def test_pareto_front():
    rows = [(1, 9), (2, 5), (2, 6), (3, 5), (4, 1), (4, 1)]
    assert pareto_front(rows, lambda row: row) == [(1, 9), (2, 5), (4, 1), (4, 1)]
