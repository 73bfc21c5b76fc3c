"""Records out of lines, at every size of array and pace of both sides."""

import random

import pytest

from bertha.rtl.config import PRESETS
from bertha.rtl.isa import ColumnRecord
from bertha.rtl.lanes.record_reader import RecordReader
from tests.rtl.streams import PATTERNS, Pace, run


@pytest.mark.parametrize("name", list(PRESETS))
@pytest.mark.parametrize("pattern", PATTERNS)
def test_records_in_order_and_the_rest_of_a_line_dropped(name, pattern):
    """Panels of any number of records, the reader restarted before each: their last lines are partly used."""
    config = PRESETS[name]
    per_line = config.line_bits // 64
    rng = random.Random(1)
    print("seed 1")
    dut = RecordReader(config, ColumnRecord)
    source, sink = Pace(pattern, 2), Pace(pattern, 3)

    async def bench(ctx):
        for _ in range(20):
            count = rng.choice([1, per_line, rng.randint(1, 3 * per_line)])
            records = [rng.getrandbits(64) for _ in range(-(-count // per_line) * per_line)]
            lines = [
                sum(record << 64 * place for place, record in enumerate(records[at : at + per_line]))
                for at in range(0, len(records), per_line)
            ]
            taken = []
            for _ in range(400):
                is_over = len(taken) == count
                ctx.set(dut.restart, is_over)
                ctx.set(dut.i.valid, bool(lines) and (is_over or ctx.get(dut.i.valid) or source.willing()))
                ctx.set(dut.i.payload, lines[0] if lines else 0)
                ctx.set(dut.o.ready, not is_over and sink.willing())
                _, _, offered, accepted, valid, ready, payload = await ctx.tick().sample(
                    dut.i.valid, dut.i.ready, dut.o.valid, dut.o.ready, dut.o.payload.as_value()
                )
                if offered and accepted:
                    lines.pop(0)
                    ctx.set(dut.i.valid, 0)
                if valid and ready:
                    taken.append(payload)
                if is_over:
                    break
            assert taken == records[:count]
            assert not lines, "the rest of a line wasn't dropped"
            ctx.set(dut.restart, 0)
            await ctx.tick()
            assert not ctx.get(dut.o.valid), "a record of the panel before is left"

    run(dut, bench)
