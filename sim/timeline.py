"""When each command of a run was active, and what the engines were in meanwhile: `timeline.json` for Perfetto.

What is recorded where the simulation runs is in `sim/hdl/trace.h`.
"""

import json
import os
from typing import NamedTuple

import numpy as np

from bertha.compiler.operations import layer_of, operation_of, purpose_of
from bertha.rtl.counters.classes import CycleClass
from bertha.sim.memory import STRETCH, TRACE_ENGINES

__all__ = ["Event", "States", "events", "states", "write_timeline"]

_MOST_BINS = 4000  # of the engines' states in a run's timeline


class Event(NamedTuple):
    """A command that was active.

    Attributes
    ----------
    engine : str
    name : str
    layer : int or None
    operation, purpose : str
        See `bertha.compiler.operations`.
    index : int
        Position in the program.
    start, end : int
        First cycle in which it was active, and first after the last one, from the doorbell.
    busy, macs, dram_bytes : int
    """

    engine: str
    name: str
    layer: int | None
    operation: str
    purpose: str
    index: int
    start: int
    end: int
    busy: int
    macs: int
    dram_bytes: int


class States(NamedTuple):
    """What each engine was in over time.

    Attributes
    ----------
    starts : int64 [bins]
        First cycle of each stretch of time.
    cycles : int
        Of each but the last one.
    counts : int64 [bins, engines, classes]
        Engines as in `bertha.sim.memory.TRACE_ENGINES`, classes by the value of `CycleClass`.
    """

    starts: np.ndarray
    cycles: int
    counts: np.ndarray


def events(run, outcome) -> list[Event]:
    """The run's events, by engine and time.

    Parameters
    ----------
    run : with `program` and `ranges`
    outcome : sim.job.Outcome
    """
    found = []
    for engine in TRACE_ENGINES:
        rows = outcome.trace[engine]
        for index in np.flatnonzero(rows["busy"][: len(run.program.commands)]):
            command, row = run.program.commands[index], rows[index]
            operation = operation_of(command)
            found.append(
                Event(
                    engine=engine,
                    name=command.name,
                    layer=layer_of(command.name),
                    operation=operation,
                    purpose=purpose_of(operation),
                    index=int(index),
                    start=int(row["first"]),
                    end=int(row["last"]) + 1,
                    busy=int(row["busy"]),
                    macs=command.macs(run.ranges),
                    dram_bytes=command.dram_bytes,
                )
            )
    return found


def states(outcome, most) -> States | None:
    """The engines' states in at most so many stretches of time; None of an accelerator without cycle counters."""
    if outcome.stretches is None or not len(outcome.stretches):
        return None
    counts = outcome.stretches.astype(np.int64)
    together = -(-len(counts) // most)
    padded = np.zeros((-(-len(counts) // together) * together, *counts.shape[1:]), np.int64)
    padded[: len(counts)] = counts
    counts = padded.reshape(-1, together, *counts.shape[1:]).sum(axis=1)
    cycles = together * STRETCH
    return States(outcome.stretches_start + cycles * np.arange(len(counts)), cycles, counts)


def write_timeline(runs, outcomes, file) -> None:
    """Writes `timeline.json` in Chrome's trace event format, a process a run; a cycle is shown as a microsecond.

    Parameters
    ----------
    runs : list
        With `program` and `ranges`.
    outcomes : list of sim.job.Outcome
        Of each run.
    file : Path
    """
    found = []
    for number, (run, outcome) in enumerate(zip(runs, outcomes, strict=True)):
        found.append(_called("process_name", f"run {number + 1}", number))
        for thread, engine in enumerate(TRACE_ENGINES):
            found.append(_called("thread_name", engine, number, thread))
        for event in events(run, outcome):
            found.append(
                {
                    "ph": "X",
                    "pid": number,
                    "tid": TRACE_ENGINES.index(event.engine),
                    "ts": event.start,
                    "dur": event.end - event.start,
                    "name": event.name,
                    "cat": event.purpose,
                    "args": {
                        "operation": event.operation,
                        "layer": event.layer,
                        "command": event.index,
                        "busy cycles": event.busy,
                        "MACs": event.macs,
                        "DRAM bytes": event.dram_bytes,
                    },
                }
            )
        found += _state_events(outcome, number)
    text = json.dumps({"traceEvents": found, "displayTimeUnit": "ms"}, separators=(",", ":"))
    draft = file.with_name(f"{file.name}.new")
    draft.write_text(text, encoding="utf-8")
    os.replace(draft, file)


def _called(what, name, pid, tid=0):
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def _state_events(outcome, pid):
    """Counters of what each engine was in, in cycles of each stretch of time."""
    found = states(outcome, _MOST_BINS)
    if found is None:
        return []
    seen = found.counts.sum(axis=0) > 0
    return [
        {
            "ph": "C",
            "pid": pid,
            "ts": max(int(start), 0),
            "name": f"{engine} cycles of {found.cycles}",
            "args": {
                cycle_class.name.lower(): int(found.counts[place, number, cycle_class.value])
                for cycle_class in CycleClass
                if seen[number, cycle_class.value]
            },
        }
        for number, engine in enumerate(TRACE_ENGINES)
        for place, start in enumerate(found.starts)
    ]
