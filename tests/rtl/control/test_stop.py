"""Stop, abandon, and what a program takes with its doorbell."""

import pytest

from bertha.rtl.config import PRESETS
from bertha.rtl.control.register_file import RegisterFile
from bertha.rtl.control.supervisor import Supervisor
from bertha.rtl.isa import FaultReason, Opcode, encode, semaphore
from bertha.rtl.registers import offset_of
from bertha.rtl.signatures import EPOCH_BITS
from tests.rtl.control.harness import Harness
from tests.rtl.streams import run

TINY = PRESETS["tiny4"]
ADDR = 0x2000
BUSY, DONE, ERROR, OWED = 1, 2, 4, 8
DOORBELL, CLEAR, STOP, ABANDON = 1, 2, 4, 8
FOR_EVER = (1 << 40, 1 << 40)


async def run_a_good_program(ctx, harness):
    """A clear, and a program of three commands, to its end."""
    for engine in harness.engines:
        engine.log.clear()
        engine.work = (0, 3)
    harness.answers = True
    harness.load_program([encode(op) for op in (Opcode.LOAD, Opcode.GEMM, Opcode.TABLE)], ADDR)
    await harness.set(ctx, "control", CLEAR)
    assert await harness.get(ctx, "status") == 0
    await harness.start(ctx, ADDR, 3)
    assert await harness.until_irq(ctx) == DONE
    assert [engine.log for engine in harness.engines] == [[0], [], [1], [2]]


async def hang(ctx, harness):
    """Starts a program whose fetch isn't answered from the third command on, and stops it."""
    harness.load_program([encode(Opcode.LOAD)] * 12, ADDR)
    harness.answers = False
    await harness.start(ctx, ADDR, 12)
    await ctx.tick().repeat(60)
    await harness.set(ctx, "control", STOP)
    await ctx.tick().repeat(400)
    assert not ctx.get(harness.dut.irq)
    assert await harness.get(ctx, "status") == BUSY | OWED


@pytest.mark.parametrize("waits", [False, True])
def test_a_command_that_takes_for_ever_is_stopped(waits):
    """At work, or waiting for units while another engine is at work."""
    harness = Harness(TINY, work=FOR_EVER)
    program = [Opcode.LOAD, Opcode.GEMM, Opcode.BARRIER, Opcode.LOAD]
    fields = {"wait0": semaphore(3)} if waits else {}
    harness.load_program([encode(op, **(fields if op is Opcode.GEMM else {})) for op in program], ADDR)

    async def bench(ctx):
        await harness.start(ctx, ADDR, 4)
        await ctx.tick().repeat(1000)
        assert await harness.get(ctx, "status") == BUSY
        await harness.set(ctx, "control", STOP)
        assert await harness.until_irq(ctx, 60) == ERROR
        assert await harness.error(ctx) == (FaultReason.HOST_STOP, 2, 0)
        assert await harness.get(ctx, "commands_done") == 2
        await run_a_good_program(ctx, harness)

    harness.run(bench)


def test_a_stop_without_a_program_does_nothing():
    harness = Harness(TINY, work=(0, 3))
    harness.load_program([encode(Opcode.LOAD)], ADDR)

    async def bench(ctx):
        for bits in (STOP, ABANDON, STOP | ABANDON):
            await harness.set(ctx, "control", bits)
            await ctx.tick().repeat(80)
            assert await harness.get(ctx, "status") == 0 and not ctx.get(harness.dut.irq)
        await harness.start(ctx, ADDR, 1)
        assert await harness.until_irq(ctx) == DONE
        await harness.set(ctx, "control", STOP | ABANDON)
        await ctx.tick().repeat(80)
        assert await harness.get(ctx, "status") == DONE and not ctx.get(harness.dut.irq)
        harness.load_program([bytes(64)], ADDR)
        await harness.start(ctx, ADDR, 1)
        assert await harness.until_irq(ctx) == ERROR
        await harness.set(ctx, "control", STOP | ABANDON)
        await ctx.tick().repeat(80)
        assert await harness.error(ctx) == (FaultReason.ILLEGAL_COMMAND, 0, 0)
        assert not ctx.get(harness.dut.irq) and ctx.get(harness.dut.epoch) == 0
        await run_a_good_program(ctx, harness)

    harness.run(bench)


