"""Drives and collects streams in Amaranth's simulator, with seeded idle and backpressure patterns."""

import contextlib
import random

from amaranth.sim import Simulator

__all__ = ["PATTERNS", "Pace", "collect", "feed", "run"]

_CHANCE = {"always": 1.0, "often": 0.75, "rarely": 0.25}
PATTERNS = list(_CHANCE)
"""How often a side of a stream is willing: every cycle, three cycles of four, one of four."""


class Pace:
    """Decides, cycle by cycle, whether a side of a stream is willing.

    The seed is printed, so that a failing run can be repeated.
    """

    def __init__(self, pattern="always", seed=0):
        self._odds = _CHANCE[pattern]
        self._random = random.Random(seed)
        print(f"pace {pattern}, seed {seed}")

    def willing(self):
        """Whether this side is willing in this cycle."""
        return self._odds == 1.0 or self._random.random() < self._odds


async def feed(ctx, source, payloads, pace=None):
    """Puts every payload into the stream `source` (an input of the component under test)."""
    pace = pace or Pace()
    for payload in payloads:
        while not pace.willing():
            await ctx.tick()
        ctx.set(source.payload, payload)
        ctx.set(source.valid, 1)
        await ctx.tick().until(source.ready)
        ctx.set(source.valid, 0)


async def collect(ctx, sink, count, pace=None):
    """`count` payloads taken from the stream `sink` (an output of the component under test)."""
    pace = pace or Pace()
    taken = []
    while len(taken) < count:
        ready = pace.willing()
        ctx.set(sink.ready, ready)
        _, _, valid, payload = await ctx.tick().sample(sink.valid, sink.payload)
        if valid and ready:
            taken.append(payload)
    ctx.set(sink.ready, 0)
    return taken


def run(component, *benches, background=(), timeout=100_000, vcd=None):
    """Simulates `component` until every bench (an async function of the context) has ended.

    `background` benches run along and need not end.

    Raises
    ------
    TimeoutError
        If they haven't after `timeout` cycles.
    """
    simulator = Simulator(component)
    simulator.add_clock(1e-6)
    finished = []

    def wrap(bench):
        async def wrapped(ctx):
            await bench(ctx)
            finished.append(bench)

        return wrapped

    for bench in benches:
        simulator.add_testbench(wrap(bench))
    for bench in background:
        simulator.add_testbench(bench, background=True)

    async def guard(ctx):
        for _ in range(timeout):
            await ctx.tick()
        if len(finished) < len(benches):
            raise TimeoutError(f"not finished after {timeout} cycles")

    # The guard is in the background: the run ends when the benches have.
    simulator.add_testbench(guard, background=True)
    with simulator.write_vcd(vcd) if vcd else contextlib.nullcontext():
        simulator.run()
