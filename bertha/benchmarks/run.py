"""Runs benchmarks one by one, and knows what those that don't run have measured before."""

from collections.abc import Callable
from dataclasses import asdict

from bertha.benchmarks.benchmark import Benchmark, Measured, Result
from bertha.benchmarks.context import Context, KeptFigures
from bertha.errors import DriverError, SimulationError, ToolError, UserError

__all__ = ["kept_result", "run_benchmark", "run_benchmarks"]

_NEEDS_RTL = "needs RTL"


def run_benchmark(benchmark, context) -> Result:
    """A benchmark's result, kept or measured now; of one that fails, the sentence that says why."""
    if benchmark.needs_rtl and context.predicted:
        return Result(benchmark=benchmark, value=None, how=_NEEDS_RTL)
    try:
        kept = context.keep(_key(benchmark, context.predicted), lambda: asdict(benchmark.measure(context)))
    except (UserError, ToolError, SimulationError, DriverError) as error:
        return Result(benchmark=benchmark, value=None, how="failed", detail=str(error))
    return _result(benchmark, kept, context.predicted)


def kept_result(benchmark, kept, *, predicted) -> Result:
    """What is kept of a benchmark, without running it.

    Parameters
    ----------
    benchmark : Benchmark
    kept : KeptFigures
    predicted : bool
        Whether predictions count.
    """
    found = kept.get(_key(benchmark, predicted))
    if found is None:
        return Result(benchmark=benchmark, value=None, how="not measured")
    return _result(benchmark, found, predicted)


def run_benchmarks(
    chosen: list[Benchmark], others: list[Benchmark], context: Context, kept: KeptFigures, finished: Callable
) -> tuple[list[Result], list[Result]]:
    """Results of `chosen`, run one after the other, and what is kept of `others`; `finished` is told each of the former."""
    results = []
    for benchmark in chosen:
        results.append(run_benchmark(benchmark, context))
        finished(results[-1])
    return results, [kept_result(benchmark, kept, predicted=context.predicted) for benchmark in others]


def _key(benchmark, predicted):
    how = "predicted" if predicted and benchmark.runs else "measured"
    return f"benchmark {benchmark.name}, {how}"


def _result(benchmark, kept, predicted):
    how = ("predicted" if predicted else "RTL") if benchmark.runs else "timed"
    measured = Measured(**kept.value)
    return Result(
        benchmark=benchmark, value=measured.value, how=how, detail=measured.detail, commit=kept.commit
    )
