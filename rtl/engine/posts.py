"""Posts semaphore units when an engine has finished something."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.isa import semaphore_layout
from bertha.rtl.signatures import SemaphoreUnits
from bertha.rtl.stream import Queue

__all__ = ["PostPair", "Posts"]

PostPair = data.StructLayout({"post0": semaphore_layout, "post1": semaphore_layout})
"""The post fields of a command. One that isn't to be posted has `enable` clear."""


class Posts(wiring.Component):
    """Turns the enabled ones of each pair of post fields into units, `post0` first.

    A pair may be given every cycle; it takes a cycle for each enabled field to leave, and none if none
    is enabled.

    Ports
    -----
    i : In(stream of PostPair)
    has_room : Out(1)
        `i` is ready in this cycle and, whatever is given now, in the next one.
    o : Out(stream of SemaphoreUnits)
    idle : Out(1)
        Nothing is left to post.

    Parameters
    ----------
    depth : int
        Pairs that wait while the semaphores are held up by others, at least 2.
    """

    def __init__(self, *, depth=4):
        self._depth = depth
        super().__init__(
            {
                "i": In(stream.Signature(PostPair)),
                "has_room": Out(1),
                "o": Out(stream.Signature(SemaphoreUnits)),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.pairs = pairs = Queue(PostPair, self._depth)
        pair = pairs.o.payload
        posted0, wants0 = Signal(), Signal()
        chosen = data.View(semaphore_layout, Mux(wants0, pair.post0.as_value(), pair.post1.as_value()))
        m.d.comb += [
            pairs.i.payload.eq(self.i.payload),
            pairs.i.valid.eq(self.i.valid & (self.i.payload.post0.enable | self.i.payload.post1.enable)),
            self.i.ready.eq(pairs.i.ready),
            self.has_room.eq(pairs.level <= self._depth - 2),
            wants0.eq(pair.post0.enable & ~posted0),
            self.o.valid.eq(pairs.o.valid),
            self.o.payload.semaphore.eq(chosen.semaphore),
            self.o.payload.amount.eq(chosen.amount),
            pairs.o.ready.eq(self.o.ready & ~(wants0 & pair.post1.enable)),
            self.idle.eq(~pairs.o.valid),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += posted0.eq(wants0 & pair.post1.enable)
        return m
