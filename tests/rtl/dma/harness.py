"""The DMA with models of all its neighbours: DRAM, scratchpad, semaphores, command queues."""

import random
from collections import deque

from amaranth.hdl import Module
from amaranth.lib import wiring

from bertha.rtl.dma.dma import Dma
from bertha.rtl.dma.load import LoadEngine
from bertha.rtl.dma.store import StoreEngine
from bertha.rtl.isa import encode
from bertha.rtl.scratchpad.scratchpad import Scratchpad
from tests.rtl.dma.axi_memory import AxiMemory
from tests.rtl.streams import Pace, run

__all__ = ["LOAD", "STORE", "Harness", "transfer"]

LOAD, STORE = 0, 1


def transfer(opcode, **fields):
    """A command as an integer, with a row and strides of zero unless given."""
    return int.from_bytes(encode(opcode, **{"rows": 1, **fields}), "little")


class Engines(wiring.Component):
    """Load and store engine on one AXI port.

    Ports that both have are lists of two. The benches drive `abort`, `window` and `epoch` of both.
    """

    def __init__(self, config):
        super().__init__({})
        self.load, self.store, self.dma = LoadEngine(config), StoreEngine(config), Dma(config)
        self.control = [self.load.control, self.store.control]
        for name in ("command", "wait", "post", "fault", "idle", "working", "waiting", "active", "index"):
            setattr(self, name, [getattr(control, name) for control in self.control])
        self.write, self.read = self.load.write, self.store.read
        self.axi, self.fetch = self.dma.axi, self.dma.fetch

    def elaborate(self, platform):
        m = Module()
        m.submodules.load, m.submodules.store, m.submodules.dma = self.load, self.store, self.dma
        wiring.connect(m, self.load.dram, self.dma.load)
        wiring.connect(m, self.store.dram, self.dma.store)
        return m

    def set_all(self, ctx, name, value):
        """Drives `abort` or `abandon` of both engines."""
        for control in self.control:
            ctx.set(getattr(control, name), value)

    def set_epoch(self, ctx, value):
        for part in (self.store, self.dma):
            ctx.set(part.epoch, value)


