"""A compiled program on an accelerator: the image is put into memory once, inputs and results go to and fro."""

import numpy as np

from bertha.runtime.driver import Counters, Driver

__all__ = ["Session"]

_TIMEOUT_FACTOR = 4  # a run may take so many times the predicted cycles
_SPARE_CYCLES = 1_000_000


class Session:
    """Runs of one program.

    Its methods are coroutines, as the driver's.

    Parameters
    ----------
    transport : bertha.runtime.transport.Transport
    program : bertha.compiler.program.Program
    predicted_cycles : int
        Of a run; four times as many and a million more may pass.
    """

    def __init__(self, transport, program, *, predicted_cycles):
        self._driver, self._transport, self._program = Driver(transport), transport, program
        self._timeout = _TIMEOUT_FACTOR * predicted_cycles + _SPARE_CYCLES

    async def load(self) -> None:
        """Checks what the accelerator is, and puts the program and its data into memory.

        Raises
        ------
        DriverError
            If the accelerator has another configuration.
        """
        await self._driver.check_identity(self._program.config)
        for address, content in self._program.pieces:
            await self._transport.write_memory(address, content)

    async def run(self, x16, ranges=None, *, progress=None) -> tuple[np.ndarray, Counters]:
        """One run: the int16 output [S, hidden] of an int16 input [S, hidden], and the accelerator's counters.

        Parameters
        ----------
        x16, ranges
            As of `Program.input_pieces`.
        progress : function of int, optional
            Called now and then with the cycles so far.

        Raises
        ------
        AcceleratorFault
            If the program was stopped.
        DriverError
            If it doesn't end in time.
        """
        program = self._program
        for address, content in program.input_pieces(x16=x16, ranges=ranges):
            await self._transport.write_memory(address, content)
        counters = await self._driver.run_program(
            program.program_address,
            len(program.commands),
            program.window,
            timeout=self._timeout,
            progress=progress,
        )
        place = program.output16
        data = await self._transport.read_memory(place.address, place.nbytes(program.config.array_n))
        return program.unpack_output(data), counters
