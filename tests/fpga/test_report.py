"""Figures from what the tools wrote, their sums, and the command line."""

import io
import json
from collections import Counter
from pathlib import Path

import pytest
from rich.console import Console

from bertha.cli import main
from bertha.fpga.device import ECP5_85F
from bertha.fpga.flow import totals
from bertha.fpga.netlist import Owners, count_cells
from bertha.fpga.report import over_capacity, print_report
from bertha.fpga.timing import critical_path, end_point, fmax_mhz

# What nextpnr wrote of the scratchpad of edge8 as it was before its banks had an output register.
# The figures expected of it are those of the log of the same run.
RECORDED = Path(__file__).parent / "recorded" / "scratchpad_nextpnr.json"

VERILOG = """\
module harness(clk);
endmodule
module \\harness.component (clk);
endmodule
module \\harness.component.array (clk);
endmodule
module \\harness.component.array.column_0 (clk);
endmodule
"""


@pytest.fixture
def recorded():
    return json.loads(RECORDED.read_text())


def test_fmax_and_critical_path(recorded):
    assert round(fmax_mhz(recorded), 2) == 71.29
    assert critical_path(recorded) == {
        "start": "bank_2.memory.0.12.DOA0",
        "end": "read__0__data.DI",
        "nanoseconds": 14.03,
        "routing": 7.55,
        "levels": 4,
    }


def test_a_report_without_one_clock_is_refused(recorded):
    recorded["fmax"] = {}
    with pytest.raises(ValueError, match="must have one clock, not 0"):
        fmax_mhz(recorded)


@pytest.mark.parametrize(
    ("cell", "name"),
    [
        ("component.array.column_0.product_3_TRELLIS_FF_Q_12", "array.column_0.product_3"),
        ("component.bank_2.memory.0.12", "bank_2.memory.0.12"),
        ("folded_TRELLIS_FF_Q", "folded"),
        ("component.room_LUT4_D_Z_LUT4_Z_1", "room"),
        ("$flatten\\component.\\array.$mul$1", "array.$mul$1"),
    ],
)
def test_end_points_are_named_without_decoration(cell, name):
    assert end_point(cell) == name


@pytest.mark.parametrize(
    ("name", "source", "owner"),
    [
        # A source line decides, whatever the name says.
        ("component.elsewhere_TRELLIS_FF_Q", "harness.v:8.3-8.9|/share/cells.v:1.1-1.2", "array"),
        ("component.elsewhere_TRELLIS_FF_Q", "harness.v:4.3-4.9", "(wiring)"),
        ("component.elsewhere_TRELLIS_FF_Q", "harness.v:2.3-2.9", "(harness)"),
        # Without one, the longest path of the name that is a component's.
        ("component.array.column_0.x_LUT4_Z", "/share/lattice/cells_map_trellis.v:8.1-8.2", "array"),
        ("component.array_ready_LUT4_Z", "", "(wiring)"),
        ("folded_LUT4_Z", "", "(harness)"),
    ],
)
def test_owners(name, source, owner):
    assert Owners(VERILOG, 1).owner(name, source) == owner


def test_depth_tells_more_components_apart():
    assert Owners(VERILOG, 2).owner("x", "harness.v:7.1-7.2") == "array.column_0"
    assert Owners(VERILOG, 2).names == ["array", "array.column_0", "(wiring)", "(harness)"]


def test_every_cell_is_counted_once():
    cells = [
        ("component.array.a", "LUT4", ""),
        ("component.array.b", "CCU2C", ""),
        ("component.array.c", "TRELLIS_FF", ""),
        ("component.d", "TRELLIS_DPR16X4", ""),
        ("e", "DP16KD", ""),
        ("component.array.f", "MULT18X18D", ""),
        ("component.array.g", "PFUMX", ""),  # joins two LUT4 that are counted
    ]
    counts = count_cells(cells, Owners(VERILOG, 1))
    assert counts["array"] == {"lut4": 3, "ff": 1, "dsp": 1}
    assert counts["(wiring)"] == {"lut_ram": 1}
    assert counts["(harness)"] == {"block_ram": 1}
    assert totals(counts) == {
        "TRELLIS_COMB": 3 + 4,
        "TRELLIS_FF": 1,
        "TRELLIS_RAMW": 1,
        "DP16KD": 1,
        "MULT18X18D": 1,
    }


