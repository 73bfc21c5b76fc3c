"""What a slow or unsteady memory costs the twelve layers of BERT-base."""

from dataclasses import replace
from functools import partial

from bertha.benchmarks.arrays import BASE
from bertha.benchmarks.benchmark import Benchmark, Measured, Target
from bertha.benchmarks.cases import Case, figures

__all__ = ["BENCHMARKS", "measure_cost", "measure_roofline"]

_PRESETS = ("edge16", "server32")


def measure_cost(context, case, usual) -> Measured:
    """How many more cycles a case takes than the usual one, as a part of the latter's."""
    slow, fast = figures(context, case), figures(context, usual)
    return Measured(slow.cycles / fast.cycles - 1, f"{slow.cycles:,} cycles against {fast.cycles:,}")


def measure_roofline(context, case) -> Measured:
    """How many more cycles a case takes than the roofline, as a part of the latter."""
    found = figures(context, case)
    return Measured(
        found.cycles / found.least_cycles - 1,
        f"{found.cycles:,} cycles against {found.least_cycles:,.0f} of the roofline",
    )


def _of(preset):
    usual = Case(model=BASE, preset=preset)

    def cost(name, what, target, *, needs_rtl=False, **changes):
        return Benchmark(
            name=f"{name}-{preset}",
            what=f"{preset}: BERT-base, twelve layers: {what}",
            target=Target("<=", target, strict=True),
            measure=partial(measure_cost, case=replace(usual, **changes), usual=usual),
            needs_rtl=needs_rtl,
        )

    return [
        cost("latency-300", "cost of a latency of 300 cycles against 100", 0.005, latency=300),
        cost("latency-1000", "cost of a latency of 1000 cycles against 100", 0.02, latency=1000),
        cost(
            "stalls",
            "cost of random stalls of 20 % of the memory's cycles",
            0.005,
            needs_rtl=True,
            stalls=0.2,
        ),
        Benchmark(
            name=f"quarter-bandwidth-{preset}",
            what=f"{preset}: BERT-base, twelve layers: cycles above the roofline at a quarter of the bandwidth",
            target=Target("<=", 0.02),
            measure=partial(measure_roofline, case=replace(usual, bandwidth=0.25)),
        ),
    ]


BENCHMARKS = [benchmark for preset in _PRESETS for benchmark in _of(preset)]
