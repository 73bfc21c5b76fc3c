"""Runs a program on the cycle model."""

import ctypes
from dataclasses import dataclass

import numpy as np

from bertha.compiler.cycles.build import library
from bertha.compiler.cycles.parameters import (
    COMMAND_FIELDS,
    MemoryTiming,
    Parameters,
    encode_commands,
    parameters_of,
)

__all__ = ["ACTIVITIES", "ENGINES", "Run", "run_commands"]

ENGINES = ("load", "gemm", "vector", "store")
"""In the order of `EngineNumber` in native/types.h."""

ACTIVITIES = (
    "working",
    "filling",
    "draining",
    "scaling",
    "scratchpad",
    "dram",
    "command",
    "ended",
    *(f"wait_{name}" for name in ENGINES),
)
"""In the order of `Activity` in native/types.h."""

COMMAND_RESULT = np.dtype(
    [("busy", np.int64), ("first", np.int64), ("last", np.int64), ("activity", np.int64, len(ACTIVITIES))]
)


_BY_ENGINE = (len(ENGINES), len(ACTIVITIES))

SNAPSHOT = np.dtype(
    [
        ("cycles", np.int64),
        ("bytes_read", np.int64),
        ("bytes_written", np.int64),
        ("activity", np.int64, _BY_ENGINE),
    ]
)


class _Result(ctypes.Structure):
    _by_engine = (ctypes.c_int64 * len(ACTIVITIES)) * len(ENGINES)
    _fields_ = [
        ("cycles", ctypes.c_int64),
        ("bytes_read", ctypes.c_int64),
        ("bytes_written", ctypes.c_int64),
        ("passed_over", ctypes.c_int64),
        ("activity", _by_engine),
        ("tail", _by_engine),
    ]


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """What became of a program.

    Attributes
    ----------
    cycles : int
        As the accelerator counts them: from the doorbell until everything is quiet.
    bytes_read, bytes_written : int
        On the bus, the program's own among them.
    commands : numpy array of COMMAND_RESULT
        By command: busy cycles of its engine, the first and the last of them, and what the engine's cycles went to
        from the end of its command before to this one's.
    activity, tail : int64 [engines, activities]
        What each engine's cycles went to, in all, and behind its last command.
    passed_over : int
        Cycles that weren't gone through, since they repeated those before.
    snapshots : numpy array of SNAPSHOT
        How far the run was when the array had worked through each of the marked commands.
    """

    cycles: int
    bytes_read: int
    bytes_written: int
    commands: np.ndarray
    activity: np.ndarray
    tail: np.ndarray
    passed_over: int
    snapshots: np.ndarray


def run_commands(
    commands, config, *, latency, bandwidth, outstanding=64, most=1 << 62, skips=True, marks=()
) -> Run:
    """The timing of a list of commands.

    Parameters
    ----------
    commands : list of Command
    config : Config
    latency : int
        Cycles from an address to the first data, and from the last write data to the response.
    bandwidth : float or None
        Bytes a cycle, reads and writes together; None for more than the bus can move both ways.
    outstanding : int
        Bursts that the memory accepts, of each direction.
    most : int
        Cycles after which the program must have ended.
    skips : bool
        Whether cycles that repeat those before are passed over; what comes out is the same.
    marks : sequence of int
        Positions of GEMM commands at whose ends snapshots are taken.

    Raises
    ------
    RuntimeError
        If it hasn't.
    """
    native = _checked_library()
    rows, flagged = encode_commands(commands, marks)
    snapshots = np.zeros(max(len(marks), 1), SNAPSHOT)
    results = np.zeros(len(commands), COMMAND_RESULT)
    result = _Result()
    timing = MemoryTiming(latency, latency, outstanding, bandwidth or 4.0 * config.axi_data_bytes)
    ended = native.model_run(
        ctypes.byref(parameters_of(config)),
        ctypes.byref(timing),
        rows.ctypes.data_as(ctypes.c_void_p),
        len(commands),
        flagged.ctypes.data_as(ctypes.c_void_p),
        ctypes.c_uint64(most),
        skips,
        results.ctypes.data_as(ctypes.c_void_p),
        snapshots.ctypes.data_as(ctypes.c_void_p),
        ctypes.byref(result),
    )
    if not ended:
        raise RuntimeError(f"the program must end within {most} cycles")
    return Run(
        cycles=result.cycles,
        bytes_read=result.bytes_read,
        bytes_written=result.bytes_written,
        commands=results,
        activity=np.array(result.activity),
        tail=np.array(result.tail),
        passed_over=result.passed_over,
        snapshots=snapshots[: len(marks)],
    )


def _checked_library():
    native = library()
    native.model_run.restype = ctypes.c_int
    sizes = (
        ctypes.sizeof(Parameters),
        ctypes.sizeof(MemoryTiming),
        8 * len(COMMAND_FIELDS),
        COMMAND_RESULT.itemsize,
        ctypes.sizeof(_Result),
        SNAPSHOT.itemsize,
    )
    found = tuple(native.model_sizes(number) for number in range(len(sizes)))
    if found != sizes:
        raise RuntimeError(f"the cycle model's structures must have {sizes} bytes, not {found}")
    return native
