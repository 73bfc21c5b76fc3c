"""A simulated chip in this process that runs compiled programs: no cocotb, so that many short programs are cheap."""

import functools

import numpy as np

from bertha.runtime.driver import Driver
from bertha.runtime.transport import complete
from bertha.sim.build import build
from bertha.sim.library import LibraryTransport
from bertha.sim.memory import Stalls, stray_bytes

__all__ = ["Chip", "chip"]

TIMEOUT = 20_000_000


@functools.cache
def chip(config, seed=0):
    """The chip of this configuration: one in a process, as the library has but one memory."""
    return Chip(config, seed=seed)


class Chip:
    """An accelerator with its memory."""

    def __init__(self, config, *, seed=0):
        self._transport = LibraryTransport(build(config), seed=seed)
        self._driver = Driver(self._transport)
        self._transport.allocate(0, 1)
        self._transport.reset()
        self.cycles = 0

    @property
    def trace(self):
        """What each engine worked on (`bertha.sim.memory.Trace`)."""
        return self._transport.trace

    def run(self, program, inputs, *, latency=20, bandwidth=8.0, stalls=0.0, seed=0, timeout=TIMEOUT):
        """The int16 outputs [S, hidden] of a program's runs, one for each of `inputs` (see `input_pieces`).

        Whatever AXI forbids, and every byte that the program may not change but did, is a failure.
        """
        start, end = program.window
        memory = self._transport.allocate(start, end - start)
        known = len(memory.violations)
        memory.set_timing(latency=latency, bandwidth=bandwidth)
        memory.set_stalls(Stalls.everywhere(stalls), seed=seed)
        for address, content in program.pieces:
            memory.write(address, content)
        return [self._run(program, memory, known, pieces, timeout) for pieces in inputs]

    def _run(self, program, memory, known, pieces, timeout):
        output = (program.output16.address, program.output16.nbytes(program.config.array_n))
        for address, content in pieces:
            memory.write(address, content)
        # What scratch and results hold before must not matter.
        for address, nbytes in program.stores:
            memory.view(address, nbytes)[:] = 0xA5
        expected = memory.bytes.copy()
        complete(self._driver.start(program.program_address, len(program.commands), program.window))
        self.cycles = complete(self._driver.wait(timeout=timeout)).cycles
        assert memory.violations[known:] == []
        assert stray_bytes(memory, expected, program.stores) == 0
        return program.unpack_output(memory.view(*output).tobytes())


def equal(result, expected):
    """Whether two int16 results are the same, with a message that says where they aren't."""
    if np.array_equal(result, expected):
        return True
    token, feature = np.argwhere(result != expected)[0]
    print(
        f"{np.count_nonzero(result != expected)} of {expected.size} values differ, first at token {token}, "
        f"feature {feature}: {result[token, feature]} instead of {expected[token, feature]}"
    )
    return False
