"""Right shift by a signal with rounding and saturation, in two stages."""

from amaranth.hdl import Cat, Const, Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.arithmetic import saturate

__all__ = ["RoundingShift"]


class RoundingShift(wiring.Component):
    """`saturate(value / 2**shift rounded half up)` to `out_bits` signed bits.

    The first stage shifts by a multiple of eight and keeps as many bits as can still matter: what
    doesn't fit in `out_bits + 8` signed bits, the rounding bit among them, saturates after any shift by up
    to seven. The second shifts by the rest, rounds and saturates.

    Ports
    -----
    value : In(signed(in_bits))
    shift : In(shift_bits)
        Along with `value`.
    step : In(2)
        Bit k: stage k takes a value. A pipeline that never stops leaves it alone.
    o : Out(signed(out_bits))

    Parameters
    ----------
    in_bits, out_bits, shift_bits : int
    """

    latency = 2

    def __init__(self, in_bits, out_bits, shift_bits=6):
        self._in_bits = in_bits
        self._out_bits = out_bits
        super().__init__(
            {
                "value": In(signed(in_bits)),
                "shift": In(shift_bits),
                "step": In(2, init=0b11),
                "o": Out(signed(out_bits)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        # One bit more below than the result, so that rounding is adding one to that bit.
        doubled = Cat(Const(0, 1), self.value).as_signed()
        sign, coarse_shift = doubled[-1], self.shift[3:]
        kept = min(self._out_bits + 8, len(doubled)) - 1  # bits below the sign
        shifted = doubled >> Cat(Const(0, 3), coarse_shift)
        # Beside the shifter: whether a bit above those that are kept is no copy of the sign.
        overflow = Const(0, 1)
        for eights, low_bit in enumerate(range(kept, len(doubled) - 1, 8)):
            above = doubled[low_bit : min(low_bit + 8, len(doubled) - 1)]
            overflow |= (above != sign.replicate(len(above))) & (coarse_shift <= eights)
        coarse = Signal(signed(kept + 2), reset_less=True)
        fine_shift = Signal(3, reset_less=True)
        fine = Signal(signed(len(coarse)))
        with m.If(self.step[0]):
            m.d.sync += [
                # With the two highest bits unlike, the value is one that saturates.
                coarse.eq(Cat(shifted[:kept], sign ^ overflow, sign)),
                fine_shift.eq(self.shift[:3]),
            ]
        m.d.comb += fine.eq(coarse >> fine_shift)
        rounded = Signal(self.o.shape(), reset_less=True)
        with m.If(self.step[1]):
            # Rounding and saturating after the shifter, not beside it: synthesis would build it twice for that.
            m.d.sync += rounded.eq(saturate((fine + 1) >> 1, rounded.shape()))
        m.d.comb += self.o.eq(rounded)
        return m