def test_answers_that_come_late_end_a_stop_without_an_abandon():
    harness = Harness(TINY, latency=(1, 4))

    async def bench(ctx):
        await hang(ctx, harness)
        harness.answers = True
        assert await harness.until_irq(ctx, 200) == ERROR
        assert harness.owed == 0 and ctx.get(harness.dut.epoch) == 0
        assert await harness.error(ctx) == (FaultReason.HOST_STOP, 0, 0)
        await run_a_good_program(ctx, harness)

    harness.run(bench)


def test_answers_that_never_come_are_given_up_as_often_as_there_are_epochs():
    harness = Harness(TINY, latency=(1, 4))

    async def bench(ctx):
        last = (1 << EPOCH_BITS) - 1
        for epoch in range(1, last + 1):
            await hang(ctx, harness)
            await harness.set(ctx, "control", ABANDON)
            assert await harness.until_irq(ctx, 20) == ERROR
            assert await harness.error(ctx) == (FaultReason.HOST_STOP, 0, 0)
            assert harness.owed and ctx.get(harness.dut.epoch) == epoch
            await run_a_good_program(ctx, harness)
        await hang(ctx, harness)
        await harness.set(ctx, "control", ABANDON)
        await ctx.tick().repeat(100)
        assert await harness.get(ctx, "status") == BUSY | OWED and ctx.get(harness.dut.epoch) == last
        harness.answers = True
        assert await harness.until_irq(ctx, 200) == ERROR
        await run_a_good_program(ctx, harness)

    harness.run(bench)


@pytest.mark.parametrize("engine, opcode", enumerate((Opcode.LOAD, Opcode.STORE)))
def test_an_abort_that_never_ends_is_given_up(engine, opcode):
    """After a fault: what it was stays, a stop changes nothing, an abandon before it has no effect."""
    harness = Harness(TINY, work=(5, 5))
    stuck = harness.engines[engine]

    async def bench(ctx):
        harness.load_program([encode(opcode)] * 3, ADDR)
        stuck.fault_at, stuck.fault, stuck.stuck = 1, FaultReason.AXI_SLVERR, True
        await harness.start(ctx, ADDR, 3)
        await harness.set(ctx, "control", ABANDON)
        await ctx.tick().repeat(400)
        assert await harness.get(ctx, "status") == BUSY | OWED
        await harness.set(ctx, "control", STOP)
        await ctx.tick().repeat(100)
        assert await harness.get(ctx, "status") == BUSY | OWED and not ctx.get(harness.dut.irq)
        await harness.set(ctx, "control", ABANDON)
        assert await harness.until_irq(ctx, 20) == ERROR
        assert await harness.error(ctx) == (FaultReason.AXI_SLVERR, 1, engine + 1)
        stuck.fault_at = None
        await run_a_good_program(ctx, harness)

    harness.run(bench)


@pytest.mark.parametrize("other, state", [("fault", "error"), ("end", "done")])
def test_a_stop_in_the_cycle_of_a_fault_or_of_the_end_comes_too_late(other, state):
    dut = Supervisor()

    async def bench(ctx):
        ctx.set(dut.bus_idle, 1)
        ctx.set(dut.next_index, 77)
        ctx.set(dut.doorbell, 1)
        await ctx.tick()
        ctx.set(dut.doorbell, 0)
        if other == "end":
            ctx.set(dut.dispatch_done, 1)
            ctx.set(dut.unoccupied, 1)
            await ctx.tick().repeat(Supervisor.SETTLE_CYCLES)
            assert ctx.get(dut.quiet) and ctx.get(dut.running)
        else:
            fault = {"reason": FaultReason.DRAM_WINDOW, "index": 5}
            ctx.set(dut.fault, {"fault": fault, "engine": 2})
            ctx.set(dut.fault_valid, 1)
        ctx.set(dut.stop, 1)
        await ctx.tick()
        ctx.set(dut.stop, 0)
        ctx.set(dut.fault_valid, 0)
        await ctx.tick().repeat(60)
        assert ctx.get(getattr(dut, state)) and ctx.get(dut.irq_pending)
        error = tuple(ctx.get(getattr(dut, f"error_{name}")) for name in ("reason", "index"))
        assert error == ((FaultReason.DRAM_WINDOW, 5) if other == "fault" else (0, 0))

    run(dut, bench)


