"""At which bandwidth each product becomes bound by memory: found by bisection, on the cycle model."""

import functools
import math

from bertha.characterise.measure import array_time, memory_waits
from bertha.compiler.operations import EMBEDDING
from bertha.compiler.predict import Timing
from bertha.prediction import predict_workload
from bertha.sweep.work import guarded, workload_of

__all__ = ["BOUND", "LOWEST", "cross", "cross_points"]

BOUND = 0.05
"""An operation is bound by memory where the array waits for it in more than this part of its time."""
LOWEST = 1 / 16
"""Of the bus's bandwidth: the least that is tried."""
PRECISION = 0.02


def cross_points(points) -> list[dict]:
    """Crossings of points (their bandwidth doesn't matter), one after another; one that fails has an `error`."""
    return [guarded(_crossings, point) for point in points]


def _crossings(point):
    """Crossings, and all bandwidths that were tried, with the cycles."""
    tried = {}

    @functools.cache
    def shares(bandwidth):
        timing = Timing(memory=point.latency, bandwidth=bandwidth)
        prediction = predict_workload(workload_of(point), point.config, timing)
        tried[bandwidth] = prediction.cycles
        time = array_time(prediction)
        waits = memory_waits(prediction)
        return {name: count / max(1, time[name]) for name, count in waits.items() if name != EMBEDDING}

    bus = point.config.axi_data_bytes
    low, high = LOWEST * bus, 1.0 * bus
    found = {name: cross(lambda b, name=name: shares(b)[name] > BOUND, low, high) for name in shares(high)}
    return {"bandwidth": found, "lowest": low, "highest": high, "tried": sorted(tried.items())}


def cross(is_bound, low, high) -> float | None:
    """The bandwidth below which `is_bound` holds; infinity if it does at `high`, None if it doesn't at `low`."""
    if is_bound(high):
        return math.inf
    if not is_bound(low):
        return None
    while high / low > 1 + PRECISION:
        middle = math.sqrt(low * high)
        if is_bound(middle):
            low = middle
        else:
            high = middle
    return math.sqrt(low * high)
