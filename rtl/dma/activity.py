"""What holds up loads and stores, for the cycle counters."""

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.engine.state import EngineState

__all__ = ["LoadActivity", "StoreActivity"]


class LoadActivity(wiring.Component):
    """The state of the load engine, from what passes between its parts.

    WORKING in the cycles in which a beat is taken, SCRATCHPAD while one waits because its line can't be handed
    on, DRAM_READ while bursts are under way and no beat is there. Behind that the last lines are on their way:
    SCRATCHPAD while one is refused, else FILLING, as is the planning of a command's first burst.

    Ports
    -----
    active : In(1)
        A beat has been taken in the last cycle.
    busy : In(1)
        A command is in work.
    burst, beat : In(1)
        A burst is under way; a beat is there.
    refused : In(1)
        The scratchpad refuses a write.
    state : Out(EngineState)
        Of the last cycle.
    """

    active: In(1)
    busy: In(1)
    burst: In(1)
    beat: In(1)
    refused: In(1)
    state: Out(EngineState)

    def elaborate(self, platform) -> Module:
        m = Module()
        busy, burst, beat, refused = (
            Signal(name=n) for n in ("was_busy", "had_burst", "had_beat", "was_refused")
        )
        m.d.sync += [busy.eq(self.busy), burst.eq(self.burst), beat.eq(self.beat), refused.eq(self.refused)]
        state = Value.cast(self.state)
        with m.If(self.active):
            m.d.comb += state.eq(EngineState.WORKING.value)
        with m.Elif(burst & beat):
            m.d.comb += state.eq(EngineState.SCRATCHPAD.value)
        with m.Elif(burst):
            m.d.comb += state.eq(EngineState.DRAM_READ.value)
        with m.Elif(busy & refused):
            m.d.comb += state.eq(EngineState.SCRATCHPAD.value)
        with m.Elif(busy):
            m.d.comb += state.eq(EngineState.FILLING.value)
        return m


class StoreActivity(wiring.Component):
    """The state of the store engine, from what passes between its parts.

    WORKING in the cycles in which a beat is handed on. While a burst's data are due: DRAM_WRITE if a beat
    waits for the bus; else its line is missing, late for the scratchpad if the burst has begun or a read is
    refused in the cycle. DRAM_WRITE while only acknowledgements are due. All else is FILLING.

    Ports
    -----
    active : In(1)
        A beat has been handed on in the last cycle.
    busy : In(1)
        A command is in work.
    due, beat, ends : In(1)
        A burst's data are due; a beat of it is there; its last one is handed on.
    unanswered : In(1)
        A burst isn't acknowledged.
    refused : In(1)
        The scratchpad refuses a read.
    state : Out(EngineState)
        Of the last cycle.
    """

    active: In(1)
    busy: In(1)
    due: In(1)
    beat: In(1)
    ends: In(1)
    unanswered: In(1)
    refused: In(1)
    state: Out(EngineState)

    def elaborate(self, platform) -> Module:
        m = Module()
        busy, due, beat, ended, unanswered, refused = (
            Signal(name=n)
            for n in ("was_busy", "was_due", "had_beat", "ended", "was_unanswered", "was_refused")
        )
        begun = Signal()
        m.d.sync += [
            busy.eq(self.busy),
            due.eq(self.due),
            beat.eq(self.beat),
            ended.eq(self.ends),
            unanswered.eq(self.unanswered),
            refused.eq(self.refused),
            begun.eq(~ended & (begun | self.active)),
        ]
        state = Value.cast(self.state)
        with m.If(self.active):
            m.d.comb += state.eq(EngineState.WORKING.value)
        with m.Elif(due & ~beat & (begun | refused)):
            m.d.comb += state.eq(EngineState.SCRATCHPAD.value)
        with m.Elif((due & beat) | (unanswered & ~due)):
            m.d.comb += state.eq(EngineState.DRAM_WRITE.value)
        with m.Elif(busy):
            m.d.comb += state.eq(EngineState.FILLING.value)
        return m
