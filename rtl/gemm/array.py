"""The systolic array: N columns that A passes through, drained a column a cycle."""

from amaranth.hdl import Module, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.gemm.column import ACCUMULATOR_BITS, Column, Step

__all__ = ["SystolicArray"]


class SystolicArray(wiring.Component):
    """N x N multiply-accumulators; C[r][c] = sum over steps of A[r] * B[c].

    A step a cycle, no backpressure. All rows of column c finish c cycles after those of column 0,
    so the drain reads one whole column a cycle off the accumulators, while the next tile already
    runs. Passes of tiles must end at least N cycles apart.

    Ports
    -----
    i : In
        `step` (Step), `a` (N bytes), `b` (N bytes, column c in byte c).
    o : Out
        `valid`, `word` (N x int32): columns 0, 1, .. N - 1 of a tile's pass in consecutive cycles, the
        first `latency` cycles after the pass's last step; `wide_high`, `wide_low`: the pass's.

    Parameters
    ----------
    n : int
    """

    latency = Column.latency + 1

    def __init__(self, n):
        self._n = n
        super().__init__(
            {
                "i": In(wiring.Signature({"step": Out(Step), "a": Out(8 * n), "b": Out(8 * n)})),
                "o": Out(
                    wiring.Signature(
                        {
                            "valid": Out(1),
                            "word": Out(data.ArrayLayout(signed(ACCUMULATOR_BITS), n)),
                            "wide_high": Out(1),
                            "wide_low": Out(1),
                        }
                    )
                ),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        n = self._n
        columns = []
        step, a, b = self.i.step, self.i.a, self.i.b
        for number in range(n):
            m.submodules[f"column_{number}"] = column = Column(n)
            m.d.comb += [column.i.step.eq(step), column.i.a.eq(a), column.i.b.eq(b[:8])]
            step, a = column.o.step, column.o.a
            if number < n - 1:
                skewed = Signal(8 * (n - 1 - number), name=f"b_skew_{number + 1}", reset_less=True)
                m.d.sync += skewed.eq(b[8:])
                b = skewed
            columns.append(column)

        # Column 0 announces the drain; the others follow a cycle apart by construction.
        draining = Signal()
        number, drained = Signal(range(n)), Signal(range(n))
        m.d.comb += number.eq(drained)
        with m.If(columns[0].done):
            m.d.sync += [
                draining.eq(1),
                drained.eq(1),
                self.o.wide_high.eq(columns[0].ending.wide_high),
                self.o.wide_low.eq(columns[0].ending.wide_low),
            ]
            m.d.comb += number.eq(0)
        with m.Elif(draining):
            m.d.sync += drained.eq(drained + 1)
            with m.If(drained == n - 1):
                m.d.sync += draining.eq(0)
        m.d.sync += self.o.valid.eq(columns[0].done | draining)
        word = Signal(self.o.word.shape(), reset_less=True)
        m.d.comb += self.o.word.eq(word)
        with m.If(columns[0].done | draining), m.Switch(number):
            for place, column in enumerate(columns):
                with m.Case(place):
                    m.d.sync += word.as_value().eq(column.accumulators.as_value())
        return m
