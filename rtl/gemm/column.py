"""One column of the array: N multiply-accumulators that share a B element."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["ACCUMULATOR_BITS", "Column", "Step"]

ACCUMULATOR_BITS = 32


class Step(data.Struct):
    """What goes along with a word pair: `first` and `last` of a pass, how to read A, and what the pass is
    (see `bertha.rtl.gemm.tile.FeederTile`)."""

    valid: 1
    first: 1
    last: 1
    a_unsigned: 1
    wide_high: 1
    wide_low: 1


class Column(wiring.Component):
    """N output-stationary int8 x int8 (or uint8 x int8) into int32 multiply-accumulators.

    Ports
    -----
    i : In
        `step` (Step), `a` (N bytes, row r in byte r), `b` (signed byte).
    o : Out
        `step` and `a` one cycle later, for the next column.
    accumulators : Out(N x int32)
        Row r's sum. Complete in the cycle in which `done` is set, `latency` cycles after the step
        with `last`; a tile that follows at once overwrites it one cycle later.
    done : Out(1)
    ending : Out(Step)
        The last step, with `done`.
    """

    latency = 3

    def __init__(self, rows):
        self._rows = rows
        super().__init__(
            {
                "i": In(wiring.Signature({"step": Out(Step), "a": Out(8 * rows), "b": Out(signed(8))})),
                "o": Out(wiring.Signature({"step": Out(Step), "a": Out(8 * rows)})),
                "accumulators": Out(data.ArrayLayout(signed(ACCUMULATOR_BITS), rows)),
                "done": Out(1),
                "ending": Out(Step),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        # Data are not reset, here and wherever `step` or a valid bit tells whether they mean anything:
        # a reset that reaches every register of the array would be the slowest net of the chip.
        a_on = Signal(8 * self._rows, reset_less=True)
        b = Signal(signed(8), reset_less=True)
        product_step = Signal(Step)
        m.d.sync += [
            self.o.step.eq(self.i.step),
            a_on.eq(self.i.a),
            b.eq(self.i.b),
            product_step.eq(self.o.step),
            self.done.eq(product_step.valid & product_step.last),
            self.ending.eq(product_step),
        ]
        m.d.comb += self.o.a.eq(a_on)
        accumulators = []
        products = []
        for row in range(self._rows):
            # 16 bits hold every product: at most 255 * 128 = 32,640 below and above zero.
            a = Signal(signed(9), name=f"a_{row}")
            product = Signal(signed(16), name=f"product_{row}", reset_less=True)
            accumulator = Signal(signed(ACCUMULATOR_BITS), name=f"accumulator_{row}", reset_less=True)
            byte = a_on.word_select(row, 8)
            m.d.comb += a.eq(Cat(byte, byte[7] & ~self.o.step.a_unsigned).as_signed())
            m.d.sync += product.eq(a * b)
            products.append(product)
            accumulators.append(accumulator)
        with m.If(product_step.valid):
            m.d.sync += [
                accumulator.eq(Mux(product_step.first, 0, accumulator) + product)
                for accumulator, product in zip(accumulators, products)
            ]
        m.d.comb += self.accumulators.as_value().eq(Cat(*accumulators))
        return m
