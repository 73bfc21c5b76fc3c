"""What holds up the array, for the cycle counters."""

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.engine.state import EngineState

__all__ = ["Activity"]


class Activity(wiring.Component):
    """The state of the array's front, from what passes between its parts.

    WORKING in the cycles in which a word pair enters. A pair whose line is missing is late for the
    scratchpad if the tile has begun, since lines are asked for faster than pairs need them; the tile's first
    one only if a read of A or B is refused in the cycle. A tile's last pair that waits for room behind the
    array is held up by the scratchpad if a write, or a read for the epilogue, is refused in the cycle.
    All else is FILLING, from a command's start on.

    Ports
    -----
    active : In(1)
        A pair has entered in the last cycle.
    tile_taken, tile_waits : In(1)
        The feeder takes a tile if there is one; there is one.
    has_lines : In(1)
        A line of A and a line of B are there.
    issuing : In(1)
        A command's tiles are being issued.
    operand_refused, other_refused : In(1)
        The scratchpad refuses a read of A or B, or any other access of the engine.
    state : Out(EngineState)
        Of the last cycle.
    """

    active: In(1)
    tile_taken: In(1)
    tile_waits: In(1)
    has_lines: In(1)
    issuing: In(1)
    operand_refused: In(1)
    other_refused: In(1)
    state: Out(EngineState)

    def elaborate(self, platform) -> Module:
        m = Module()
        holding = Signal()  # in this cycle; all others are a cycle old
        held, lacking, coming, operand_refused, other_refused = (
            Signal(name=n) for n in ("held", "lacking", "coming", "operand_refused", "other_refused")
        )
        renewed, begun = Signal(), Signal()
        with m.If(self.tile_taken):
            m.d.sync += holding.eq(self.tile_waits)
        m.d.sync += [
            held.eq(holding),
            lacking.eq(~self.has_lines),
            coming.eq(self.tile_waits | self.issuing),
            operand_refused.eq(self.operand_refused),
            other_refused.eq(self.other_refused),
            renewed.eq(self.tile_taken),
            begun.eq(~renewed & (begun | self.active)),
        ]
        state = Value.cast(self.state)
        with m.If(self.active):
            m.d.comb += state.eq(EngineState.WORKING.value)
        with m.Elif(held & lacking & (begun | operand_refused)):
            m.d.comb += state.eq(EngineState.SCRATCHPAD.value)
        with m.Elif(held & ~lacking & other_refused):
            m.d.comb += state.eq(EngineState.SCRATCHPAD.value)
        with m.Elif(held | coming):
            m.d.comb += state.eq(EngineState.FILLING.value)
        return m
