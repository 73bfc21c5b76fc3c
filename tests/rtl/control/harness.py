"""The control part with models of its neighbours: a host, a memory for programs, and engines."""

import random
from collections import deque

from amaranth.hdl import Module
from amaranth.lib import wiring

from bertha.rtl.control.control import Control
from bertha.rtl.engine.border import Border
from bertha.rtl.isa import Engine, decode
from bertha.rtl.registers import offset_of
from tests.rtl.streams import run

__all__ = ["ENGINES", "Harness", "units_of"]

KINDS = (Engine.LOAD, Engine.STORE, Engine.GEMM, Engine.VECTOR)
ENGINES = len(KINDS)


def units_of(field):
    """(semaphore, amount) of an enabled wait or post field."""
    return field >> 8 & 31, field & 255


class System(wiring.Component):
    """The control part with the real border of each engine; `engine` are the engines' sides."""

    def __init__(self, config):
        super().__init__({})
        self.control = Control(config, KINDS)
        self.borders = [Border(config, kind) for kind in KINDS]
        self.engine = [border.engine for border in self.borders]
        for name in ("s_axil", "irq", "fetch", "window", "epoch"):
            setattr(self, name, getattr(self.control, name))
        self.abort, self.abandon = self.control.engine[0].abort, self.control.engine[0].abandon

    def elaborate(self, platform):
        m = Module()
        m.submodules.control = self.control
        for kind, port, border in zip(KINDS, self.control.engine, self.borders):
            m.submodules[kind.name.lower()] = border
            wiring.connect(m, port, border.control)
        return m


class FakeEngine:
    """Takes commands, works for some cycles, posts; keeps a log of what it did.

    `stuck`: the bus owes it an answer that never comes, so it is busy until an abandon.
    """

    def __init__(self, rng, work):
        self.rng, self.work = rng, work
        self.left, self.current, self.fields = 0, None, None
        self.log = []
        self.busy_cycles = 0
        self.fault_at, self.fault = None, None
        self.stuck = False


