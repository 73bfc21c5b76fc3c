"""Posts semaphore units when an engine has finished something."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.isa import semaphore_layout
from bertha.rtl.signatures import SemaphoreUnits
from bertha.rtl.stream import Queue, connect_streams

__all__ = ["PostPair", "Posts"]

PostPair = data.StructLayout({"post0": semaphore_layout, "post1": semaphore_layout})
"""The post fields of a command. One that isn't to be posted has `enable` clear."""


class Posts(wiring.Component):
    """Turns the enabled ones of each pair of post fields into units, `post0` first.

    A pair may be given every cycle as long as the queue has room; it takes a cycle for each
    enabled field to leave, and one if none is enabled.

    Ports
    -----
    i : In(stream of PostPair)
    o : Out(stream of SemaphoreUnits)
    idle : Out(1)
        Nothing is left to post.

    Parameters
    ----------
    depth : int
        Pairs that wait while the semaphores are held up by others.
    """

    def __init__(self, *, depth=4):
        self._depth = depth
        super().__init__(
            {
                "i": In(stream.Signature(PostPair)),
                "o": Out(stream.Signature(SemaphoreUnits)),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.pairs = pairs = Queue(PostPair, self._depth)
        connect_streams(m, self.i, pairs.i)
        pair = pairs.o.payload
        posted0, wants0, wants1 = Signal(), Signal(), Signal()
        chosen = data.View(semaphore_layout, Mux(wants0, pair.post0.as_value(), pair.post1.as_value()))
        m.d.comb += [
            wants0.eq(pair.post0.enable & ~posted0),
            wants1.eq(pair.post1.enable),
            self.o.valid.eq(pairs.o.valid & (wants0 | wants1)),
            self.o.payload.semaphore.eq(chosen.semaphore),
            self.o.payload.amount.eq(chosen.amount),
            pairs.o.ready.eq(Mux(wants0 & wants1, 0, ~(wants0 | wants1) | self.o.ready)),
            self.idle.eq(~pairs.o.valid),
        ]
        with m.If(pairs.o.valid & pairs.o.ready):
            m.d.sync += posted0.eq(0)
        with m.Elif(self.o.valid & self.o.ready):
            m.d.sync += posted0.eq(1)
        return m
