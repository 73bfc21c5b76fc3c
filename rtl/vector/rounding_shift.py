"""Right shift by a signal with rounding and saturation, in two stages."""

from amaranth.hdl import Cat, Const, Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.arithmetic import saturate

__all__ = ["RoundingShift"]


class RoundingShift(wiring.Component):
    """`saturate(value / 2**shift rounded half up)` to `out_bits` signed bits.

    The first stage shifts by a multiple of eight and saturates to as many bits as can still
    matter (what doesn't fit in `out_bits + 8` bits saturates after any shift by up to seven);
    the second shifts by the rest, rounds and saturates.

    Ports
    -----
    value : In(signed(in_bits))
    shift : In(6)
        Stays while values are in the pipeline.
    step : In(2)
        Bit k: stage k takes a value (`bertha.rtl.vector.steps`).
    o : Out(signed(out_bits))

    Parameters
    ----------
    in_bits, out_bits : int
    """

    latency = 2

    def __init__(self, in_bits, out_bits):
        self._in_bits = in_bits
        self._out_bits = out_bits
        super().__init__(
            {
                "value": In(signed(in_bits)),
                "shift": In(6),
                "step": In(2),
                "o": Out(signed(out_bits)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        # One bit more below than the result, so that rounding is adding one to that bit.
        doubled = Cat(Const(0, 1), self.value).as_signed()
        coarse = Signal(signed(min(self._out_bits + 8, self._in_bits + 1)), reset_less=True)
        fine = Signal(signed(len(coarse)))
        with m.If(self.step[0]):
            m.d.sync += coarse.eq(saturate(doubled >> Cat(Const(0, 3), self.shift[3:]), coarse.shape()))
        m.d.comb += fine.eq(coarse >> self.shift[:3])
        rounded = Signal(self.o.shape(), reset_less=True)
        with m.If(self.step[1]):
            # Not `halve_saturate`: with the shifter in the same cycle, synthesis builds it twice for that.
            m.d.sync += rounded.eq(saturate((fine + 1) >> 1, rounded.shape()))
        m.d.comb += self.o.eq(rounded)
        return m
