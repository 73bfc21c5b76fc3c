"""One layer, everything included, beside what SCALE-Sim says of its matrix products alone."""

from functools import partial

from bertha.benchmarks.arrays import BASE
from bertha.benchmarks.benchmark import Benchmark, Measured, Target
from bertha.benchmarks.cases import Case, figures
from bertha.commands.scalesim import SHAPES, best_cycles
from bertha.rtl.config import preset

__all__ = ["BENCHMARKS", "measure_beside"]


def measure_beside(context, case, shape) -> Measured:
    """Cycles of a layer, by those of its matrix products in SCALE-Sim with the best dataflow for each."""
    side = preset(case.preset).array_n

    def ask():
        context.notify(f"SCALE-Sim: {shape} on {side} x {side}")
        return best_cycles(SHAPES[shape].products(case.tokens), side)

    best = context.keep(f"SCALE-Sim: {shape} {side} {case.tokens}", ask).value
    found = figures(context, case)
    return Measured(found.cycles / best, f"{found.cycles:,} cycles against {best:,}")


def _beside(shape, model, name):
    return Benchmark(
        name=f"scalesim-{shape}-{name}",
        what=f"{name}: {'MiniLM' if shape == 'minilm' else 'BERT-base'}, one layer, 128 tokens: "
        "cycles by SCALE-Sim's, best dataflow for each GEMM",
        target=Target("<=", 1, "x"),
        measure=partial(measure_beside, case=Case(model=model, preset=name, layer=True), shape=shape),
    )


BENCHMARKS = [
    _beside(shape, model, name)
    for shape, model in (("minilm", "minilm"), ("base", BASE))
    for name in ("edge16", "server32")
]
