"""The vector engine with a scratchpad, row slots and semaphores that the tests play.

The scratchpad has the latency of the real one, and grants each port with a probability.
"""

import random

from amaranth.sim import Simulator

from bertha.rtl.isa import encode, semaphore
from bertha.rtl.scratchpad.scratchpad import Scratchpad
from bertha.rtl.vector.vector import VectorEngine
from tests.rtl.streams import Pace

__all__ = ["Bench"]


class Bench:
    """Runs commands on a fresh engine.

    memory : line address to line; what isn't in it was never written.
    statistics : slot to N pairs (sum or maximum, squares); factors : slot to N pairs (mult, shift);
    ranges : slot to N pairs (first, last).
    semaphores : number to units; segments : index to data.
    """

    def __init__(self, config, *, pattern="always", seed=0):
        self.config = config
        self.pattern = pattern
        self.seed = seed
        self.random = random.Random(seed)
        self.memory, self.statistics, self.factors, self.ranges = {}, {}, {}, {}
        self.semaphores, self.segments = {}, {}
        self.commands = []
        self.cycle = 0
        self.events = []  # cycle and name of each command begun and units posted
        self.fault = None
        self.blocked = None  # waiting, active and idle when a run timed out
        self.reads, self.writes = 0, 0
        self._next_line = 0

    def allocate(self, lines):
        """Address of fresh lines: a list to hold them, or a number of them."""
        addr = self._next_line
        if isinstance(lines, int):
            self._next_line += lines
        else:
            self._next_line += len(lines)
            self.memory.update(enumerate(lines, addr))
        return addr

    def lines(self, addr, count):
        """Lines of memory; None for one never written."""
        return [self.memory.get(addr + i) for i in range(count)]

    def command(self, opcode, *, index=None, **fields):
        """Queues a command that posts to semaphore 1 unless told otherwise."""
        if not opcode.name.endswith("WAIT"):
            fields.setdefault("post1", semaphore(1))
        body = int.from_bytes(encode(opcode, **fields), "little")
        self.commands.append({"index": len(self.commands) if index is None else index, "body": body})

    def run(self, *, until_fault=False, timeout=60_000):
        """Runs until all commands are taken and the engine is idle, or there is a fault."""
        self.dut = VectorEngine(self.config)
        control = self.dut.control
        pace = Pace(self.pattern, self.seed)

        async def commands(ctx):
            for command in self.commands:
                ctx.set(control.command.payload, command)
                ctx.set(control.command.valid, 1)
                ready = False
                while not ready and self.fault is None:
                    _, _, ready = await ctx.tick().sample(control.command.ready)
                ctx.set(control.command.valid, 0)
            await ctx.tick().repeat(2)
            while not ctx.get(control.idle) and self.fault is None:
                await ctx.tick()
            if until_fault:
                # Nothing may be written or posted any more.
                before = (self.writes, list(self.events))
                await ctx.tick().repeat(60)
                assert before == (self.writes, self.events)
            else:
                assert self.fault is None, self.fault

        async def surroundings(ctx):
            await self._surroundings(ctx, pace)

        async def guard(ctx):
            for _ in range(timeout):
                await ctx.tick()
            self.blocked = tuple(ctx.get(flag) for flag in (control.waiting, control.active, control.idle))
            raise TimeoutError(f"not finished after {timeout} cycles")

        simulator = Simulator(self.dut)
        simulator.add_clock(1e-6)
        # In this order: within a cycle the surroundings see what the commands' side has set.
        simulator.add_testbench(commands)
        simulator.add_testbench(surroundings, background=True)
        simulator.add_testbench(guard, background=True)
        simulator.run()

    async def _surroundings(self, ctx, pace):
        dut, control = self.dut, self.dut.control
        was_active = False
        slot_before = None  # statistics follow their slot two cycles later
        on_their_way = {port: [None] * (Scratchpad.latency - 1) for port in ("source", "params")}
        while True:
            for port in (dut.source.request, dut.params.request, dut.write):
                ctx.set(port.ready, pace.willing())
            ctx.set(control.post.ready, pace.willing())
            wanted = ctx.get(control.wait.payload)
            granted = (
                ctx.get(control.wait.valid)
                and self.semaphores.get(wanted.semaphore, 0) >= wanted.amount
                and pace.willing()
            )
            ctx.set(control.wait.ready, granted)
            is_active = ctx.get(control.active)
            if is_active and not was_active:
                self.events.append((self.cycle, "begun"))
            was_active = is_active
            slot = ctx.get(dut.statistics_read.slot)
            taken = {}
            for name in on_their_way:
                request = getattr(dut, name).request
                if ctx.get(request.valid) and ctx.get(request.ready):
                    taken[name] = ctx.get(request.payload)
            write = (
                ctx.get(dut.write.payload) if ctx.get(dut.write.valid) and ctx.get(dut.write.ready) else None
            )
            post = (
                ctx.get(control.post.payload)
                if ctx.get(control.post.valid) and ctx.get(control.post.ready)
                else None
            )
            factor = (
                (ctx.get(dut.factor_write.slot), ctx.get(dut.factor_write.lanes))
                if ctx.get(dut.factor_write.enable)
                else None
            )
            keys = (
                (ctx.get(dut.range_write.slot), ctx.get(dut.range_write.lanes))
                if ctx.get(dut.range_write.enable)
                else None
            )
            if ctx.get(dut.piecewise_write.enable):
                self.segments[ctx.get(dut.piecewise_write.index)] = ctx.get(dut.piecewise_write.data)
            if ctx.get(control.fault.valid) and self.fault is None:
                fault = ctx.get(control.fault.payload)
                self.fault = (fault.reason, fault.index)

            await ctx.tick()
            self.cycle += 1
            for name, pipe in on_their_way.items():
                port = getattr(dut, name)
                # Reads see the writes of earlier cycles only.
                pipe.append(self.memory.get(taken[name], 0) if name in taken else None)
                self.reads += name in taken
                line = pipe.pop(0)
                ctx.set(port.data_valid, line is not None)
                ctx.set(port.data, line if line is not None else self.random.getrandbits(64))
            if write is not None:
                self.memory[write["addr"]] = write["data"]
                self.writes += 1
            if granted:
                self.semaphores[wanted.semaphore] -= wanted.amount
            if post is not None:
                units = self.semaphores.get(post.semaphore, 0)
                self.semaphores[post.semaphore] = units + post.amount
                self.events.append((self.cycle, f"posted {post.semaphore}"))
            if factor is not None:
                number, values = factor
                self.factors[number] = [
                    (values[lane].mult, values[lane].shift) for lane in range(self.config.array_n)
                ]
            if keys is not None:
                number, values = keys
                self.ranges[number] = [
                    (values[lane].first, values[lane].last) for lane in range(self.config.array_n)
                ]
            for lane, (total, squares) in enumerate(
                self.statistics.get(slot_before, [(-1, 1)] * self.config.array_n)
            ):
                ctx.set(dut.statistics_read.lanes[lane], {"sum": total, "squares": squares})
            slot_before = slot
