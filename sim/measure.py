"""Cycles of a program in RTL, in this process: no results are looked at."""

from dataclasses import dataclass

import numpy as np

from bertha.runtime.driver import Driver
from bertha.runtime.transport import complete
from bertha.sim.build import build
from bertha.sim.library import LibraryTransport
from bertha.sim.memory import TRACE_ENGINES, Stalls

__all__ = ["Simulated", "measure_program", "simulate_program"]

_transports = {}  # by configuration: a loaded simulation is there once in a process


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """What a program took.

    Attributes
    ----------
    cycles : int
    bytes_read, bytes_written : int
    gemm_busy : int
        Cycles in which the array was busy.
    trace : dict of str to array
        Rows of `bertha.sim.memory.Trace` by engine, cycles from the doorbell.
    """

    cycles: int
    bytes_read: int
    bytes_written: int
    gemm_busy: int
    trace: dict


def simulate_program(
    program, *, latency, bandwidth, stalls=0.0, seed=0, timeout=1 << 40, progress=None
) -> Simulated:
    """Runs a program in simulation, with zeros as its input.

    Parameters
    ----------
    program : Program
        Compiled to run.
    latency : int
    bandwidth : float
        Of the memory, see `bertha.sim.memory.Memory.set_timing`.
    stalls : float
        Odds that a channel of the bus stands still in a cycle; the same `seed` gives the same stalls.
    timeout : int
        Cycles.
    progress : function of int, optional
        Called with the cycles so far, now and then.

    Raises
    ------
    ToolError
        If the simulation can't be built.
    AcceleratorFault, DriverError
        If the program is stopped, or takes too long.
    """
    config = program.config
    if config not in _transports:
        transport = LibraryTransport(build(config))
        transport.allocate(0, 1)
        transport.reset()
        _transports[config] = transport
    transport = _transports[config]
    start, end = program.window
    memory = transport.allocate(start, end - start)
    memory.set_timing(latency=latency, bandwidth=bandwidth)
    memory.set_stalls(Stalls.everywhere(stalls), seed=seed)
    for address, content in program.pieces:
        memory.write(address, content)
    transport.trace.clear()
    read, written = memory.bytes_read, memory.bytes_written
    driver = Driver(transport)
    complete(driver.start(program.program_address, len(program.commands), program.window))
    doorbell = transport.cycle
    counters = complete(driver.wait(timeout=timeout, progress=progress))
    trace = {engine: transport.trace.rows(engine) for engine in TRACE_ENGINES}
    for rows in trace.values():
        for name in ("first", "last"):
            rows[name] -= np.where(rows["busy"] > 0, doorbell, 0).astype(np.uint64)
    return Simulated(
        cycles=counters.cycles,
        bytes_read=memory.bytes_read - read,
        bytes_written=memory.bytes_written - written,
        gemm_busy=counters.gemm_busy,
        trace=trace,
    )


def measure_program(program, *, latency, bandwidth, timeout=1 << 40) -> dict[str, int | float]:
    """What a program takes in simulation: `cycles`, `bytes_read`, `bytes_written`, and `working`: the part of them in
    which the array was busy.

    Parameters and errors are those of `simulate_program`.
    """
    found = simulate_program(program, latency=latency, bandwidth=bandwidth, timeout=timeout)
    return {
        "cycles": found.cycles,
        "bytes_read": found.bytes_read,
        "bytes_written": found.bytes_written,
        "working": found.gemm_busy / found.cycles,
    }
