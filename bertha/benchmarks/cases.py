"""Programs that benchmarks run: whole models and single layers by their shape, on presets, with memories."""

import functools
import sys
from dataclasses import asdict, dataclass, replace

from bertha.compiler.compile import compile_layer
from bertha.compiler.operations import kind_of
from bertha.compiler.placeholder import operand_plan, placeholder_model
from bertha.compiler.predict import Timing, default_timing, predict
from bertha.models.shapes import model_shape
from bertha.prediction import Workload, compile_workload, predict_workload
from bertha.progress import progress_bar
from bertha.rtl.config import preset
from bertha.rtl.isa import Engine

__all__ = ["Case", "Figures", "attention_utilization", "figures"]

_RECIPE = "w8a8"
_SEED = 1  # of the random stalls


@dataclass(frozen=True, kw_only=True)
class Case:
    """One run.

    Attributes
    ----------
    model : str
        See `bertha.models.shapes.model_shape`; its operands are int8, without duplicates, and no neuron has copies.
    preset : str
    tokens : int
        One sentence, which fills the program.
    layer : bool
        Run a layer of it alone, whose operand and stream come from DRAM.
    latency : int
    bandwidth : float
        As a part of what presets' memories have: 1 is all of the bus's.
    stalls : float
        Odds that a channel of the bus stands still in a cycle.
    """

    model: str
    preset: str
    tokens: int = 128
    layer: bool = False
    latency: int = 100
    bandwidth: float = 1.0
    stalls: float = 0.0

    @property
    def timing(self) -> Timing:
        """Of the memory."""
        most = default_timing(preset(self.preset)).bandwidth
        return Timing(memory=self.latency, bandwidth=self.bandwidth * most)

    def __str__(self):
        what = f"{self.model}{', a layer' if self.layer else ''}, {self.tokens} tokens, {self.preset}"
        memory = f"latency {self.latency}, {self.timing.bandwidth:g} bytes a cycle"
        return f"{what}, {memory}" + (f", stalls {self.stalls:g}" if self.stalls else "")


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What a run took.

    Attributes
    ----------
    cycles, macs : int
    utilization : float
        macs / (N² · cycles).
    attention : float or None
        Of a layer alone: `attention_utilization`.
    least_cycles : float
        The roofline: those of the MACs at N² a cycle, or those of the least possible bytes at the memory's bandwidth,
        whichever are more. The least possible are weights, input and output, once each.
    predicted : int or None
        Cycles that were predicted of what was simulated.
    """

    cycles: int
    macs: int
    utilization: float
    attention: float | None
    least_cycles: float
    predicted: int | None = None


def figures(context, case) -> Figures:
    """A case's figures, in RTL or predicted as the context says, kept from one benchmark to the next."""
    how = "predicted" if context.predicted else "RTL"

    def make():
        context.notify(f"{case} ({how})")
        return asdict(_predicted(case) if context.predicted else _simulated(case))

    return Figures(**context.keep(f"{how}: {case!r}", make).value)


def _predicted(case):
    if case.layer:
        program = _layer_program(case)
        prediction = predict(program, case.timing)
        attention = attention_utilization(program, prediction.run.commands)
    else:
        prediction = predict_workload(_workload(case), preset(case.preset), case.timing)
        attention = None
    return _figures(case, prediction.cycles, prediction.macs, attention)


def _simulated(case):
    from bertha.sim.measure import simulate_program

    program = _layer_program(case) if case.layer else _model_program(replace(case, **_MEMORY))
    predicted = predict(program, case.timing).cycles
    with progress_bar(sys.stderr, str(case)) as show:
        found = simulate_program(
            program,
            latency=case.latency,
            bandwidth=case.timing.bandwidth,
            stalls=case.stalls,
            seed=_SEED,
            timeout=4 * predicted + 1_000_000,
            progress=lambda cycles: show(cycles, predicted),
        )
    attention = attention_utilization(program, found.trace["gemm"]) if case.layer else None
    return replace(
        _figures(case, found.cycles, program.macs, attention), predicted=None if case.stalls else predicted
    )


_MEMORY = {"latency": 100, "bandwidth": 1.0, "stalls": 0.0}  # that no program depends on


def _workload(case):
    return Workload(model=case.model, tokens=case.tokens, recipe=_RECIPE, copies=False)


@functools.lru_cache(maxsize=1)
def _model_program(case):
    program, _ = compile_workload(_workload(case), preset(case.preset), to_run=True)
    return program


def _layer_program(case):
    shape = model_shape(case.model)
    layer = placeholder_model(shape, operand_plan(shape, _RECIPE), layers=1, copies=False).layers[0]
    return compile_layer(layer, preset(case.preset), seq=case.tokens)


def _figures(case, cycles, macs, attention):
    array = preset(case.preset).array_n ** 2
    return Figures(
        cycles=int(cycles),
        macs=int(macs),
        utilization=macs / (array * cycles),
        attention=attention,
        least_cycles=max(macs / array, _least_bytes(case) / case.timing.bandwidth),
    )


def _least_bytes(case):
    shape = model_shape(case.model)
    weights = sum(
        4 * shape.hidden * heads * shape.head_dim + 2 * shape.hidden * shape.ffn
        for heads in (shape.heads[:1] if case.layer else shape.heads)
    )
    values = case.tokens * shape.hidden
    return weights + 4 * values + (values if case.layer else 0)  # int16 in and out; a layer's int8 operand


def attention_utilization(program, rows) -> float:
    """Utilisation of the array by attention alone, in the program of one layer.

    It is the MACs of scores and P·V over N² and the cycles from the first score MAC to the last one of P·V, without
    those in which the array worked for something else: the projections of the heads that follow run in between.

    Parameters
    ----------
    program : Program
    rows : array with `busy`, `first` and `last`
        Of each command, as a trace or a prediction has them.
    """
    scores, values, others = [], [], []
    macs = 0
    for command, row in zip(program.commands, rows, strict=False):
        if command.engine != Engine.GEMM or not row["busy"]:
            continue
        kind = kind_of(command)
        span = int(row["first"]), int(row["last"]), int(row["busy"])
        {"scores": scores, "P·V": values}.get(kind, others).append(span)
        macs += command.macs() if kind in ("scores", "P·V") else 0
    start, end = min(first for first, *_ in scores), max(last for _, last, _ in values)
    elsewhere = sum(busy for first, last, busy in others if start <= first and last <= end)
    return macs / (program.config.array_n**2 * (end - start + 1 - elsewhere))
