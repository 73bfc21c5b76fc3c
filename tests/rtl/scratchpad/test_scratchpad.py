"""The scratchpad: latency, order of writes and reads, priority, full bandwidth of every bank."""

import random

import pytest

from bertha.rtl.config import PRESETS
from bertha.rtl.scratchpad.scratchpad import Scratchpad
from tests.rtl.streams import run


@pytest.mark.parametrize("name", ["tiny4", "edge8"])
def test_random_traffic_on_all_ports(name):
    """Every read returns what was written to its line last, `latency` cycles after its grant."""
    config = PRESETS[name]
    seed = 11
    print(f"seed {seed}")
    rng = random.Random(seed)
    dut = Scratchpad(config, readers=3, writers=2)
    span = 4 * config.scratchpad_banks
    contents = {}

    async def bench(ctx):
        expected = [[] for _ in dut.read]
        reads = [None] * len(dut.read)
        writes = [None] * len(dut.write)
        for addr in range(span):  # every line is written before it is read
            ctx.set(dut.write[0].payload, {"addr": addr, "data": addr})
            ctx.set(dut.write[0].valid, 1)
            contents[addr] = addr
            await ctx.tick()
        ctx.set(dut.write[0].valid, 0)
        for _ in range(1500):
            for number, port in enumerate(dut.read):
                if reads[number] is None and rng.random() < 0.6:
                    reads[number] = rng.randrange(span)
                ctx.set(port.request.valid, reads[number] is not None)
                ctx.set(port.request.payload, reads[number] or 0)
            for number, port in enumerate(dut.write):
                if writes[number] is None and rng.random() < 0.4:
                    writes[number] = (rng.randrange(span), rng.getrandbits(config.line_bits))
                ctx.set(port.valid, writes[number] is not None)
                addr, line = writes[number] or (0, 0)
                ctx.set(port.payload, {"addr": addr, "data": line})
            taken = []
            banks = []
            for number, port in enumerate(dut.read):
                if reads[number] is not None and ctx.get(port.request.ready):
                    expected[number].append((contents[reads[number]], 0))
                    banks.append(reads[number] % config.scratchpad_banks)
                    reads[number] = None
            for number, port in enumerate(dut.write):
                if writes[number] is not None and ctx.get(port.ready):
                    taken.append(writes[number])
                    banks.append(writes[number][0] % config.scratchpad_banks)
                    writes[number] = None
            assert len(banks) == len(set(banks)), "a bank took two accesses in a cycle"
            wanted = {a % config.scratchpad_banks for a in [*reads] if a is not None}
            wanted |= {w[0] % config.scratchpad_banks for w in writes if w is not None}
            assert wanted <= set(banks), "a bank that somebody wants stood still"
            await ctx.tick()
            contents.update(taken)
            for number, port in enumerate(dut.read):
                expected[number] = [(line, age + 1) for line, age in expected[number]]
                due = bool(expected[number]) and expected[number][0][1] == dut.latency
                assert ctx.get(port.data_valid) == due
                if due:
                    assert ctx.get(port.data) == expected[number].pop(0)[0]

    run(dut, bench, timeout=3_000)


def test_lower_port_wins_and_reads_go_before_writes():
    config = PRESETS["tiny4"]
    dut = Scratchpad(config, readers=2, writers=2)

    async def bench(ctx):
        for port in dut.read:
            ctx.set(port.request.valid, 1)
        for port in dut.write:
            ctx.set(port.valid, 1)
        order = [port.request for port in dut.read] + list(dut.write)
        for winner in range(4):
            taken = [ctx.get(port.valid & port.ready) for port in order]
            assert taken == [n == winner for n in range(4)]
            await ctx.tick()
            ctx.set(order[winner].valid, 0)

    run(dut, bench)
