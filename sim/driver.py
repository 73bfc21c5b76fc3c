"""Host driver: reads and writes registers over AXI4-Lite and runs programs, under cocotb."""

from dataclasses import dataclass

from cocotb.simtime import get_sim_time
from cocotb.triggers import First, RisingEdge, Timer

from bertha.errors import AcceleratorFault, SimulationError
from bertha.rtl.isa import Engine, FaultReason
from bertha.rtl.registers import IDENTITY, VERSION, offset_of

__all__ = ["CLOCK_STEPS", "Driver", "ProgramResult"]

CLOCK_STEPS = 2
"""Simulation time steps of a clock cycle (`half_period` in `sim/hdl/cocotb_main.cpp`)."""

_DOORBELL, _CLEAR = 1, 2  # bits of control
_DONE, _ERROR = 2, 4  # bits of status
_TRANSFER_CYCLES = 1000  # no register access takes longer


@dataclass(frozen=True)
class ProgramResult:
    """Counters after a program.

    Attributes
    ----------
    doorbell : int
        Clock edge of the doorbell write, counted as `bertha.sim.memory.Memory.cycle`.
    elapsed : int
        Clock edges from the doorbell write to the interrupt.
    cycles, load_busy, store_busy, gemm_busy, vector_busy, commands : int
        The accelerator's own counters.
    """

    doorbell: int
    elapsed: int
    cycles: int
    load_busy: int
    store_busy: int
    gemm_busy: int
    vector_busy: int
    commands: int


class Driver:
    """The accelerator as its host sees it.

    Parameters
    ----------
    dut : cocotb handle
        With the ports `clk`, `rst`, `irq` and `s_axil_*`.

    The accelerator's memory is the simulated one; a bench that is the memory sets `external_memory`.
    """

    def __init__(self, dut):
        self._dut = dut
        self._edge = RisingEdge(dut.clk)
        for name in ("awvalid", "wvalid", "bready", "arvalid", "rready"):
            self._port(name).value = 0
        dut.rst.value = 0
        dut.external_memory.value = 0
        self._last_write = self._doorbell = 0

    @staticmethod
    def _clock_edges():
        return (int(get_sim_time("step")) + CLOCK_STEPS // 2) // CLOCK_STEPS

    def _port(self, name):
        return getattr(self._dut, f"s_axil_{name}")

    async def reset(self, cycles=4) -> None:
        """Holds the reset for some cycles."""
        self._dut.rst.value = 1
        for _ in range(cycles):
            await self._edge
        self._dut.rst.value = 0
        await self._edge

    async def _transfer(self, valids, ready_of):
        """Raises the valids; lowers each after the clock edge that has its ready, and returns after the last."""
        for valid in valids:
            self._port(valid).value = 1
        waiting = list(valids)
        for _ in range(_TRANSFER_CYCLES):
            await self._edge
            for valid in [valid for valid in waiting if self._port(ready_of[valid]).value]:
                self._port(valid).value = 0
                waiting.remove(valid)
            if not waiting:
                return
        raise SimulationError(
            f"s_axil_{ready_of[waiting[0]]} must answer within {_TRANSFER_CYCLES} cycles, but stayed low"
        )

    async def write(self, name, value) -> None:
        """Writes the register called `name`.

        Raises
        ------
        SimulationError
            If it is refused or not answered.
        """
        self._port("awaddr").value = offset_of(name)
        self._port("wdata").value = value
        self._port("wstrb").value = 0xF
        await self._transfer(("awvalid", "wvalid"), {"awvalid": "awready", "wvalid": "wready"})
        self._last_write = self._clock_edges()
        await self._respond("bready", "bvalid", "bresp", f"writing register {name}")

    async def read(self, name):
        """The value of the register called `name`.

        Raises
        ------
        SimulationError
            If it is refused or not answered.
        """
        self._port("araddr").value = offset_of(name)
        await self._transfer(("arvalid",), {"arvalid": "arready"})
        return await self._respond("rready", "rvalid", "rresp", f"reading register {name}", "rdata")

    async def _respond(self, ready, valid, response, what, data=None):
        self._port(ready).value = 1
        for _ in range(_TRANSFER_CYCLES):
            await self._edge
            if self._port(valid).value:
                self._port(ready).value = 0
                code = int(self._port(response).value)
                if code:
                    raise SimulationError(f"{what} must be answered OKAY, not {code}")
                return int(self._port(data).value) if data else None
        raise SimulationError(f"{what} must be answered within {_TRANSFER_CYCLES} cycles")

    async def read_wide(self, name):
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
        SimulationError
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
                raise SimulationError(f"register {name} must be {value:#x}, not {found:#x}")

    async def start(self, address, length, window) -> None:
        """Sets the program (its address and number of commands) and the window, and rings the doorbell."""
        await self.write_wide("program_addr", address)
        await self.write("program_length", length)
        await self.write_wide("window_base", window[0])
        await self.write_wide("window_limit", window[1])
        await self.write("irq_enable", 1)
        await self.write("control", _DOORBELL)
        self._doorbell = self._last_write

    async def wait(self, *, timeout, every=50_000, progress=None):
        """Waits for the interrupt, acknowledges it, and returns the counters.

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
        SimulationError
            If there is no interrupt in time.
        """
        interrupt, waited = RisingEdge(self._dut.irq), 0
        while not self._dut.irq.value:
            if waited >= timeout:
                raise SimulationError(f"the program must raise its interrupt within {timeout} cycles")
            slice_ = min(every, timeout - waited)
            await First(interrupt, Timer(slice_ * CLOCK_STEPS, "step"))
            waited += slice_
            if progress and not self._dut.irq.value:
                progress(waited)
        elapsed = self._clock_edges() - self._doorbell
        await self.write("irq_status", 1)
        status = await self.read("status")
        if status & _ERROR:
            raise AcceleratorFault(
                FaultReason(await self.read("error_reason")),
                await self.read("error_index"),
                Engine(await self.read("error_engine")),
            )
        if not status & _DONE:
            raise SimulationError(f"status must say done after the interrupt, not {status:#x}")
        return ProgramResult(
            doorbell=self._doorbell,
            elapsed=elapsed,
            cycles=await self.read_wide("cycles"),
            load_busy=await self.read("load_busy"),
            store_busy=await self.read("store_busy"),
            gemm_busy=await self.read("gemm_busy"),
            vector_busy=await self.read("vector_busy"),
            commands=await self.read("commands_done"),
        )

    async def run_program(self, address, length, window, **waiting):
        """Runs a program to its end: `start`, then `wait`."""
        await self.start(address, length, window)
        return await self.wait(**waiting)

    async def clear(self) -> None:
        """Makes the accelerator ready again after a fault."""
        await self.write("control", _CLEAR)
