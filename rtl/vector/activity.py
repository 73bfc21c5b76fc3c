"""What holds up the vector engine, for the cycle counters."""

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.engine.state import EngineState

__all__ = ["Activity"]


class Activity(wiring.Component):
    """The state of the vector engine's front, from what passes between its parts.

    WORKING in the cycles in which a line of the source is taken, the row scale works, a digit of a threshold is
    chosen, a table's entry is written, or a line leaves that holds up the source. A source line that is missing once the first one has
    been taken is late for the scratchpad, and so is everything while an access is refused. All else of a
    command is FILLING.

    Ports
    -----
    busy : In(1)
        A command is in work.
    start : In(1)
        Its first read is asked for after this cycle.
    source_valid, source_ready : In(1)
        Of the source's lines.
    source_idle : In(1)
        None is wanted or on its way.
    line_leaves : In(1)
        A line is handed to the writer.
    scale, scaled : In(1)
        The row scale starts, is done.
    choosing : In(1)
        Words wait for a digit of SOFTMAX's threshold.
    entry : In(1)
        An entry is written into a table.
    refused : In(1)
        The scratchpad refuses an access.
    state : Out(EngineState)
        Of the last cycle.
    """

    busy: In(1)
    start: In(1)
    source_valid: In(1)
    source_ready: In(1)
    source_idle: In(1)
    line_leaves: In(1)
    scale: In(1)
    scaled: In(1)
    choosing: In(1)
    entry: In(1)
    refused: In(1)
    state: Out(EngineState)

    def elaborate(self, platform) -> Module:
        m = Module()
        scaling, begun = Signal(), Signal()
        busy, works, held = Signal(), Signal(), Signal()
        taken = self.source_valid & self.source_ready
        with m.If(self.scaled):
            m.d.sync += scaling.eq(0)
        with m.Elif(self.scale):
            m.d.sync += scaling.eq(1)
        with m.If(self.start):
            m.d.sync += begun.eq(0)
        with m.Elif(taken):
            m.d.sync += begun.eq(1)
        m.d.sync += [
            busy.eq(self.busy),
            works.eq(
                taken
                | self.scale
                | scaling
                | self.choosing
                | self.entry
                | (self.line_leaves & ~self.source_idle & ~self.source_ready)
            ),
            held.eq(self.refused | (begun & ~self.source_idle & self.source_ready & ~self.source_valid)),
        ]
        state = Value.cast(self.state)
        with m.If(busy & works):
            m.d.comb += state.eq(EngineState.WORKING.value)
        with m.Elif(busy & held):
            m.d.comb += state.eq(EngineState.SCRATCHPAD.value)
        with m.Elif(busy):
            m.d.comb += state.eq(EngineState.FILLING.value)
        return m
