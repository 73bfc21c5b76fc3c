"""The control part with models of its neighbours: a host, a memory for programs, and engines."""

import random
from collections import deque

from amaranth.sim import Simulator

from bertha.rtl.control.control import Control
from bertha.rtl.isa import decode
from bertha.rtl.registers import offset_of

__all__ = ["Harness", "units_of"]

ENGINES = 4


def units_of(field):
    """(semaphore, amount) of an enabled wait or post field."""
    return field >> 8 & 31, field & 255


class FakeEngine:
    """Takes a command's waits, works for some cycles, posts; keeps a log of what it did."""

    def __init__(self, rng, work):
        self.rng, self.work = rng, work
        self.queue_head = None
        self.waits, self.posts, self.left, self.current = deque(), deque(), 0, None
        self.asked = None
        self.log = []
        self.busy_cycles = 0
        self.fault_at, self.fault = None, None

    @property
    def busy(self):
        return self.current is not None or bool(self.posts)


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
    events : list of (cycle, kind, engine, index)
        "start" and "end" of commands.
    """

    def __init__(self, config, *, seed=0, base=0x1000, size=0x4000, latency=(3, 20), work=(0, 30)):
        self.config = config
        self.dut = Control(config)
        self.base = base
        self.window = (base, base + size)
        self.memory = bytearray(size)
        self.latency = latency
        self.errors = {}
        self.bursts = []
        self.reads = deque()
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
        for n in range(ENGINES):
            signals += [
                dut.command[n].valid,
                dut.command[n].payload.index,
                dut.command[n].payload.body,
                dut.command[n].ready,
                dut.wait[n].ready,
                dut.post[n].ready,
            ]
        while True:
            _, _, arvalid, addr, length, r_ready, abort, *values = await ctx.tick().sample(*signals)
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
            assert r_ready or not r_beat, "read data are held up"
            if r_beat:
                self.reads.popleft()
                r_beat = None
            if not r_beat and self.reads and self.reads[0][0] <= self.cycle and self.rng.random() < 0.8:
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
                self._step(ctx, n, engine, abort, *values[6 * n : 6 * n + 6])

    def _step(self, ctx, n, engine, abort, valid, index, body, ready, wait_ready, post_ready):
        """One cycle of a fake engine."""
        dut = self.dut
        faulting = False
        if abort:
            engine.current, engine.asked = None, None
            engine.waits.clear()
            engine.posts.clear()
        else:
            if engine.asked is not None and wait_ready:
                engine.waits.popleft()
            if engine.posts and engine.current is None and post_ready:
                engine.posts.popleft()
            if valid and ready:
                self.events.append((self.cycle, "start", n, index))
                engine.log.append(index)
                _, fields = decode(body.to_bytes(64, "little"))
                engine.current, engine.left = index, engine.rng.randint(*engine.work)
                engine.posts += [units_of(fields[k]) for k in ("post0", "post1") if fields.get(k, 0) >> 15]
                engine.queue_head = None
                faulting = engine.fault_at == index
            elif engine.current is not None:
                if engine.left == 0:
                    self.events.append((self.cycle, "end", n, engine.current))
                    engine.current = None
                else:
                    engine.left -= 1
        # A head of the queue whose waits are not known yet.
        now_valid = ctx.get(dut.command[n].valid)
        can_take = False
        if now_valid and not engine.busy and not abort:
            head = ctx.get(dut.command[n].payload.index)
            if engine.queue_head != head:
                _, fields = decode(ctx.get(dut.command[n].payload.body).to_bytes(64, "little"))
                engine.queue_head = head
                engine.waits = deque(
                    units_of(fields[k]) for k in ("wait0", "wait1") if fields.get(k, 0) >> 15
                )
            can_take = not engine.waits
        engine.asked = engine.waits[0] if now_valid and engine.waits and not engine.busy else None
        active = engine.current is not None and engine.left > 0
        engine.busy_cycles += active
        ctx.set(dut.command[n].ready, can_take)
        ctx.set(dut.wait[n].valid, engine.asked is not None)
        if engine.asked:
            ctx.set(dut.wait[n].payload, dict(zip(("semaphore", "amount"), engine.asked)))
        ctx.set(dut.waiting[n], engine.asked is not None)
        posting = bool(engine.posts) and engine.current is None
        ctx.set(dut.post[n].valid, posting)
        if posting:
            ctx.set(dut.post[n].payload, dict(zip(("semaphore", "amount"), engine.posts[0])))
        ctx.set(dut.idle[n], not engine.busy)
        ctx.set(dut.active[n], active)
        ctx.set(dut.fault[n].valid, faulting)
        if faulting:
            ctx.set(dut.fault[n].payload, {"reason": engine.fault, "index": engine.log[-1]})

    def run(self, bench, timeout=30_000):
        simulator = Simulator(self.dut)
        simulator.add_clock(1e-6)

        async def guard(ctx):
            for _ in range(timeout):
                await ctx.tick()
            raise TimeoutError(f"not finished after {timeout} cycles")

        simulator.add_testbench(bench)
        simulator.add_testbench(self.bench, background=True)
        simulator.add_testbench(guard, background=True)
        simulator.run()
