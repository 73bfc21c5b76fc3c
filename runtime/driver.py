"""Host driver: the register protocol of an accelerator, whatever the way to it."""

from dataclasses import dataclass

from bertha.errors import AcceleratorFault, DriverError
from bertha.rtl.isa import Engine, FaultReason
from bertha.rtl.registers import IDENTITY, VERSION, offset_of
from bertha.runtime.engine_cycles import EngineCycles, engine_cycles

__all__ = ["Counters", "Driver"]

_DOORBELL, _CLEAR, _STOP, _ABANDON, _SNAPSHOT = 1, 2, 4, 8, 16  # bits of control
_BUSY, _DONE, _ERROR, _OWED = 1, 2, 4, 8  # bits of status


@dataclass(frozen=True)
class Counters:
    """The accelerator's counters of a program.

    Attributes
    ----------
    cycles : int
        From the doorbell to the end.
    load_busy, store_busy, gemm_busy, vector_busy : int
        Cycles in which each engine worked.
    commands : int
        Commands dispatched.
    """

    cycles: int
    load_busy: int
    store_busy: int
    gemm_busy: int
    vector_busy: int
    commands: int


class Driver:
    """An accelerator as its host sees it.

    All methods are coroutines; with a transport that blocks, `bertha.runtime.transport.complete` runs them.
    They raise `bertha.errors.DriverError` if the transport does.

    Parameters
    ----------
    transport : bertha.runtime.transport.Transport
    """

    def __init__(self, transport):
        self.transport = transport

    async def read(self, name) -> int:
        """The value of the register called `name`."""
        return await self.transport.read(offset_of(name))

    async def write(self, name, value) -> None:
        """Writes the register called `name`."""
        await self.transport.write(offset_of(name), value)

    async def read_wide(self, name) -> int:
        """The value of a pair of registers, `name` and its high half."""
        return await self.read(name) | await self.read(f"{name}_high") << 32

    async def write_wide(self, name, value) -> None:
        """Writes a pair of registers, `name` and its high half."""
        await self.write(name, value & 0xFFFF_FFFF)
        await self.write(f"{name}_high", value >> 32)

    async def check_identity(self, config) -> None:
        """Checks that the registers describe an accelerator of this configuration.

        Raises
        ------
        DriverError
            If one doesn't.
        """
        expected = {
            "identity": IDENTITY,
            "version": VERSION,
            "array_n": config.array_n,
            "scratchpad_bytes": config.scratchpad_bytes,
            "axi": config.axi_data_bits << 16 | config.axi_addr_bits,
            "limits": config.row_slots << 16 | config.semaphores << 8 | config.queue_depth,
        }
        for name, value in expected.items():
            found = await self.read(name)
            if found != value:
                raise DriverError(f"register {name} must be {value:#x}, not {found:#x}")

    async def start(self, address, length, window) -> None:
        """Sets the program (its address and number of commands) and the window, and rings the doorbell."""
        await self.write_wide("program_addr", address)
        await self.write("program_length", length)
        await self.write_wide("window_base", window[0])
        await self.write_wide("window_limit", window[1])
        await self.write("irq_enable", 1)
        await self.write("control", _DOORBELL)

    async def wait(self, *, timeout, every=50_000, progress=None) -> Counters:
        """Waits for the interrupt and finishes the program (`finish`).

        Parameters
        ----------
        timeout : int
            Cycles.
        every : int
            Cycles between calls of `progress`, a function of the cycles so far.

        Raises
        ------
        AcceleratorFault
            If the program was stopped.
        DriverError
            If there is no interrupt in time.
        """
        waited = 0
        while not await self.transport.wait_for_interrupt(min(every, timeout - waited)):
            waited = min(waited + every, timeout)
            if waited == timeout:
                raise DriverError(f"the program must raise its interrupt within {timeout} cycles")
            if progress:
                progress(waited)
        return await self.finish()

    async def finish(self) -> Counters:
        """Acknowledges the interrupt of a program that has ended, and returns its `Counters`.

        Raises
        ------
        AcceleratorFault
            If the program was stopped; `clear` makes the accelerator ready again.
        DriverError
            If it hasn't ended.
        """
        await self.write("irq_status", 1)
        status = await self.read("status")
        if status & _ERROR:
            raise AcceleratorFault(
                FaultReason(await self.read("error_reason")),
                await self.read("error_index"),
                Engine(await self.read("error_engine")),
            )
        if not status & _DONE:
            raise DriverError(f"status must say done after the interrupt, not {status:#x}")
        return Counters(
            cycles=await self.read_wide("cycles"),
            load_busy=await self.read("load_busy"),
            store_busy=await self.read("store_busy"),
            gemm_busy=await self.read("gemm_busy"),
            vector_busy=await self.read("vector_busy"),
            commands=await self.read("commands_done"),
        )

    async def run_program(self, address, length, window, **waiting) -> Counters:
        """Runs a program to its end: `start`, then `wait`."""
        await self.start(address, length, window)
        return await self.wait(**waiting)

    async def snapshot(self) -> None:
        """Keeps the cycle counters of a program that runs as they are now; the end of a program does so by itself."""
        await self.write("control", _SNAPSHOT)

    async def engine_cycles(self) -> EngineCycles | None:
        """Where each engine's cycles went until the last snapshot; None of an accelerator that doesn't count them."""
        return await engine_cycles(self)

    async def stop(self) -> None:
        """Ends a program that runs: `wait` then raises an AcceleratorFault, HOST_STOP or what came before it.

        The accelerator waits for what the bus owes it. Of a memory that doesn't answer, `abandon` it.
        """
        await self.write("control", _STOP)

    async def owes_answers(self) -> bool:
        """Whether a stopped program still waits for answers of the bus."""
        return await self.read("status") & (_BUSY | _OWED) == _BUSY | _OWED

    async def abandon(self) -> None:
        """Gives up the answers that the bus owes a stopped program; three programs between two resets."""
        await self.write("control", _ABANDON)

    async def clear(self) -> None:
        """Makes the accelerator ready again after a fault."""
        await self.write("control", _CLEAR)
