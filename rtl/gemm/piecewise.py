"""The programmable piecewise-linear function (GELU) on int16."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.arithmetic import round_half_up, saturate
from bertha.rtl.isa import SEGMENTS, SegmentRecord
from bertha.rtl.signatures import TableWriteSignature

__all__ = ["Piecewise"]


class Piecewise(wiring.Component):
    """y = sat16(base[s] + round_half_up(slope[s] * f / 256)), s = (v + 32768) >> 8, f = v & 255.

    Ports
    -----
    enable : In(1)
        With the word; where it is clear, y = v.
    i : In(N x int16)
    step : In(latency)
        Bit k: stage k takes a value. A pipeline that never stops leaves it alone.
    o : Out(N x int16)
        `latency` cycles later.
    table : In(TableWriteSignature)
        Segment records for all lanes. Not to be written while words use them.

    A table of 256 x 32 bits and one multiplier a lane.
    """

    latency = 4

    def __init__(self, n):
        self._n = n
        super().__init__(
            {
                "enable": In(1),
                "i": In(data.ArrayLayout(signed(16), n)),
                "step": In(self.latency, init=(1 << self.latency) - 1),
                "o": Out(data.ArrayLayout(signed(16), n)),
                "table": In(TableWriteSignature),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        enables = [Signal(name=f"enable_{stage}") for stage in range(3)]
        m.d.sync += [later.eq(enable) for later, enable in zip(enables, [self.enable, *enables])]
        for lane in range(self._n):
            m.submodules[f"table_{lane}"] = table = memory.Memory(
                shape=SegmentRecord, depth=SEGMENTS, init=[]
            )
            write_port, read_port = table.write_port(), table.read_port()
            values = [Signal(signed(16), name=f"value_{stage}_{lane}", reset_less=True) for stage in range(3)]
            segment = Signal(SegmentRecord, name=f"segment_{lane}", reset_less=True)
            base = Signal(signed(16), name=f"base_{lane}", reset_less=True)
            product = Signal(signed(25), name=f"product_{lane}", reset_less=True)
            result = Signal(signed(16), name=f"result_{lane}", reset_less=True)
            m.d.comb += self.o[lane].eq(result)
            m.d.comb += [
                write_port.addr.eq(self.table.index),
                write_port.data.eq(self.table.data),
                write_port.en.eq(self.table.enable),
                read_port.addr.eq(self.i[lane].as_unsigned()[8:] ^ 0x80),
                read_port.en.eq(self.step[0]),
            ]
            for stage, (later, value) in enumerate(zip(values, [self.i[lane], *values])):
                with m.If(self.step[stage]):
                    m.d.sync += later.eq(value)
            with m.If(self.step[1]):
                m.d.sync += segment.eq(read_port.data)
            with m.If(self.step[2]):
                m.d.sync += [base.eq(segment.base), product.eq(segment.slope * values[1].as_unsigned()[:8])]
            limited = saturate(base + round_half_up(product, 8), signed(16))
            with m.If(self.step[3]):
                m.d.sync += result.eq(Mux(enables[2], limited, values[2]))
        return m
