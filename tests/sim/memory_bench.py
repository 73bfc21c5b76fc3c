"""The simulated memory under an independent AXI manager (run by test_memory.py)."""

import random

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge, Timer
from cocotbext.axi import AxiBus, AxiMaster, AxiResp

from bertha.sim.cocotb_transport import CLOCK_STEPS
from bertha.sim.memory import Memory, Response, Stalls, Trace

BASE, SIZE = 0x4000, 1 << 16
BEAT = 8  # bytes of the bus in test_memory.py


async def start(dut):
    """A manager on a memory that has been reset."""
    dut.trace_active.value = 0
    dut.trace_index.value = 0
    memory = Memory(BASE, SIZE)
    manager = AxiMaster(AxiBus.from_prefix(dut, "m_axi"), dut.clk, dut.rst)
    dut.rst.value = 1
    for _ in range(3):
        await RisingEdge(dut.clk)
    dut.rst.value = 0
    await RisingEdge(dut.clk)
    return memory, manager


async def still(dut):
    """Signals of a manager that does nothing."""
    dut.rst.value = dut.trace_active.value = 0
    for name in ("awvalid", "wvalid", "bready", "arvalid", "rready"):
        getattr(dut, f"m_axi_{name}").value = 0
    memory = Memory(BASE, SIZE)
    await RisingEdge(dut.clk)
    return memory


def paced(generator, odds):
    """Endless idle pattern of a manager's channel."""
    while True:
        yield generator.random() < odds


@cocotb.test()
@cocotb.parametrize(stalls=[0.0, 0.3, 0.7], idle=[0.0, 0.5])
async def transfers(dut, stalls, idle):
    """Random writes and reads of any length, with partial strobes at both ends, arrive as they were sent."""
    seed = 7
    print("seed", seed)
    generator = random.Random(seed)
    memory, manager = await start(dut)
    memory.set_stalls(Stalls.everywhere(stalls), seed=seed)
    memory.set_timing(latency=generator.randint(1, 30))
    if idle:
        for channel in (
            manager.write_if.aw_channel,
            manager.write_if.w_channel,
            manager.write_if.b_channel,
            manager.read_if.ar_channel,
            manager.read_if.r_channel,
        ):
            channel.set_pause_generator(paced(random.Random(seed), idle))
    shadow = np.zeros(SIZE, np.uint8)
    for _ in range(25):
        length = generator.randint(1, 2500)
        # Whole beats on the address: the memory takes aligned bursts; strobes cut the last one.
        place = generator.randrange(0, SIZE - length - BEAT, BEAT)
        data = generator.randbytes(length)
        shadow[place : place + length] = np.frombuffer(data, np.uint8)
        await manager.write(BASE + place, data)
        start_ = generator.randrange(0, SIZE - 2500, BEAT)
        result = await manager.read(BASE + start_, 2400)
        assert result.data == shadow[start_ : start_ + 2400].tobytes()
    assert (memory.bytes == shadow).all()
    assert memory.violations == []
    assert manager.write_if.idle()
    assert manager.read_if.idle()


@cocotb.test()
async def counts_bytes(dut):
    """Bytes are counted by beat for reads and by strobe for writes."""
    memory, manager = await start(dut)
    before = memory.bytes_written
    await manager.write(BASE, bytes(13))
    assert memory.bytes_written - before == 13
    before = memory.bytes_read
    await manager.read(BASE, 13)
    await RisingEdge(dut.clk)
    assert memory.bytes_read - before == 2 * BEAT


@cocotb.test()
@cocotb.parametrize(response=[Response.SLVERR, Response.DECERR])
async def errors(dut, response):
    """Chosen addresses answer with an error in the direction that was asked for, and aren't written."""
    memory, manager = await start(dut)
    memory.add_error(BASE + 64, BASE + 72, response, on_write=False)
    memory.add_error(BASE + 128, BASE + 136, response, on_read=False)
    assert (await manager.write(BASE + 64, b"12345678")).resp == AxiResp.OKAY
    assert (await manager.read(BASE + 64, 8)).resp == AxiResp(response)
    assert (await manager.write(BASE + 120, b"abcdefgh12345678")).resp == AxiResp(response)
    assert memory.view(BASE + 120, 16).tobytes() == b"abcdefgh" + bytes(8)
    memory.clear_errors()
    assert (await manager.read(BASE + 64, 8)).data == b"12345678"


