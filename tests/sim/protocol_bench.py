"""The whole accelerator between independent AXI peers of cocotbext-axi (run by test_protocol.py).

Memory is an `AxiRam`, the host an `AxiLiteMaster`; neither shares code with `sim/`.
"""

import os
import random

import cocotb
from cocotb.triggers import First, RisingEdge, Timer
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiRam, AxiResp

from bertha.rtl.config import preset
from bertha.rtl.isa import Engine, FaultReason
from bertha.rtl.registers import IDENTITY, REGISTERS, Access, offset_of
from bertha.sim.cocotb_transport import CLOCK_STEPS
from tests.sim.programs import FAULTS, GEMM_SHAPES, copy_program, fault_program, gemm_program

CONFIG = preset(os.environ["PRESET"])
SEED = int(os.environ.get("SEED", "1"))
SIZE = 1 << 18
TIMEOUT = 200_000  # cycles


class Bench:
    """Host, memory and a monitor of the bus."""

    def __init__(self, dut):
        self.dut = dut
        self.host = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk, dut.rst)
        self.memory = AxiRam(AxiBus.from_prefix(dut, "m_axi"), dut.clk, dut.rst, size=SIZE)
        for peer in (self.host, self.memory):
            for interface in (peer.write_if, peer.read_if):
                interface.log.setLevel("WARNING")
        self.bursts = []
        cocotb.start_soon(self._watch())

    async def _watch(self):
        """Collects the addresses of every burst, and checks that a waiting one stays as it is."""
        dut, held = self.dut, {}
        while True:
            await RisingEdge(dut.clk)
            for channel in ("aw", "ar", "w"):
                valid, ready = (getattr(dut, f"m_axi_{channel}{name}") for name in ("valid", "ready"))
                names = ("data", "strb", "last") if channel == "w" else ("addr", "len", "size", "burst", "id")
                if dut.rst.value or not valid.value:
                    assert dut.rst.value or channel not in held, f"{channel}valid was withdrawn"
                    held.pop(channel, None)
                    continue
                payload = tuple(int(getattr(dut, f"m_axi_{channel}{name}").value) for name in names)
                assert held.get(channel, payload) == payload, f"{channel} changed while it waited"
                held[channel] = payload
                if ready.value:
                    del held[channel]
                    if channel != "w":
                        self.bursts.append((channel, *payload))

    async def start(self):
        """Resets everything."""
        print("seed", SEED)
        dut = self.dut
        dut.external_memory.value = 1
        dut.rst.value = 1
        for _ in range(4):
            await RisingEdge(dut.clk)
        dut.rst.value = 0
        await RisingEdge(dut.clk)

    def pause(self, odds):
        """Lets every channel of both peers stand still at random."""
        for number, channel in enumerate(
            (
                self.memory.write_if.aw_channel,
                self.memory.write_if.w_channel,
                self.memory.write_if.b_channel,
                self.memory.read_if.ar_channel,
                self.memory.read_if.r_channel,
                self.host.write_if.aw_channel,
                self.host.write_if.w_channel,
                self.host.write_if.b_channel,
                self.host.read_if.ar_channel,
                self.host.read_if.r_channel,
            )
        ):
            generator = random.Random(SEED + number)
            channel.set_pause_generator(iter(lambda g=generator: g.random() < odds, None))

    async def read(self, name):
        """A register."""
        answer = await self.host.read(offset_of(name), 4)
        assert answer.resp == AxiResp.OKAY
        return int.from_bytes(answer.data, "little")

    async def write(self, name, value):
        """Writes a register."""
        answer = await self.host.write(offset_of(name), value.to_bytes(4, "little"))
        assert answer.resp == AxiResp.OKAY

    async def run(self, program):
        """Runs a program to its interrupt and returns the status."""
        self.memory.write(program.base, program.before.tobytes())
        low, high = program.window
        for name, value in (
            ("program_addr", program.address),
            ("program_addr_high", 0),
            ("program_length", program.commands),
            ("window_base", low),
            ("window_base_high", 0),
            ("window_limit", high),
            ("window_limit_high", 0),
            ("irq_enable", 1),
            ("control", 1),
        ):
            await self.write(name, value)
        if not self.dut.irq.value:
            await First(RisingEdge(self.dut.irq), Timer(TIMEOUT * CLOCK_STEPS, "step"))
        assert self.dut.irq.value, f"no interrupt within {TIMEOUT} cycles"
        await self.write("irq_status", 1)
        for _ in range(2):
            await RisingEdge(self.dut.clk)
        assert not self.dut.irq.value
        return await self.read("status")

    def check(self, program):
        """Every byte is as it must be, every burst was legal, and nothing is left on the way."""
        assert self.memory.read(program.base, len(program.after)) == program.after.tobytes()
        beat = CONFIG.axi_data_bytes
        assert self.bursts
        for channel, addr, length, size, burst, _ in self.bursts:
            end = addr + (length + 1) * beat
            assert addr // 4096 == (end - 1) // 4096, f"{channel} burst at {addr:#x} crosses 4 KiB"
            assert (1 << size, burst, addr % beat) == (beat, 1, 0)
            assert length < CONFIG.burst_beats
            assert program.window[0] <= addr
            assert end <= program.window[1]
        for interface in (self.memory.write_if, self.memory.read_if):
            for channel in ("aw_channel", "w_channel", "b_channel", "ar_channel", "r_channel"):
                queue = getattr(interface, channel, None)
                assert queue is None or queue.empty(), f"{channel} isn't empty"


