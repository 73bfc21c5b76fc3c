"""Valid bits of a pipeline that moves as a whole."""

from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Steps"]


class Steps(wiring.Component):
    """Tells each stage of a pipeline when its registers take a value.

    Stages that hold nothing don't move, so that an idle datapath is quiet.

    Ports
    -----
    enter : In(1)
        There is a value for the first stage.
    advance : In(1)
        The pipeline may move in this cycle.
    step : Out(stages)
        Bit k: stage k's registers take a value at the next clock edge.
    valid : Out(stages)
        Bit k: stage k holds a value.

    Parameters
    ----------
    stages : int
    """

    def __init__(self, stages):
        super().__init__({"enter": In(1), "advance": In(1), "step": Out(stages), "valid": Out(stages)})

    def elaborate(self, platform) -> Module:
        m = Module()
        coming = Cat(self.enter, self.valid[:-1])
        m.d.comb += self.step.eq(coming & self.advance.replicate(len(self.step)))
        with m.If(self.advance):
            m.d.sync += self.valid.eq(coming)
        return m