@cocotb.test()
async def outside(dut):
    """Addresses outside the memory answer DECERR."""
    _, manager = await start(dut)
    for address in (BASE - 8, BASE + SIZE):
        assert (await manager.write(address, bytes(8))).resp == AxiResp.DECERR
        assert (await manager.read(address, 8)).resp == AxiResp.DECERR


async def read_burst(dut, address, beats):
    """Asks for a burst with bare signals."""
    dut.m_axi_arid.value, dut.m_axi_araddr.value, dut.m_axi_arlen.value = 0, address, beats - 1
    dut.m_axi_arsize.value, dut.m_axi_arburst.value, dut.m_axi_arvalid.value = 3, 1, 1
    await RisingEdge(dut.clk)
    while not dut.m_axi_arready.value:
        await RisingEdge(dut.clk)
    dut.m_axi_arvalid.value = 0


@cocotb.test()
@cocotb.parametrize(latency=[1, 2, 17, 100])
async def latency(dut, latency):
    """The first data is there `latency` cycles after the address, to the cycle; then a beat a cycle."""
    memory = await still(dut)
    memory.set_timing(latency=latency)
    dut.m_axi_rready.value = 1
    await RisingEdge(dut.clk)
    await read_burst(dut, BASE, 8)
    cycles = 0
    arrivals = []
    while len(arrivals) < 8:
        await RisingEdge(dut.clk)
        cycles += 1
        assert cycles < 1000
        if dut.m_axi_rvalid.value:
            arrivals.append(cycles)
            assert bool(dut.m_axi_rlast.value) == (len(arrivals) == 8)
    assert arrivals == list(range(latency, latency + 8))
    dut.m_axi_rready.value = 0


@cocotb.test()
@cocotb.parametrize(bandwidth=[1.0, 3.2, 8.0, 16.0])
async def bandwidth(dut, bandwidth):
    """Reads and writes together move no more than `bandwidth` bytes a cycle, and no fewer when asked for more."""
    memory = await still(dut)
    memory.set_timing(latency=1, bandwidth=bandwidth)
    dut.m_axi_arid.value = dut.m_axi_awid.value = 0
    dut.m_axi_araddr.value = dut.m_axi_awaddr.value = BASE
    dut.m_axi_arlen.value = dut.m_axi_awlen.value = 15
    dut.m_axi_arsize.value = dut.m_axi_awsize.value = 3
    dut.m_axi_arburst.value = dut.m_axi_awburst.value = 1
    dut.m_axi_wstrb.value, dut.m_axi_wdata.value, dut.m_axi_wlast.value = 255, 0, 0
    for name in ("arvalid", "awvalid", "wvalid", "rready", "bready"):
        getattr(dut, f"m_axi_{name}").value = 1
    beat = 0
    moved = cycles = 0
    for cycle in range(1200):
        dut.m_axi_wlast.value = beat % 16 == 15
        await RisingEdge(dut.clk)
        wrote, read = bool(dut.m_axi_wready.value), bool(dut.m_axi_rvalid.value)
        beat += wrote
        if cycle >= 200:
            moved += BEAT * (wrote + read)
            cycles += 1
    assert abs(moved / cycles - bandwidth) < 0.03 * bandwidth
    for name in ("arvalid", "awvalid", "wvalid", "rready", "bready"):
        getattr(dut, f"m_axi_{name}").value = 0
    dut.rst.value = 1
    await RisingEdge(dut.clk)
    await RisingEdge(dut.clk)
    assert memory.violations == []


@cocotb.test()
async def reset_drops_transfers(dut):
    """After a reset nothing of what was asked for before arrives."""
    memory = await still(dut)
    memory.set_timing(latency=20)
    dut.m_axi_rready.value = 1
    await read_burst(dut, BASE, 4)
    dut.rst.value = 1
    await RisingEdge(dut.clk)
    dut.rst.value = 0
    for _ in range(60):
        await RisingEdge(dut.clk)
        assert not dut.m_axi_rvalid.value


