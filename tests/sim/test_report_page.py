"""`report.html` in a browser and `timeline.json`, of runs with and without cycle counters."""

import io
import json

import pytest
from rich.console import Console

from bertha.compiler.attribution import CommandTimes, attribute
from bertha.folders import BUILD
from bertha.rtl.counters.classes import CycleClass
from bertha.sim import model_report as model_report_module
from bertha.sim import run as run_module
from bertha.sim.memory import TRACE_ENGINES
from bertha.sim.options import LayerOptions, ModelOptions
from bertha.sim.run import run_layer, run_model
from tests.browser import opened

AXES = [
    ["cycles of the run"],
    ["share of the run's cycles (%)", "engine"],
    ["arithmetic intensity (MACs a byte)", "speed (MACs a cycle)"],
    ["cycles from the doorbell"],
    ["sentence", "cosine to PyTorch"],
]
"""Titles of the axes, plot by plot."""


def console():
    return Console(file=io.StringIO(), width=140)


@pytest.fixture(scope="module")
def model_run():
    """Sentences on an accelerator with cycle counters: report, runs, outcomes, and the folder."""
    kept = {}

    def keep(options, prepared, outcomes):
        kept.update(runs=prepared.runs, outcomes=outcomes)
        return model_report_module.model_report(options, prepared, outcomes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_module, "model_report", keep)
        report = run_model(ModelOptions(model="reduced", preset="tiny4", seq=11, latency=40), console())
    return report, kept["runs"], kept["outcomes"], BUILD / "sim" / "reduced-s11-tiny4-latency40"


def check_page(folder, tmp_path, *, tables):
    """The page has every plot, each with something to see, and loads nothing."""
    page = folder / "report.html"
    assert page.stat().st_size < 15e6
    found = opened(page, tmp_path)
    assert found["problems"] == [] and found["loaded"] == []
    assert [plot["titles"] for plot in found["plots"]] == AXES
    for plot in found["plots"]:
        assert plot["traces"] and plot["marks"] >= plot["traces"], plot
    assert found["tables"] == tables
    return found["plots"]


def test_a_models_page(model_run, tmp_path):
    report, *_, folder = model_run
    sentences = len(report.sentences)
    plots = check_page(folder, tmp_path, tables=[14, 12, 5, 1 + sentences])
    products = [cost for cost in report.attribution if cost.macs]
    assert len(products) == 2 * 8
    assert plots[2]["marks"] >= len(products) + 1  # each on the roofline, and the roof
    assert plots[4]["marks"] == 3 * sentences


def test_a_layers_page_without_counters(tmp_path):
    report = run_layer(LayerOptions(model="reduced", preset="edge8", seq=7, layer=1), console())
    assert (report.causes_from, report.engines) == ("model", {})
    assert sum(cost.cycles for cost in report.attribution) == report.cycles
    check_page(BUILD / "sim" / "reduced-layer1-s7-edge8", tmp_path, tables=[11, 11, 2, 2])


def test_attribution_of_a_run_is_the_predictions(model_run):
    """Counted in the RTL, and found by the cycle model: the same but for what host and interrupt take."""
    report, runs, outcomes, _ = model_run
    assert report.causes_from == "counters"
    assert sum(cost.cycles for cost in report.attribution) == report.cycles
    assert sum(cost.macs for cost in report.attribution) == report.macs
    moved = sum(cost.dram_bytes for cost in report.attribution)
    code = sum(run.program.code_bytes for run in runs)
    assert moved + code == report.dram_bytes_read + report.dram_bytes_written
    for run, outcome in zip(runs, outcomes, strict=True):
        counted = CommandTimes.of_trace(run.program, outcome.trace, outcome.classes, outcome.cycles)
        found = {(cost.layer, cost.name): cost for cost in attribute(run.program, counted, run.ranges)}
        model = CommandTimes.of_prediction(run.prediction)
        for cost in attribute(run.program, model, run.ranges):
            other = found[cost.layer, cost.name]
            assert other.cycles == pytest.approx(cost.cycles, abs=8, rel=0.01), cost.name
            if cost.macs:
                assert other.bound == cost.bound or max(cost.causes.values()) < 0.6 * sum(
                    cost.causes.values()
                )


def test_states_over_time_are_what_the_counters_counted(model_run):
    """The trace ports' classes, in stretches and by command, add up to the accelerator's own counters."""
    _, _, outcomes, _ = model_run
    for outcome in outcomes:
        counted = outcome.engine_cycles["classes"]
        for number, engine in enumerate(TRACE_ENGINES):
            over_time = outcome.stretches[:, number].sum(axis=0)
            by_command = outcome.classes[engine].sum(axis=0)
            for cycle_class in set(CycleClass) - {CycleClass.IDLE, CycleClass.COMMAND}:
                # Before the doorbell and after the end there are no others than these two.
                count = counted[engine][cycle_class.name.lower()]
                assert over_time[cycle_class.value] == count
                assert by_command[cycle_class.value] <= count
            assert by_command[CycleClass.WORKING.value] == counted[engine]["working"]


def test_the_timeline_has_every_command(model_run):
    _, runs, outcomes, folder = model_run
    found = json.loads((folder / "timeline.json").read_text())["traceEvents"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in found if e["name"] == "thread_name"}
    assert names == {(pid, tid): name for pid in range(len(runs)) for tid, name in enumerate(TRACE_ENGINES)}
    for pid, (run, outcome) in enumerate(zip(runs, outcomes, strict=True)):
        for tid, engine in enumerate(TRACE_ENGINES):
            mine = [e for e in found if e["ph"] == "X" and (e["pid"], e["tid"]) == (pid, tid)]
            active = [n for n, row in enumerate(outcome.trace[engine]) if row["busy"]]
            assert [e["args"]["command"] for e in mine] == active
            assert sum(e["args"]["busy cycles"] for e in mine) == outcome.counters[f"{engine}_busy"]
            for event, after in zip(mine, mine[1:]):
                assert (
                    event["ts"] + event["dur"] <= after["ts"]
                )  # an engine's commands come one after another
            assert all(e["name"] == run.program.commands[e["args"]["command"]].name for e in mine)
        states = [e for e in found if e["ph"] == "C" and e["pid"] == pid]
        assert {e["name"].split()[0] for e in states} == set(TRACE_ENGINES)
