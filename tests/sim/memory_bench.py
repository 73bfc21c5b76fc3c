"""The simulated memory under an independent AXI manager (run by test_memory.py)."""

import random

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge, Timer
from cocotbext.axi import AxiBus, AxiMaster, AxiResp

from bertha.sim.cocotb_transport import CLOCK_STEPS
from bertha.sim.memory import AddressWaits, Manners, Memory, Misdeed, Response, Stalls, Trace

BASE, SIZE = 0x4000, 1 << 16
BEAT = 8  # bytes of the bus in test_memory.py


async def start(dut):
    """A manager on a memory that has been reset."""
    dut.trace_active.value = 0
    dut.trace_index.value = 0
    dut.trace_classified.value = 0
    dut.trace_class.value = 0
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


@cocotb.test()
@cocotb.parametrize(latency=[1, 2, 17, 100])
async def latency(dut, latency):
    """The first data is there `latency` cycles after the address, to the cycle; then a beat a cycle."""
    memory = await still(dut)
    memory.set_timing(latency=latency)
    dut.m_axi_rready.value = 1
    await RisingEdge(dut.clk)
    await give_address(dut, "ar", BASE, 8)
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
    await give_address(dut, "ar", BASE, 4)
    dut.rst.value = 1
    await RisingEdge(dut.clk)
    dut.rst.value = 0
    for _ in range(60):
        await RisingEdge(dut.clk)
        assert not dut.m_axi_rvalid.value


async def give_address(dut, channel, address, beats, number=0):
    """Asks for a burst on channel `aw` or `ar`, with bare signals, until it is taken."""
    put_address(dut, channel, addr=address, len=beats - 1, id=number)
    await RisingEdge(dut.clk)
    while not getattr(dut, f"m_axi_{channel}ready").value:
        await RisingEdge(dut.clk)
    getattr(dut, f"m_axi_{channel}valid").value = 0


def put_address(dut, channel, **fields):
    """A burst on channel `aw` or `ar`: of one beat at BASE, where `fields` don't say otherwise."""
    for name, value in {"addr": BASE, "len": 0, "size": 3, "burst": 1, "id": 0, "valid": 1, **fields}.items():
        getattr(dut, f"m_axi_{channel}{name}").value = value


def put_data(dut, **fields):
    """A write beat, the last one where `fields` don't say otherwise."""
    for name, value in {"data": 1, "strb": 255, "last": 1, "valid": 1, **fields}.items():
        getattr(dut, f"m_axi_w{name}").value = value


async def collect(dut, channel, names, cycles):
    """What comes on channel `r` or `b`, always ready, as tuples of the named signals."""
    getattr(dut, f"m_axi_{channel}ready").value = 1
    beats = []
    for _ in range(cycles):
        await RisingEdge(dut.clk)
        if getattr(dut, f"m_axi_{channel}valid").value:
            beats.append(tuple(int(getattr(dut, f"m_axi_{channel}{name}").value) for name in names))
    getattr(dut, f"m_axi_{channel}ready").value = 0
    return beats


async def reset(dut):
    """Ends what a test left on the bus."""
    dut.m_axi_awvalid.value = dut.m_axi_wvalid.value = dut.m_axi_arvalid.value = 0
    dut.rst.value = 1
    await RisingEdge(dut.clk)
    await RisingEdge(dut.clk)
    dut.rst.value = 0
    await RisingEdge(dut.clk)