@cocotb.test()
@cocotb.parametrize(odds=[0.0, 0.3, 0.6])
async def programs(dut, odds):
    """Products and strided copies are right under backpressure and idle cycles on all ten channels."""
    bench = Bench(dut)
    await bench.start()
    if odds:
        bench.pause(odds)
    for program in (gemm_program(CONFIG, GEMM_SHAPES, seed=SEED), copy_program(CONFIG, seed=SEED, rows=3)):
        bench.bursts.clear()
        assert await bench.run(program) == 2
        bench.check(program)


@cocotb.test()
async def registers(dut):
    """Every register answers; what can be written keeps its value, byte by byte, and the rest ignores writes."""
    bench = Bench(dut)
    await bench.start()
    assert await bench.read("identity") == IDENTITY
    for register in REGISTERS:
        before = await bench.read(register.name)
        absent = register.name == "count_select" and not CONFIG.cycle_counters
        if register.access == Access.READ_WRITE and not absent:
            await bench.write(register.name, 0xA5C3_960F)
            assert await bench.read(register.name) == 0xA5C3_960F
            await bench.host.write(register.offset + 1, b"\x5a")  # one strobe
            assert await bench.read(register.name) == 0xA5C3_5A0F
            await bench.write(register.name, before)
        elif register.access == Access.READ or absent:
            await bench.host.write(register.offset, b"\xff\xff\xff\xff")
            assert await bench.read(register.name) == before


@cocotb.test()
@cocotb.parametrize(name=[name for name in FAULTS if not name.endswith(("slverr", "decerr"))])
async def faults(dut, name):
    """A fault is reported through the registers and the interrupt, and a good program runs after a clear."""
    bench = Bench(dut)
    await bench.start()
    case = fault_program(CONFIG, name)
    assert await bench.run(case.program) == 4
    assert FaultReason(await bench.read("error_reason")) == case.reason
    assert Engine(await bench.read("error_engine")) == case.engine
    assert await bench.read("error_index") == case.index
    bench.check(case.program)
    await bench.write("control", 2)
    assert await bench.read("status") == 0
    program = gemm_program(CONFIG, [(3, 4, 5)], seed=SEED)
    assert await bench.run(program) == 2
    bench.check(program)


@cocotb.test()
@cocotb.parametrize(direction=["read", "write"])
async def error_responses(dut, direction):
    """A bus error of the independent memory stops the program in the engine that met it."""
    bench = Bench(dut)
    await bench.start()
    interface = bench.memory.read_if if direction == "read" else bench.memory.write_if
    name = "load_slverr" if direction == "read" else "store_slverr"
    case = fault_program(CONFIG, name)
    original = getattr(interface, f"_{direction}")

    async def broken(address, argument):
        if case.error[0] <= address < case.error[1]:
            raise ValueError("the test's bus error")
        return await original(address, argument)

    setattr(interface, f"_{direction}", broken)
    assert await bench.run(case.program) == 4
    assert FaultReason(await bench.read("error_reason")) == FaultReason.AXI_SLVERR
    assert Engine(await bench.read("error_engine")) == case.engine
    assert await bench.read("error_index") == case.index
    bench.check(case.program)