async def violation(dut, memory):
    """The sentence about what was just done against the rules."""
    await RisingEdge(dut.clk)
    await RisingEdge(dut.clk)
    found = [sentence.split(": ", 1)[1] for sentence in memory.violations]
    dut.rst.value = 1
    dut.m_axi_awvalid.value = dut.m_axi_wvalid.value = dut.m_axi_arvalid.value = 0
    await RisingEdge(dut.clk)
    await RisingEdge(dut.clk)
    assert found
    return found[-1]


@cocotb.test()
async def protocol(dut):
    """Every rule that the memory checks is reported when it is broken."""
    dut.m_axi_bready.value = dut.m_axi_rready.value = 1

    memory = await still(dut)
    await read_burst(dut, BASE + 4096 - 64, 9)
    assert "crosses a 4 KiB boundary" in await violation(dut, memory)

    memory = await still(dut)
    await read_burst(dut, BASE + 4096 - 64, 8)
    await RisingEdge(dut.clk)
    await RisingEdge(dut.clk)
    assert len(memory.violations) == 1  # only the one before: the boundary may be reached

    memory = await still(dut)
    await read_burst(dut, BASE + 4, 1)
    assert "multiple of the bus width" in await violation(dut, memory)

    memory = await still(dut)
    memory.set_stalls(Stalls(ar=1.0, aw=1.0, w=1.0), seed=1)
    await RisingEdge(dut.clk)
    dut.m_axi_araddr.value, dut.m_axi_arlen.value, dut.m_axi_arsize.value, dut.m_axi_arburst.value = (
        BASE,
        0,
        3,
        1,
    )
    dut.m_axi_arvalid.value = 1
    await RisingEdge(dut.clk)
    await RisingEdge(dut.clk)
    dut.m_axi_araddr.value = BASE + 8
    assert "read address changed" in await violation(dut, memory)

    memory = await still(dut)
    memory.set_stalls(Stalls(ar=1.0, aw=1.0, w=1.0), seed=1)
    await RisingEdge(dut.clk)
    dut.m_axi_wdata.value, dut.m_axi_wlast.value, dut.m_axi_wstrb.value, dut.m_axi_wvalid.value = 1, 0, 255, 1
    await RisingEdge(dut.clk)
    await RisingEdge(dut.clk)
    dut.m_axi_wvalid.value = 0
    assert "wvalid was withdrawn" in await violation(dut, memory)

    memory = await still(dut)
    dut.m_axi_awaddr.value, dut.m_axi_awlen.value, dut.m_axi_awsize.value, dut.m_axi_awburst.value = (
        BASE,
        1,
        3,
        1,
    )
    dut.m_axi_awvalid.value = dut.m_axi_wvalid.value = dut.m_axi_wlast.value = 1
    await RisingEdge(dut.clk)
    while not dut.m_axi_awready.value:
        await RisingEdge(dut.clk)
    dut.m_axi_awvalid.value = 0
    await RisingEdge(dut.clk)
    while not dut.m_axi_wready.value:
        await RisingEdge(dut.clk)
    assert "wlast before the last beat" in await violation(dut, memory)


@cocotb.test()
async def trace(dut):
    """The trace has each command's active cycles, the first and the last of them."""
    memory = await still(dut)
    rows = Trace()
    rows.clear()
    first = memory.cycle + 2
    for index, active in ((3, 1), (3, 0), (3, 1), (5, 1)):
        dut.trace_active.value = 0b0100 if active else 0
        dut.trace_index.value = index << 48
        await RisingEdge(dut.clk)
    dut.trace_active.value = 0
    await RisingEdge(dut.clk)
    await Timer(CLOCK_STEPS, "step")
    gemm = rows.rows("gemm")
    assert gemm[3].tolist() == (2, first, first + 2)
    assert gemm[5].tolist() == (1, first + 3, first + 3)
    assert not gemm["busy"][[0, 1, 2, 4]].any()
    assert rows.newest() == 5
    assert len(rows.rows("load")) == 0
