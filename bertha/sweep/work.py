"""What is done for a point, in a worker's process."""

import time

from bertha.compiler.ablations import parse_ablations
from bertha.errors import ToolError, UserError
from bertha.prediction import Workload, compile_workload, predict_workload

__all__ = ["FIELDS", "guarded", "measure", "predict_points", "simulate_points", "workload_of"]

FIELDS = (
    "array_n scratchpad_bytes axi_data_bits multipliers cycles macs utilization bytes_read bytes_written "
    "sentences_a_run working waits_load waits_vector waits_store other cpu_seconds error"
).split()
"""Of a result, beside the point's own."""


def predict_points(points) -> list[dict]:
    """Results of points, one after another; one that fails has an `error`."""
    return [guarded(measure, point) for point in points]


def simulate_points(points) -> list[dict]:
    """The same from the RTL, in simulation."""
    return [guarded(_simulated, point) for point in points]


def guarded(function, point) -> dict:
    """What the function says of a point, with its hardware; or the `error`."""
    start = time.process_time()
    try:
        point.check()
        found = {**_of_hardware(point.config), **function(point)}
    except (UserError, ToolError, ValueError, RuntimeError, AssertionError) as error:
        found = {"error": str(error) or type(error).__name__}
    return {**found, "cpu_seconds": round(time.process_time() - start, 3)}


def _of_hardware(config):
    return {
        "array_n": config.array_n,
        "scratchpad_bytes": config.scratchpad_bytes,
        "axi_data_bits": config.axi_data_bits,
        "multipliers": config.array_n**2,
    }


def workload_of(point) -> Workload:
    """What is run at a point."""
    return Workload(
        model=point.model,
        tokens=point.tokens,
        recipe=point.recipe,
        sentences=tuple(point.sentences),
        ablations=parse_ablations(point.ablations),
    )


def measure(point) -> dict:
    """A point's prediction."""
    from bertha.compiler.predict import Timing

    prediction = predict_workload(
        workload_of(point), point.config, Timing(memory=point.latency, bandwidth=point.bytes_per_cycle)
    )
    spent = prediction.activity["gemm"]
    shares = {
        name: spent.get(f"wait_{name.removeprefix('waits_')}", 0) / prediction.cycles
        for name in ("waits_load", "waits_vector", "waits_store")
    }
    shares["working"] = spent["working"] / prediction.cycles
    return {
        **prediction.totals,
        "sentences_a_run": len(point.sentences) or 1,
        **shares,
        "other": 1 - sum(shares.values()),
    }


def _simulated(point):
    """A point's whole model in RTL: its cycles, with weights of zeros."""
    from bertha.sim.measure import measure_program

    program, layers = compile_workload(workload_of(point), point.config, to_run=True)
    found = measure_program(program, latency=point.latency, bandwidth=point.bytes_per_cycle)
    cycles = found.pop("cycles")
    return {
        "cycles": cycles,
        "macs": program.macs,
        "utilization": program.macs / (point.config.array_n**2 * cycles),
        "sentences_a_run": len(point.sentences) or 1,
        **found,
    }
