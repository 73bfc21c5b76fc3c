"""What benchmarks measure, on shapes that take no time: in RTL and predicted."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from bertha.benchmarks import cyclemodel, scalesim, simulator
from bertha.benchmarks.arrays import measure_attention, measure_utilization
from bertha.benchmarks.cases import Case, attention_utilization, figures
from bertha.benchmarks.context import Context, KeptFigures
from bertha.benchmarks.robustness import measure_cost, measure_roofline
from bertha.compiler.program import Command, Work
from bertha.errors import ToolError, UserError
from bertha.rtl.config import preset
from bertha.rtl.isa import Opcode
from bertha.sim.memory import Trace

SHAPE = "hidden=16,heads=2,ffn=32,layers=2"
MODEL = Case(model=SHAPE, preset="tiny4", tokens=12)
LAYER = Case(model=SHAPE, preset="tiny4", tokens=12, layer=True)
MACS = 12 * (4 * 16 * 16 + 2 * 16 * 32) + 2 * 12 * 12 * 16  # of a layer


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Of all tests here: each case is simulated once."""
    return KeptFigures(tmp_path_factory.mktemp("bench") / "measured.jsonl")


@pytest.fixture
def contexts(kept):
    """In RTL, and predicted."""
    return Context(kept), Context(kept, predicted=True)


@pytest.mark.parametrize(("case", "layers"), [(MODEL, 2), (LAYER, 1)])
def test_utilization_in_rtl_and_predicted(contexts, case, layers):
    simulated, predicted = (figures(context, case) for context in contexts)
    assert simulated.macs == predicted.macs == layers * MACS
    assert simulated.utilization == layers * MACS / (16 * simulated.cycles)
    assert simulated.cycles == predicted.cycles == simulated.predicted
    assert measure_utilization(contexts[0], case).value == simulated.utilization


def test_attention_in_rtl_and_predicted(contexts):
    simulated, predicted = (measure_attention(context, LAYER).value for context in contexts)
    assert 0.1 < simulated < 1
    assert simulated == pytest.approx(predicted, rel=0.01)


def test_costs_of_the_memory(contexts):
    """A slow one costs cycles, stalls cost some, and half of the bandwidth of what the weights need as much."""
    slow = Case(**{**vars(MODEL), "latency": 400})
    cost = measure_cost(contexts[0], slow, MODEL).value
    assert cost == figures(contexts[0], slow).cycles / figures(contexts[0], MODEL).cycles - 1 > 0.05
    assert cost == pytest.approx(measure_cost(contexts[1], slow, MODEL).value)
    stalled = Case(**{**vars(MODEL), "stalls": 0.2})
    assert 0 < measure_cost(contexts[0], stalled, MODEL).value < 1
    assert figures(contexts[0], stalled).predicted is None


def test_roofline(contexts):
    """Of a memory that is the bound: weights, input, and output, once each, at its bandwidth."""
    narrow = Case(**{**vars(MODEL), "bandwidth": 0.05})
    found = figures(contexts[1], narrow)
    weights = 2 * (4 * 16 * 16 + 2 * 16 * 32)
    assert found.least_cycles == (weights + 4 * 12 * 16) / (0.05 * 8)
    assert measure_roofline(contexts[1], narrow).value == found.cycles / found.least_cycles - 1 > 0
    assert figures(contexts[1], MODEL).least_cycles == 2 * MACS / 16


def test_attention_is_counted_without_what_runs_in_between():
    """Scores, a projection, and P·V, with pauses; what was before and comes after doesn't count."""

    def gemm(name, each):
        work = (Work(each, range(4)),)
        return Command(opcode=Opcode.GEMM, fields={"count": 1}, name=f"layer0.{name}.head0", work=work)

    commands = [gemm("key", 9), gemm("scores", 5), gemm("query", 9), gemm("context", 7), gemm("output", 9)]
    spans = [(3, 0, 9), (10, 10, 19), (20, 21, 45), (10, 50, 61), (30, 62, 99)]
    program = SimpleNamespace(commands=commands, config=SimpleNamespace(array_n=2))
    rows = np.array(spans, dtype=Trace.ROW)
    assert attention_utilization(program, rows) == 4 * (5 + 7) / (4 * (52 - 20))


def test_sweep(contexts, monkeypatch):
    """The command is `bertha sweep`, from its start to its end, with results that nobody has yet."""
    asked = []

    def run(command, **options):
        asked.append(command)
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(cyclemodel.subprocess, "run", run)
    measured = cyclemodel.measure_sweep(contexts[0])
    assert 0 <= measured.value < 10 and measured.detail.startswith("504 points, ")
    [command] = asked
    assert command[1:6] == ["-m", "bertha", "sweep", "--model", "synthetic-base-12"]
    assert command[-2] == "--out" and not Path(command[-1]).exists()


def test_a_sweep_that_fails(contexts, monkeypatch):
    def run(command, **options):
        return SimpleNamespace(returncode=1, stderr="failed: a point\nfailed: another\n")

    monkeypatch.setattr(cyclemodel.subprocess, "run", run)
    with pytest.raises(ToolError, match=r"the sweep failed \(exit 1\): failed: a point"):
        cyclemodel.measure_sweep(contexts[0])


def test_the_sweep_has_as_many_points_as_it_says():
    counts = [len(values.split(",")) for values in cyclemodel.GRID.values()]
    assert np.prod(counts) == cyclemodel.POINTS >= 500


def test_predictions_are_those_of_the_tests_script(contexts, monkeypatch):
    last = "40 cases, 39 predicted to the cycle, 0 too far off; at most 0.123 % off in all and 1.500 % in an operation"

    def run(command, **options):
        assert command[1:5] == ["-m", "tests.sim.predicted", "--cases", "40"]
        return SimpleNamespace(stdout=f"case 0: ...\n{last}; 3 s, seed 8\n", returncode=0)

    monkeypatch.setattr(cyclemodel.subprocess, "run", run)
    assert cyclemodel.measure_prediction(contexts[0]).value == pytest.approx(0.00123)
    monkeypatch.setattr(cyclemodel, "CHECKOUT", None)
    with pytest.raises(UserError, match="which only a checkout has"):
        cyclemodel.measure_prediction(contexts[0])


def test_speed_is_that_under_cocotb(contexts):
    context = contexts[0]
    context.rounds = 1
    measured = simulator.measure_speed(context, "tiny4", model="reduced", tokens=4)
    assert 100 < measured.value < 1e7
    assert "in a bare C++ loop; the fastest of 1 runs" in measured.detail


def test_a_cold_build_is_one_in_an_empty_folder(contexts, monkeypatch):
    def build(config, *, folder):
        assert config == preset("edge16") and list(folder.iterdir()) == []
        (folder / "built").touch()

    monkeypatch.setattr("bertha.sim.build.build", build)
    assert 0 <= simulator.measure_build(contexts[0], "edge16").value < 10


def test_a_layer_beside_scalesim(contexts, monkeypatch):
    """SCALE-Sim is asked once for each layer and array."""
    asked = []

    def best_cycles(products, side):
        asked.append((products[0], side))
        return 10_000

    monkeypatch.setattr(scalesim, "best_cycles", best_cycles)
    for _ in range(2):
        measured = scalesim.measure_beside(contexts[1], LAYER, "minilm")
        assert measured.value == figures(contexts[1], LAYER).cycles / 10_000
    assert asked == [((4, 12, 384, 384), 4)]
