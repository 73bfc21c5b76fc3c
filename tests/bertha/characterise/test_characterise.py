"""`bertha characterise`: what it counts, the crossings, the tables, and the page."""

import csv
import json
import math
import re
from dataclasses import replace

import pytest
from distributed import LocalCluster

from bertha.characterise import study
from bertha.characterise.bandwidth import PRECISION, cross, cross_points
from bertha.characterise.energy import Activity, energy, sram_byte
from bertha.characterise.intensity import products
from bertha.characterise.measure import measure_points
from bertha.characterise.study import ABLATIONS, ALL_DRAM
from bertha.cli import main
from bertha.compiler.ablations import parse_ablations
from bertha.compiler.operations import KINDS, purpose_of
from bertha.models.shapes import model_shape
from bertha.sweep.points import Point

SMALL = Point(model="reduced", preset="tiny4", tokens=6, recipe="w8a8")


def test_products_of_a_layer():
    """Of 2 heads of 16 and an FFN of 64, by hand."""
    found = {product.name: product for product in products(model_shape("reduced"), 10, "w8a8")}
    assert found["projections"].macs == 3 * 10 * 32 * 32
    assert found["projections"].bytes == 3 * (10 * 32 + 32 * 32 + 10 * 32)
    assert found["scores"].macs == found["P·V"].macs == 2 * 10 * 10 * 16
    assert found["scores"].bytes == 2 * (2 * 10 * 16 + 2 * 10 * 10)
    assert found["FFN2"].bytes == 10 * 64 + 64 * 32 + 2 * 10 * 32
    assert found["FFN2"].intensity == 10 * 64 * 32 / found["FFN2"].bytes
    wide = {product.name: product for product in products(model_shape("reduced"), 10, "a16")}
    assert wide[purpose_of("intermediate")].bytes == 2 * 10 * 32 + 32 * 64 + 2 * 10 * 64
    assert wide["P·V"].bytes == 2 * (10 * 10 + 2 * 10 * 16 + 2 * 10 * 16)


def test_energy_by_hand():
    assert [sram_byte(1 << bits) for bits in (10, 13, 15, 20, 22)] == [1.25, 1.25, 2.5, 12.5, 12.5]
    assert sram_byte(1 << 14) == pytest.approx(math.sqrt(1.25 * 2.5))
    found = energy(Activity(dram_bytes=8, scratchpad_bytes=80, macs_8=10, multiplications=2), 1 << 20)
    assert found == pytest.approx({"DRAM": 1300, "scratchpad": 1000, "MACs": 3, "lanes": 6.4})


def test_a_crossing_is_found():
    assert cross(lambda bandwidth: bandwidth < 2.5, 0.5, 8) == pytest.approx(2.5, rel=PRECISION)
    assert cross(lambda bandwidth: True, 0.5, 8) == math.inf
    assert cross(lambda bandwidth: False, 0.5, 8) is None


def test_what_a_point_takes():
    """The array's time adds up; bytes by what they are too; MACs of the program's own GEMMs are all that the array makes."""
    (result,) = measure_points([SMALL])
    assert sum(result["time"].values()) == result["cycles"]
    assert sum(result["dram"].values()) == result["bytes_read"] + result["bytes_written"]
    weights = sum(count for name, count in result["dram"].items() if name.startswith("weights of"))
    assert weights > 2 * (4 * 32 * 32 + 2 * 32 * 64)  # records lie behind them
    assert result["macs_8"] > result["macs"] == 2 * (6 * (4 * 32 * 32 + 2 * 32 * 64) + 2 * 6 * 6 * 32)
    (failed,) = measure_points([Point(model="reduced", preset="tiny4", tokens=0)])
    assert "tokens must be at least 1" in failed["error"]


def test_less_bandwidth_than_the_crossing_is_waited_for():
    """On both sides of what bisection found, the array waits for memory, or doesn't."""
    point = replace(SMALL, tokens=4)
    (found,) = cross_points([point])
    crossings = {name: b for name, b in found["bandwidth"].items() if b is not None and b < math.inf}
    assert crossings
    for name, bandwidth in crossings.items():
        below, above = (
            measure_points([replace(point, bandwidth=bandwidth * factor)])[0] for factor in (0.8, 1.25)
        )
        assert below["stalls"][name] > 0.05 * below["time"][name]
        assert above["stalls"][name] <= 0.05 * above["time"][name]


def test_ablations_are_options():
    assert ABLATIONS[0] == "" and len(set(ABLATIONS)) == len(ABLATIONS)
    for text in ABLATIONS:
        assert str(parse_ablations(text)).count("=") == text.count("=")


@pytest.fixture(scope="module")
def scheduler():
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster:
        yield cluster.scheduler_address


def test_the_command(tmp_path, capsys, scheduler, monkeypatch):
    """All sections of small models, with ablations in RTL too: as predicted, to the cycle and to the byte."""
    monkeypatch.setattr(study, "ABLATIONS", ("", ALL_DRAM))
    arguments = ["characterise", "--model", "reduced", "--tokens", "4,12", "--length", "4", "--batch", "1,2"]
    arguments += ["--sentence", "4", "--preset", "tiny4", "--widths", "tiny4", "--recipes", "w8a8"]
    arguments += ["--rtl", "--rtl-model", "reduced", "--out", str(tmp_path), "--scheduler", scheduler]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert set(report) == {*study.SECTIONS, "rtl"}
    for row in report["length"]:
        assert sum(row.get(kind, 0) for kind in KINDS) + row["end"] == pytest.approx(100)
    assert [row["tokens"] for row in report["length"]] == [4, 12]
    assert [row["sentences"] for row in report["batch"]] == [1, 2]
    none, dram = report["ablations"]
    assert none["cycles more %"] == 0 and dram["cycles more %"] > 0 and dram["DRAM more %"] > 50
    assert [row["bytes a cycle"] for row in report["rtl"]] == [8, 8, 2, 1]
    for row in report["rtl"]:
        assert row["predicted cycles"] == pytest.approx(row["RTL cycles"], rel=0.005)
        assert row["predicted bytes"] == row["RTL bytes"]
    for section in report:
        with (tmp_path / f"{section}.csv").open(newline="", encoding="utf-8") as file:
            assert len(list(csv.DictReader(file))) == len(report[section])
    assert "ESTIMATE" in printed and "all dram" in printed
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("Plotly.newPlot") >= len(study.SECTIONS)
    assert "<script src" not in page and "cdn.plot" not in page.split("plotly.js v")[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "speed"], "--only must name some of length, .*, not 'speed'"),
        (["--model", ""], "--model must name a model at least"),
        (["--batch", "0"], "--batch must be at least 1, not 0"),
        (["--recipes", "w4"], "recipe must be one of"),
        (["--widths", "edge9"], "edge9"),
    ],
)
def test_errors_are_one_sentence(tmp_path, capsys, arguments, message):
    assert main(["characterise", *arguments, "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert re.search(message, error)