def test_what_does_not_fit_is_named():
    used = dict(ECP5_85F.capacity)
    assert over_capacity(used, ECP5_85F.capacity) == []
    used["MULT18X18D"] += 1
    assert over_capacity(used, ECP5_85F.capacity) == ["MULT18X18D: 157 used, the device has 156"]


def report_that(fits):
    report = {
        "preset": "tiny4",
        "component": "gemm",
        "device": ECP5_85F.name,
        "seed": 1,
        "components": {"array": {"lut4": 1, "ff": 2, "block_ram": 0, "dsp": 16, "lut_ram": 0}},
        "available": ECP5_85F.capacity,
        "used": dict.fromkeys(ECP5_85F.capacity, 1),
        "fits": fits,
    }
    if fits:
        path = {"start": "a.Q", "end": "b.DI", "nanoseconds": 10.0, "routing": 6.0, "levels": 2}
        return report | {"fmax_mhz": 100.0, "critical_path": path}
    report["used"]["DP16KD"] = 209
    return report


@pytest.mark.parametrize(
    ("fits", "line"), [(True, "Fmax 100.0 MHz"), (False, "does not fit: DP16KD: 209 used")]
)
def test_print(fits, line):
    output = io.StringIO()
    print_report(report_that(fits), Console(file=output, width=120))
    assert line in output.getvalue()
    assert "array" in output.getvalue()


@pytest.mark.parametrize("fits", [True, False])
def test_exit_code_tells_whether_it_fits(fits, monkeypatch):
    monkeypatch.setattr("bertha.commands.fpga.make_report", lambda **options: (report_that(fits), "x"))
    assert main(["fpga", "report"]) == (0 if fits else 1)


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """The report's folder, with stand-ins for the tools that note what is asked of them."""
    calls = []
    used = dict.fromkeys(ECP5_85F.capacity, 7)
    timing = {"fmax_mhz": 50.0, "critical_path": report_that(True)["critical_path"]}

    def stand_in(name, result):
        def run(*arguments, **options):
            calls.append(name)
            assert not (tmp_path / "fpga" / "tiny4" / "row_slots" / "report.json").exists()
            return result

        monkeypatch.setattr(f"bertha.fpga.report.{name}", run)

    monkeypatch.setattr("bertha.fpga.report.BUILD", tmp_path)
    stand_in("synthesise", {"array": Counter(lut4=5, lut_ram=1)})
    stand_in("pack", {"used": used})
    stand_in("place_and_route", {"used": used} | timing)
    return calls


@pytest.mark.parametrize(
    ("options", "called", "line"),
    [
        (["--pack-only"], ["synthesise", "pack"], "packed only"),
        ([], ["synthesise", "place_and_route"], "Fmax 50.0 MHz"),
    ],
)
def test_pack_only_stops_after_packing(options, called, line, tools, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("bertha.fpga.report.component", lambda name, config: None)
    command = ["fpga", "report", "--preset", "tiny4", "--component", "row_slots", *options]
    for _ in range(2):  # the second time, the first report must have gone before a tool runs
        assert main(command) == 0
    assert tools == called * 2
    output = capsys.readouterr().out
    assert line in output and "TRELLIS_COMB      7 of  83640" in output
    report = json.loads((tmp_path / "fpga" / "tiny4" / "row_slots" / "report.json").read_text())
    assert report["used"]["TRELLIS_COMB"] == 7
    assert ("fmax_mhz" in report) == (not options)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--preset", "edge7"], "preset must be one of tiny4, edge8, edge16, server32, not 'edge7'"),
        (["--component", "cache"], "component must be one of top, "),
        (["--seed", "-1"], "seed must be from 0 to 2147483647, not -1"),
        (["--seed", str(2**31)], "seed must be from 0 to 2147483647, not 2147483648"),
        (["--seed", "one"], "--seed must be an integer, not 'one'"),
        (["--depth", "0"], "depth must be at least 1, not 0"),
        (["--depth", "-2"], "depth must be at least 1, not -2"),
        (["--pack"], "unrecognized arguments: --pack"),
        (["--routed"], "unrecognized arguments: --routed"),
    ],
)
def test_a_wrong_option_is_one_sentence(arguments, sentence, tools, capsys):
    try:
        code = main(["fpga", "report", *arguments])
    except SystemExit as end:
        code = end.code
    assert code == 2
    assert tools == []
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ") and sentence in captured.err
    assert captured.err.count("\n") == 1
