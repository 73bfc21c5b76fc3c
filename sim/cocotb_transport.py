"""The way to a simulated accelerator under cocotb."""

from cocotb.simtime import get_sim_time
from cocotb.triggers import First, RisingEdge, Timer

from bertha.errors import DriverError

__all__ = ["CLOCK_STEPS", "CocotbTransport"]

CLOCK_STEPS = 2
"""Simulation time steps of a clock cycle (`half_period` in `sim/hdl/cocotb_main.cpp`)."""

_TRANSFER_CYCLES = 1000  # no register access takes longer


class CocotbTransport:
    """A `bertha.runtime.transport.Transport` over the AXI4-Lite port of a simulated system.

    A bench that is the accelerator's memory itself sets `external_memory` afterwards, and has no use for
    `read_memory` and `write_memory`.

    Attributes
    ----------
    last_write, interrupted : int
        Clock edge of the last register write, and of the interrupt that was waited for last, counted as
        `bertha.sim.memory.Memory.cycle`.

    Parameters
    ----------
    dut : cocotb handle
        With the ports `clk`, `rst`, `irq` and `s_axil_*`.
    memory : bertha.sim.memory.Memory, optional
    """

    def __init__(self, dut, *, memory=None):
        self._dut = dut
        self._memory = memory
        self._edge = RisingEdge(dut.clk)
        for name in ("awvalid", "wvalid", "bready", "arvalid", "rready"):
            self._port(name).value = 0
        dut.rst.value = 0
        dut.external_memory.value = 0
        self.last_write = self.interrupted = 0

    @staticmethod
    def _clock_edges() -> int:
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

    async def write(self, offset, value) -> None:
        self._port("awaddr").value = offset
        self._port("wdata").value = value
        self._port("wstrb").value = 0xF
        await self._transfer(("awvalid", "wvalid"), {"awvalid": "awready", "wvalid": "wready"})
        self.last_write = self._clock_edges()
        await self._respond("bready", "bvalid", "bresp", f"writing the register at {offset:#x}")

    async def read(self, offset) -> int:
        self._port("araddr").value = offset
        await self._transfer(("arvalid",), {"arvalid": "arready"})
        return await self._respond(
            "rready", "rvalid", "rresp", f"reading the register at {offset:#x}", "rdata"
        )

    async def wait_for_interrupt(self, cycles) -> bool:
        if not self._dut.irq.value:
            await First(RisingEdge(self._dut.irq), Timer(max(cycles, 1) * CLOCK_STEPS, "step"))
        self.interrupted = self._clock_edges()
        return bool(self._dut.irq.value)

    async def read_memory(self, address, nbytes) -> bytes:
        return self._memory.view(address, nbytes).tobytes()

    async def write_memory(self, address, data) -> None:
        self._memory.write(address, data)

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
        raise DriverError(
            f"s_axil_{ready_of[waiting[0]]} must answer within {_TRANSFER_CYCLES} cycles, but stayed low"
        )

    async def _respond(self, ready, valid, response, what, data=None):
        self._port(ready).value = 1
        for _ in range(_TRANSFER_CYCLES):
            await self._edge
            if self._port(valid).value:
                self._port(ready).value = 0
                code = int(self._port(response).value)
                if code:
                    raise DriverError(f"{what} must be answered OKAY, not {code}")
                return int(self._port(data).value) if data else None
        raise DriverError(f"{what} must be answered within {_TRANSFER_CYCLES} cycles")