class Harness:
    """Runs commands and remembers what happened.

    Attributes
    ----------
    lines : list of int
        The scratchpad.
    posts : list of (engine, semaphore, amount, cycle)
    faults : list of (engine, reason, index)
    taken : list of (engine, semaphore, amount)
        Waits, each granted once `grant(engine, semaphore, amount)` allows it.
    on_post : callable or None
        Called with (engine, semaphore, amount) at a post.
    post_from : int
        Cycle from which on posts are taken.
    """

    def __init__(self, config, *, window=None, size=1 << 16, base=0, pattern="often", seed=0, **memory):
        self.config = config
        self.dut = Engines(config)
        self.window = window or (base, base + size)
        self.memory = AxiMemory(
            self.dut.axi,
            config,
            size=size,
            base=base,
            window=self.window,
            pattern=pattern,
            seed=seed,
            **memory,
        )
        rng = random.Random(seed + 100)
        self.lines = [rng.getrandbits(config.line_bits) for _ in range(config.lines)]
        self.posts, self.faults, self.taken = [], [], []
        self.active = [[], []]
        self.grant = lambda engine, semaphore, amount: True
        self.on_post = None
        self.post_from = 0
        self.queues = (deque(), deque())
        self.cycle = 0
        self._pace = {
            n: Pace(pattern, seed + 200 + k) for k, n in enumerate(("wait", "post", "write", "read"))
        }

    @property
    def benches(self):
        """Background benches for `Simulator.add_testbench`."""
        return self.memory.bench, self.bench

    def give(self, engine, index, body):
        """Queues a command."""
        self.queues[engine].append((index, body))

    def reset_models(self):
        """Forgets what is queued, as the control does in an abort."""
        for queue in self.queues:
            queue.clear()

    def dram(self, addr, count):
        """`count` lines of DRAM from `addr` on."""
        size = self.config.line_bytes
        at = addr - self.memory.base
        return [
            int.from_bytes(self.memory.data[at + n * size : at + (n + 1) * size], "little")
            for n in range(count)
        ]

    async def bench(self, ctx):
        dut = self.dut
        for part in (dut.load, dut.store):
            ctx.set(part.window, {"base": self.window[0], "limit": self.window[1]})
        ready = {"wait": [0, 0], "post": [0, 0], "write": 0, "read": 0}
        reads = deque([None] * (Scratchpad.latency - 1))
        signals = []
        for n in range(2):
            signals += [
                dut.command[n].valid,
                dut.command[n].ready,
                dut.wait[n].valid,
                dut.wait[n].payload.semaphore,
                dut.wait[n].payload.amount,
                dut.post[n].valid,
                dut.post[n].payload.semaphore,
                dut.post[n].payload.amount,
                dut.fault[n].valid,
                dut.fault[n].payload.reason,
                dut.fault[n].payload.index,
                dut.active[n],
                dut.index[n],
            ]
        signals += [
            dut.write.valid,
            dut.write.payload.addr,
            dut.write.payload.data,
            dut.read.request.valid,
            dut.read.request.payload,
        ]
        while True:
            _, _, *values = await ctx.tick().sample(*signals)
            self.cycle += 1
            write_valid, write_addr, write_data, read_valid, read_addr = values[26:]
            for n in range(2):
                (
                    offered,
                    accepted,
                    wait,
                    *units,
                    post,
                    semaphore,
                    amount,
                    fault,
                    reason,
                    index,
                    active,
                    active_index,
                ) = values[13 * n : 13 * n + 13]
                if offered and accepted and self.queues[n]:  # none after `reset_models`
                    self.queues[n].popleft()
                if wait and ready["wait"][n]:
                    self.taken.append((n, *units))
                if post and ready["post"][n]:
                    if self.on_post:
                        self.on_post(n, semaphore, amount)
                    self.posts.append((n, semaphore, amount, self.cycle))
                if fault:
                    self.faults.append((n, reason, index))
                if active:
                    self.active[n].append(active_index)
            if write_valid and ready["write"]:
                self.lines[write_addr] = write_data
            taken = read_valid and ready["read"]
            reads.append(self.lines[read_addr] if taken else None)
            data = reads.popleft()

            ctx.set(dut.read.data_valid, data is not None)
            if data is not None:
                ctx.set(dut.read.data, data)
            for n in range(2):
                ctx.set(dut.command[n].valid, bool(self.queues[n]))
                if self.queues[n]:
                    index, body = self.queues[n][0]
                    ctx.set(dut.command[n].payload, {"index": index, "body": body})
                units = ctx.get(dut.wait[n].payload.semaphore), ctx.get(dut.wait[n].payload.amount)
                ready["wait"][n] = (
                    bool(ctx.get(dut.wait[n].valid))
                    and self.grant(n, *units)
                    and self._pace["wait"].willing()
                )
                ready["post"][n] = self.cycle >= self.post_from and self._pace["post"].willing()
                ctx.set(dut.wait[n].ready, ready["wait"][n])
                ctx.set(dut.post[n].ready, ready["post"][n])
            for name in ("write", "read"):
                ready[name] = self._pace[name].willing()
            ctx.set(dut.write.ready, ready["write"])
            ctx.set(dut.read.request.ready, ready["read"])

    async def until_idle(self, ctx, limit=20_000):
        """Waits until nothing is queued, held or on the bus, for some cycles on end."""
        quiet = 0
        for _ in range(limit):
            await ctx.tick()
            idle = all(ctx.get(signal) for signal in self.dut.idle)
            quiet = quiet + 1 if idle and not any(self.queues) and self.memory.quiet else 0
            if quiet == 6:
                return
        raise TimeoutError(f"not idle after {limit} cycles")


def simulate(harness, bench, timeout=60_000):
    """Runs a bench beside those of the harness."""
    run(harness.dut, bench, background=harness.benches, timeout=timeout)
