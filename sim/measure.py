"""Cycles of a program in RTL, in this process: no results are looked at."""

from bertha.runtime.driver import Driver
from bertha.runtime.transport import complete
from bertha.sim.build import build
from bertha.sim.library import LibraryTransport

__all__ = ["measure_program"]

_transports = {}  # by configuration: a loaded simulation is there once in a process


def measure_program(program, *, latency, bandwidth, timeout=1 << 40) -> dict[str, int | float]:
    """What a program takes in simulation, with zeros as its input.

    Parameters
    ----------
    program : Program
        Compiled to run.
    latency : int
    bandwidth : float
        Of the memory, see `bertha.sim.memory.Memory.set_timing`.
    timeout : int
        Cycles.

    Returns
    -------
    dict
        `cycles`, `bytes_read`, `bytes_written`, and `working`: the part of them in which the array was busy.

    Raises
    ------
    ToolError
        If the simulation can't be built.
    AcceleratorFault
        If the program is stopped.
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
    for address, content in program.pieces:
        memory.write(address, content)
    read, written = memory.bytes_read, memory.bytes_written
    driver = Driver(transport)
    complete(driver.start(program.program_address, len(program.commands), program.window))
    counters = complete(driver.wait(timeout=timeout))
    return {
        "cycles": counters.cycles,
        "bytes_read": memory.bytes_read - read,
        "bytes_written": memory.bytes_written - written,
        "working": counters.gemm_busy / counters.cycles,
    }