@cocotb.test()
@cocotb.parametrize(interleave=[False, True])
async def orders(dut, interleave):
    """Read beats of different IDs may come in any order; those of an ID come in theirs, with RLAST at the ends."""
    memory = await still(dut)
    memory.bytes.view("<u8")[:] = np.arange(SIZE // 8)
    memory.set_timing(latency=20)
    memory.set_manners(Manners(interleave=interleave))
    await RisingEdge(dut.clk)
    for number, address in ((0, BASE), (1, BASE + 0x800), (0, BASE + 0x400), (2, BASE + 0xC00)):
        await give_address(dut, "ar", address, 16, number)
    beats = await collect(dut, "r", ("id", "data", "last"), 150)
    assert len(beats) == 64
    lasts = [n % 16 == 15 for n in range(16)]
    for number, starts in ((0, (0, 128)), (1, (256,)), (2, (384,))):
        expected = [(number, start + n, lasts[n]) for start in starts for n in range(16)]
        assert [beat for beat in beats if beat[0] == number] == expected
    ids = [beat[0] for beat in beats]
    switches = sum(a != b for a, b in zip(ids, ids[1:]))
    assert switches > 10 if interleave else ids == [0] * 16 + [1] * 16 + [0] * 16 + [2] * 16
    await reset(dut)


@cocotb.test()
async def address_waits_for_valid_data(dut):
    """AWREADY comes only once WVALID is high."""
    memory = await still(dut)
    memory.set_manners(Manners(address_waits=AddressWaits.DATA_VALID))
    await RisingEdge(dut.clk)
    put_address(dut, "aw")
    for _ in range(30):
        await RisingEdge(dut.clk)
        assert not dut.m_axi_awready.value
    put_data(dut, data=0x77)
    while not dut.m_axi_awready.value:
        await RisingEdge(dut.clk)
        assert not dut.m_axi_wready.value
    dut.m_axi_awvalid.value = 0
    while not dut.m_axi_wready.value:
        await RisingEdge(dut.clk)
    dut.m_axi_wvalid.value = 0
    assert await collect(dut, "b", ("id", "resp"), 10) == [(0, 0)]
    assert memory.bytes[0] == 0x77
    await reset(dut)


@cocotb.test()
@cocotb.parametrize(waits=[AddressWaits.NOTHING, AddressWaits.DATA_TAKEN])
async def data_before_the_address(dut, waits):
    """Data are taken long before their address, as many as may; or the address only after all of them."""
    memory = await still(dut)
    all_first = waits == AddressWaits.DATA_TAKEN
    memory.set_manners(Manners(address_waits=waits, early_beats=256 if all_first else 2))
    await RisingEdge(dut.clk)
    if all_first:
        put_address(dut, "aw", len=3, id=2)
    taken = 0
    put_data(dut, data=100, last=0)
    for _ in range(30):
        await RisingEdge(dut.clk)
        if dut.m_axi_wvalid.value and dut.m_axi_wready.value:
            taken += 1
            put_data(dut, data=100 + taken, last=int(taken == 3), valid=int(taken < 4))
        if dut.m_axi_awready.value and dut.m_axi_awvalid.value:
            assert not all_first or taken == 4
            dut.m_axi_awvalid.value = 0
    if not all_first:
        assert taken == 2 and not memory.bytes.any()
        put_address(dut, "aw", len=3, id=2)
        await RisingEdge(dut.clk)
        while not dut.m_axi_awready.value:
            await RisingEdge(dut.clk)
        dut.m_axi_awvalid.value = 0
        while taken < 4:
            await RisingEdge(dut.clk)
            if dut.m_axi_wready.value:
                taken += 1
                put_data(dut, data=100 + taken, last=int(taken == 3), valid=int(taken < 4))
    assert await collect(dut, "b", ("id", "resp"), 10) == [(2, 0)]
    assert memory.bytes.view("<u8")[:5].tolist() == [100, 101, 102, 103, 0]
    await reset(dut)


@cocotb.test()
async def silence(dut):
    """A channel that falls silent says nothing for a while, and then goes on where it was."""
    memory = await still(dut)
    memory.set_stalls(Stalls(), seed=3)
    memory.set_manners(Manners(silence=0.05, silence_cycles=60))
    dut.m_axi_rready.value = 1
    await RisingEdge(dut.clk)
    await give_address(dut, "ar", BASE, 64)
    gaps, gap, beats = [], 0, 0
    while beats < 64:
        await RisingEdge(dut.clk)
        if dut.m_axi_rvalid.value:
            gaps.append(gap)
            gap, beats = 0, beats + 1
        else:
            gap += 1
            assert gap < 130  # two silences and the latency
    assert max(gaps) > 20 and gaps.count(0) > 40
    await reset(dut)


@cocotb.test()
@cocotb.parametrize(
    case=[
        (Misdeed.LAST_EARLY, 0, [0, 0, 0, 0, 0, 1]),
        (Misdeed.LAST_LATE, 0, [0] * 9 + [1]),
        (Misdeed.LAST_TWICE, 0, [0, 0, 0, 0, 0, 1, 0, 1]),
        (Misdeed.LAST_MISSING, 0, [0] * 8),
        (Misdeed.OTHER_ID, 1, [0] * 7 + [1]),
    ]
)
async def read_misdeeds(dut, case):
    """A burst that touches the addresses is answered wrongly, one beside them rightly."""
    misdeed, number, lasts = case
    memory = await still(dut)
    memory.add_misdeed(misdeed, BASE + 0x100 + 56, BASE + 0x100 + 57, beats=2)
    for address, expected in (
        (BASE + 0x100, [(number, last) for last in lasts]),
        (BASE + 0x140, [(0, n == 7) for n in range(8)]),
        (BASE + 0xC0, [(0, n == 7) for n in range(8)]),
    ):
        await give_address(dut, "ar", address, 8)
        assert await collect(dut, "r", ("id", "last"), 20) == expected
    memory.clear_misdeeds()
    await give_address(dut, "ar", BASE + 0x100, 8)
    assert await collect(dut, "r", ("id", "last"), 20) == [(0, n == 7) for n in range(8)]
    await reset(dut)


@cocotb.test()
@cocotb.parametrize(misdeed=[Misdeed.RESPONSE_EARLY, Misdeed.RESPONSE_TWICE, Misdeed.OTHER_ID])
async def write_misdeeds(dut, misdeed):
    """A response that comes before the data, twice, or under another ID; the data are written all the same."""
    memory = await still(dut)
    memory.add_misdeed(misdeed, BASE, BASE + 8)
    memory.add_error(BASE, BASE + 8, Response.DECERR)
    await give_address(dut, "aw", BASE, 2)
    early = await collect(dut, "b", ("id", "resp"), 10)
    assert early == ([(0, 3)] if misdeed == Misdeed.RESPONSE_EARLY else [])
    for last in range(2):
        put_data(dut, data=5, last=last)
        await RisingEdge(dut.clk)
        while not dut.m_axi_wready.value:
            await RisingEdge(dut.clk)
    dut.m_axi_wvalid.value = 0
    expected = {Misdeed.RESPONSE_EARLY: [], Misdeed.RESPONSE_TWICE: [(0, 3)] * 2, Misdeed.OTHER_ID: [(1, 3)]}
    assert await collect(dut, "b", ("id", "resp"), 10) == expected[misdeed]
    assert memory.bytes.view("<u8")[:2].tolist() == [0, 5]
    await reset(dut)


async def broken_rules(dut, memory, before):
    """The sentences about what was done against the rules since there were `before` of them."""
    await RisingEdge(dut.clk)
    await RisingEdge(dut.clk)
    found = [sentence.split(": ", 1)[1] for sentence in memory.violations[before:]]
    await reset(dut)
    return found


@cocotb.test()
@cocotb.parametrize(
    channel=["aw", "ar"],
    case=[
        ({"burst": 2}, "burst must be INCR, not 2"),
        ({"burst": 0}, "burst must be INCR, not 0"),
        ({"size": 2}, "size must be the width of the bus, not 4 bytes"),
        ({"addr": BASE + 4}, "addr must be a multiple of the bus width, not 16388"),
        ({"addr": BASE + 4096 - 64, "len": 8}, " burst of 9 beats from 20416 crosses a 4 KiB boundary"),
        ({"addr": BASE + 4096 - 64, "len": 7}, None),
    ],
)
async def protocol_of_addresses(dut, channel, case):
    """What is wrong with an address is said when it is taken."""
    fields, sentence = case
    memory = await still(dut)
    before = len(memory.violations)
    put_address(dut, channel, **fields)
    await RisingEdge(dut.clk)
    while not getattr(dut, f"m_axi_{channel}ready").value:
        await RisingEdge(dut.clk)
    getattr(dut, f"m_axi_{channel}valid").value = 0
    assert await broken_rules(dut, memory, before) == ([channel + sentence] if sentence else [])


@cocotb.test()
@cocotb.parametrize(
    case=[
        *((channel, field) for channel in ("aw", "ar") for field in ("addr", "len", "size", "burst", "id")),
        *(("w", field) for field in ("data", "strb", "last")),
        *((channel, "valid") for channel in ("aw", "ar", "w")),
        *((channel, None) for channel in ("aw", "ar", "w")),
    ]
)
async def protocol_of_waiting(dut, case):
    """What waits for its ready stays, with all that goes with it."""
    channel, field = case
    memory = await still(dut)
    before = len(memory.violations)
    memory.set_stalls(Stalls(ar=1.0, aw=1.0, w=1.0), seed=1)
    await RisingEdge(dut.clk)
    if channel == "w":
        put_data(dut)
    else:
        put_address(dut, channel)
    for _ in range(4):
        await RisingEdge(dut.clk)
    if field:
        signal = getattr(dut, f"m_axi_{channel}{field}")
        signal.value = int(signal.value) ^ 1
    thing = {"aw": "the write address", "ar": "the read address", "w": "write data"}[channel]
    expected = {None: [], "valid": [f"{channel}valid was withdrawn before {channel}ready"]}.get(
        field, [f"{thing} changed while it waited for {channel}ready"]
    )
    assert await broken_rules(dut, memory, before) == expected


@cocotb.test()
@cocotb.parametrize(channel=["aw", "ar", "w"])
async def protocol_of_reset(dut, channel):
    """Valids are low during a reset."""
    memory = await still(dut)
    before = len(memory.violations)
    dut.rst.value = 1
    await RisingEdge(dut.clk)
    getattr(dut, f"m_axi_{channel}valid").value = 1
    await RisingEdge(dut.clk)
    await RisingEdge(dut.clk)
    getattr(dut, f"m_axi_{channel}valid").value = 0
    found = await broken_rules(dut, memory, before)
    assert found and set(found) == {"a valid is high during reset"}


@cocotb.test()
@cocotb.parametrize(
    case=[([0, 1], None), ([1, 1], "wlast before the last beat"), ([0, 0], "no wlast with the last beat")],
    early=[False, True],
)
async def protocol_of_wlast(dut, case, early):
    """WLAST is where the address says, also where the data were taken before it."""
    lasts, sentence = case
    memory = await still(dut)
    before = len(memory.violations)
    memory.set_manners(Manners(early_beats=8))
    if not early:
        await give_address(dut, "aw", BASE, 2)
    for last in lasts:
        put_data(dut, last=last)
        await RisingEdge(dut.clk)
        while not dut.m_axi_wready.value:
            await RisingEdge(dut.clk)
    dut.m_axi_wvalid.value = 0
    if early:
        await give_address(dut, "aw", BASE, 2)
    assert await broken_rules(dut, memory, before) == ([sentence] if sentence else [])


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
