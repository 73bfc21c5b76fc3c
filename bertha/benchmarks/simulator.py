"""The simulation itself: how fast it runs, and how long its build takes."""

import tempfile
import time
from functools import partial
from pathlib import Path

from bertha.benchmarks.benchmark import Benchmark, Measured, Target
from bertha.rtl.config import preset as preset_config

__all__ = ["BENCHMARKS", "measure_build", "measure_speed", "measure_states"]


def measure_speed(context, preset, model="minilm", tokens=128) -> Measured:
    """Cycles a second under cocotb, as `make sim` has it, of a layer; the fastest of a few runs."""
    from bertha.sim.bench import measure
    from bertha.sim.options import LayerOptions

    options = LayerOptions(model=model, seq=tokens, preset=preset)
    speeds = measure(options, rounds=context.rounds, notify=context.notify)
    return Measured(
        speeds.cocotb, f"{speeds.raw:,.0f} in a bare C++ loop; the fastest of {context.rounds} runs"
    )


def measure_states(context, preset) -> Measured:
    """Share of the speed that recording the engines' states, for the timeline and the attribution, costs."""
    from bertha.sim.bench import measure
    from bertha.sim.options import LayerOptions

    options = LayerOptions(model="minilm", seq=128, preset=preset)
    speeds = measure(options, rounds=context.rounds, notify=context.notify)
    return Measured(1 - speeds.raw / speeds.stateless, f"the fastest of {context.rounds} runs each")


def measure_build(context, preset) -> Measured:
    """Seconds from the accelerator's Python to a simulation that is ready, with nothing kept."""
    from bertha.sim.build import build

    context.notify(f"building {preset} with nothing kept")
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        build(preset_config(preset), folder=Path(folder))
        return Measured(time.monotonic() - start)


def _speed(preset, target):
    return Benchmark(
        name=f"speed-{preset}",
        what=f"{preset}: speed of the simulation",
        target=Target(">=", target, "cycles/s"),
        measure=partial(measure_speed, preset=preset),
        runs=False,
    )


BENCHMARKS = [
    _speed("edge8", 500_000),
    _speed("edge16", 400_000),
    _speed("server32", 220_000),
    Benchmark(
        name="states-edge16",
        what="edge16: what the timeline costs of the simulation's speed",
        target=Target("<=", 0.05),
        measure=partial(measure_states, preset="edge16"),
        runs=False,
    ),
    Benchmark(
        name="build-edge16",
        what="edge16: cold build of the simulation",
        target=Target("<=", 60, "s"),
        measure=partial(measure_build, preset="edge16"),
        runs=False,
    ),
]
