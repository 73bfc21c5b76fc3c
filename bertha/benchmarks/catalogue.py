"""All benchmarks there are, by name."""

from bertha.benchmarks import arrays, cyclemodel, robustness, scalesim, simulator

__all__ = ["BENCHMARKS"]

BENCHMARKS = {
    benchmark.name: benchmark
    for module in (arrays, robustness, cyclemodel, simulator, scalesim)
    for benchmark in module.BENCHMARKS
}
"""In the order in which they are shown."""
