"""The cycle model: how near to the RTL it is, and how fast."""

import re
import subprocess
import sys
import tempfile
import time

from bertha.benchmarks.arrays import BASE
from bertha.benchmarks.benchmark import Benchmark, Measured, Target
from bertha.errors import ToolError, UserError
from bertha.folders import CHECKOUT

__all__ = ["BENCHMARKS", "GRID", "POINTS", "measure_prediction", "measure_sweep"]

CASES = 40

GRID = {
    "--array": "8,16,32",
    "--tokens": "32,64,96,128,160,192",
    "--latency": "20,50,100,150,200,300,400",
    "--bandwidth": "0.25x,0.5x,0.75x,1x",
}
POINTS = 504
"""Of the grid."""


def measure_prediction(context, cases=CASES) -> Measured:
    """The worst error of a prediction among cases drawn at random, whole runs against RTL.

    Raises
    ------
    UserError
        Outside of a checkout: the cases are the tests'.
    ToolError
        If they can't be run.
    """
    if CHECKOUT is None:
        raise UserError("random cases for predictions are the tests', which only a checkout has")
    command = [sys.executable, "-m", "tests.sim.predicted", "--cases", str(cases), "--seed", "8"]
    context.notify(f"{cases} random programs, simulated and predicted")
    result = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    last = (result.stdout.strip().splitlines() or ["nothing was printed"])[-1]
    found = re.search(r"at most ([\d.]+) % off in all and ([\d.]+) % in an operation", last)
    if not found:
        raise ToolError(f"comparing predictions failed (exit {result.returncode}): {last}")
    return Measured(float(found[1]) / 100, last)


def measure_sweep(context) -> Measured:
    """Seconds of `bertha sweep` over `GRID`, points of BERT-base, from its start to its end.

    Raises
    ------
    ToolError
        If it fails, or a point does.
    """
    chosen = [part for pair in GRID.items() for part in pair]
    context.notify(f"sweep of {POINTS} points")
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "bertha", "sweep", "--model", BASE, "--recipe", "w8a8", *chosen]
        start = time.monotonic()
        result = subprocess.run(
            [*command, "--out", folder],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        seconds = time.monotonic() - start
    if result.returncode:
        lines = result.stderr.strip().splitlines() or ["no message"]
        raise ToolError(f"the sweep failed (exit {result.returncode}): {lines[0]}")
    return Measured(seconds, f"{POINTS} points, {seconds / POINTS:.2f} s each")


BENCHMARKS = [
    Benchmark(
        name="prediction",
        what=f"Worst error of a prediction, {CASES} random programs against RTL",
        target=Target("<=", 0.005),
        measure=measure_prediction,
        needs_rtl=True,
    ),
    Benchmark(
        name="sweep",
        what=f"Sweep of {POINTS} points of BERT-base, all twelve layers",
        target=Target("<=", 300, "s", strict=True),
        measure=measure_sweep,
        runs=False,
    ),
]