class Harness:
    """Drives `Control`.

    Attributes
    ----------
    memory : bytearray
        Programs, from address `base` on.
    errors : dict of int to int
        Response by address of a read beat.
    engines : list of FakeEngine
        `fault_at`: index of a command at which the engine faults with reason `fault`.
    answers : bool
        Whether the memory answers; `owed` counts the beats that were given up.
    events : list of (cycle, kind, engine, index)
        "start" and "end" of commands.
    """

    def __init__(self, config, *, seed=0, base=0x1000, size=0x4000, latency=(3, 20), work=(0, 30)):
        self.config = config
        self.dut = System(config)
        self.base = base
        self.window = (base, base + size)
        self.memory = bytearray(size)
        self.latency = latency
        self.errors = {}
        self.bursts = []
        self.reads = deque()
        self.answers = True
        self.owed = 0
        self.rng = random.Random(seed)
        print("seed", seed)
        self.engines = [FakeEngine(self.rng, work) for _ in range(ENGINES)]
        self.events = []
        self.cycle = 0
        self.abort_cycles = 0

    def load_program(self, commands, addr):
        for number, command in enumerate(commands):
            at = addr - self.base + 64 * number
            self.memory[at : at + 64] = command

    # Host

    async def write(self, ctx, offset, value, strobes=15):
        bus = self.dut.s_axil
        ctx.set(bus.awaddr, offset)
        ctx.set(bus.wdata, value)
        ctx.set(bus.wstrb, strobes)
        order = self.rng.choice(["aw w", "w aw", "both"])
        for channels in {"aw w": ("aw", "w"), "w aw": ("w", "aw"), "both": ("both",)}[order]:
            if channels == "both":
                ctx.set(bus.awvalid, 1)
                ctx.set(bus.wvalid, 1)
                assert ctx.get(bus.awready) and ctx.get(bus.wready)
                await ctx.tick()
                ctx.set(bus.awvalid, 0)
                ctx.set(bus.wvalid, 0)
                continue
            ctx.set(getattr(bus, channels + "valid"), 1)
            await ctx.tick().until(getattr(bus, channels + "ready"))
            ctx.set(getattr(bus, channels + "valid"), 0)
        await ctx.tick().repeat(self.rng.randrange(3) + 1)
        ctx.set(bus.bready, 1)
        (response,) = await ctx.tick().sample(bus.bresp).until(bus.bvalid)
        ctx.set(bus.bready, 0)
        assert response == 0

    async def read(self, ctx, offset):
        bus = self.dut.s_axil
        ctx.set(bus.araddr, offset)
        ctx.set(bus.arvalid, 1)
        await ctx.tick().until(bus.arready)
        ctx.set(bus.arvalid, 0)
        for _ in range(self.rng.randrange(3)):
            await ctx.tick()
        ctx.set(bus.rready, 1)
        data, response = await ctx.tick().sample(bus.rdata, bus.rresp).until(bus.rvalid)
        ctx.set(bus.rready, 0)
        assert response == 0
        return data

    async def set(self, ctx, name, value):
        await self.write(ctx, offset_of(name), value)

    async def get(self, ctx, name):
        return await self.read(ctx, offset_of(name))

    async def start(self, ctx, addr, length):
        """Sets everything up and rings the doorbell."""
        for name, value in (
            ("window_base", self.window[0]),
            ("window_limit", self.window[1]),
            ("program_addr", addr),
        ):
            await self.set(ctx, name, value & 0xFFFF_FFFF)
            await self.set(ctx, name + "_high", value >> 32)
        await self.set(ctx, "program_length", length)
        await self.set(ctx, "irq_enable", 1)
        await self.set(ctx, "control", 1)

    async def until_irq(self, ctx, limit=8_000):
        """Waits for the interrupt, acknowledges it and gives the status."""
        for _ in range(limit):
            if ctx.get(self.dut.irq):
                break
            await ctx.tick()
        else:
            raise TimeoutError(f"no interrupt after {limit} cycles")
        assert not self.reads, "an interrupt while a burst is on the bus"
        await self.set(ctx, "irq_status", 1)
        await ctx.tick().repeat(2)
        assert not ctx.get(self.dut.irq)
        return await self.get(ctx, "status")

    async def error(self, ctx):
        """(reason, index, engine)"""
        return tuple([await self.get(ctx, f"error_{n}") for n in ("reason", "index", "engine")])

    # Neighbours

    async def bench(self, ctx):
        dut = self.dut
        fetch = dut.fetch
        r_beat, ar_ready = None, 0
        signals = [fetch.ar.valid, fetch.ar.payload.addr, fetch.ar.payload.len, fetch.r.ready, dut.abort]
        signals.append(dut.abandon)
        for engine in dut.engine:
            signals += [
                engine.command.valid,
                engine.command.payload.index,
                engine.command.payload.body,
                engine.command.ready,
                engine.post.ready,
            ]
        while True:
            _, _, arvalid, addr, length, r_ready, abort, abandon, *values = await ctx.tick().sample(*signals)
            self.cycle += 1
            self.abort_cycles += abort
            size = self.config.axi_data_bytes
            if arvalid and ar_ready:
                total = (length + 1) * size
                assert addr % size == 0 and addr // 4096 == (addr + total - 1) // 4096
                assert self.window[0] <= addr and addr + total <= self.window[1]
                assert length < self.config.burst_beats
                self.bursts.append(addr)
                due = self.cycle + self.rng.randint(*self.latency)
                self.reads += [(due, addr + n * size, n == length) for n in range(length + 1)]
            if abandon:
                self.owed += len(self.reads)
                self.reads.clear()
                r_beat = None
            assert r_ready or not r_beat, "read data are held up"
            if r_beat:
                self.reads.popleft()
                r_beat = None
            if (
                self.answers
                and not r_beat
                and self.reads
                and self.reads[0][0] <= self.cycle
                and self.rng.random() < 0.8
            ):
                _, at, last = self.reads[0]
                data = self.memory[at - self.base : at - self.base + size]
                r_beat = {
                    "data": int.from_bytes(data, "little"),
                    "resp": self.errors.get(at, 0),
                    "last": last,
                }
            ctx.set(fetch.r.valid, r_beat is not None)
            if r_beat:
                ctx.set(fetch.r.payload, r_beat)
            ar_ready = self.rng.random() < 0.7
            ctx.set(fetch.ar.ready, ar_ready)
            for n, engine in enumerate(self.engines):
                self._step(ctx, n, engine, abort, abandon, *values[5 * n : 5 * n + 5])

    def _step(self, ctx, n, engine, abort, abandon, valid, index, body, ready, post_ready):
        """One cycle of a fake engine."""
        side = self.dut.engine[n]
        faulting = False
        if abandon:
            engine.stuck = False
        if abort:
            engine.current = None
        elif valid and ready:
            self.events.append((self.cycle, "start", n, index))
            engine.log.append(index)
            _, engine.fields = decode(body.to_bytes(64, "little"))
            engine.current, engine.left = index, engine.rng.randint(*engine.work)
            faulting = engine.fault_at == index
        elif engine.current is not None:
            if engine.left:
                engine.left -= 1
            elif post_ready:
                self.events.append((self.cycle, "end", n, engine.current))
                engine.current = None
        active = engine.current is not None and engine.left > 0
        posting = engine.current is not None and engine.left == 0 and not faulting
        engine.busy_cycles += active
        ctx.set(side.command.ready, engine.current is None and not abort)
        ctx.set(side.post.valid, posting)
        if posting:
            for name in ("post0", "post1"):
                field = engine.fields.get(name, 0)
                number, amount = units_of(field)
                ctx.set(side.post.payload[name].enable, field >> 15)
                ctx.set(side.post.payload[name].semaphore, number)
                ctx.set(side.post.payload[name].amount, amount)
        ctx.set(side.busy, engine.current is not None or engine.stuck)
        ctx.set(side.active, active)
        if engine.log:
            ctx.set(side.index, engine.log[-1])
        ctx.set(side.fault.valid, faulting)
        if faulting:
            ctx.set(side.fault.payload, {"reason": engine.fault, "index": engine.log[-1]})

    def run(self, bench, timeout=30_000):
        run(self.dut, bench, background=(self.bench,), timeout=timeout)