def test_the_window_is_that_of_the_doorbell():
    """Registers that are rewritten while a program runs change neither its rights nor its place."""
    harness = Harness(TINY, work=(0, 3), latency=(40, 60))
    harness.load_program([encode(Opcode.LOAD)] * 20, ADDR)

    async def bench(ctx):
        await harness.start(ctx, ADDR, 20)
        for name in ("window_limit", "window_base", "program_addr", "program_length"):
            await harness.set(ctx, name, 0x4000_0000)
        window = ctx.get(harness.dut.window)
        assert (window.base, window.limit) == harness.window
        assert await harness.until_irq(ctx) == DONE
        assert harness.engines[0].log == list(range(20))
        # And the next program has the new one: nothing of it is inside.
        await harness.set(ctx, "program_length", 20)
        await harness.set(ctx, "program_addr", ADDR)
        bursts = len(harness.bursts)
        await harness.set(ctx, "control", DOORBELL)
        assert await harness.until_irq(ctx) == ERROR
        assert await harness.error(ctx) == (FaultReason.DRAM_WINDOW, 0, 0)
        assert len(harness.bursts) == bursts

    harness.run(bench)


@pytest.mark.parametrize("length", [1 << 24, (1 << 24) + 1, 0xFFFF_FFFF])
def test_a_program_longer_than_an_index_counts_is_refused(length):
    harness = Harness(TINY)
    harness.load_program([encode(Opcode.LOAD)], ADDR)

    async def bench(ctx):
        await harness.start(ctx, ADDR, length)
        assert await harness.until_irq(ctx, 100) == ERROR
        assert await harness.error(ctx) == (FaultReason.PROGRAM_LENGTH, 0, 0)
        assert not harness.bursts and not harness.engines[0].log
        await run_a_good_program(ctx, harness)

    harness.run(bench)


def test_the_longest_program_is_fetched():
    harness = Harness(TINY, work=(0, 0), latency=(1, 2))
    end = harness.window[1]

    async def bench(ctx):
        harness.load_program([encode(Opcode.LOAD)] * 2, end - 128)
        await harness.start(ctx, end - 128, (1 << 24) - 1)
        assert await harness.until_irq(ctx) == ERROR
        assert await harness.error(ctx) == (FaultReason.DRAM_WINDOW, 2, 0)

    harness.run(bench)


def test_the_cycle_counter_is_read_whole():
    """The high half is the one that belongs to the low half that was read, however late."""
    dut = RegisterFile(TINY)

    async def read(ctx, name):
        ctx.set(dut.s_axil.araddr, offset_of(name))
        ctx.set(dut.s_axil.arvalid, 1)
        await ctx.tick().until(dut.s_axil.arready)
        ctx.set(dut.s_axil.arvalid, 0)
        ctx.set(dut.s_axil.rready, 1)
        (value,) = await ctx.tick().sample(dut.s_axil.rdata).until(dut.s_axil.rvalid)
        ctx.set(dut.s_axil.rready, 0)
        return value

    async def bench(ctx):
        for first, second in ((0xFFFF_FFFF, 0x1_0000_0000), (0x7_FFFF_FFFF, 0x8_0000_0003)):
            for number, count in enumerate((first, second)):
                ctx.set(dut.cycles, count & 0xFFFF_FFFF)
                ctx.set(dut.cycles_high, count >> 32)
                if number == 0:
                    low = await read(ctx, "cycles")
                    await read(ctx, "load_busy")
            assert await read(ctx, "cycles_high") << 32 | low == first
            assert await read(ctx, "cycles") | await read(ctx, "cycles_high") << 32 == second

    run(dut, bench)
