"""Merges the posts of the feeder and the packer into one stream."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.isa import semaphore_layout
from bertha.rtl.signatures import SemaphoreUnits
from bertha.rtl.stream import Queue

__all__ = ["PostMerge"]


class PostMerge(wiring.Component):
    """Passes on the enabled ones of two streams of post fields, the second stream first.

    Ports
    -----
    operands, results : In(streams of semaphore_layout)
    o : Out(stream of SemaphoreUnits)
    idle : Out(1)
        Nothing is held.
    """

    def __init__(self):
        posts = stream.Signature(semaphore_layout)
        super().__init__(
            {
                "operands": In(posts),
                "results": In(posts),
                "o": Out(stream.Signature(SemaphoreUnits)),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        queues = []
        for name, source in (("results", self.results), ("operands", self.operands)):
            m.submodules[name] = queue = Queue(semaphore_layout, 4)
            m.d.comb += [
                queue.i.payload.eq(source.payload),
                queue.i.valid.eq(source.valid & source.payload.enable),
                source.ready.eq(queue.i.ready),
            ]
            queues.append(queue)
        results, operands = (queue.o for queue in queues)
        chosen = Signal(semaphore_layout)
        m.d.comb += chosen.eq(Mux(results.valid, results.payload, operands.payload))
        m.d.comb += [
            self.o.valid.eq(results.valid | operands.valid),
            self.o.payload.semaphore.eq(chosen.semaphore),
            self.o.payload.amount.eq(chosen.amount),
            results.ready.eq(self.o.ready),
            operands.ready.eq(self.o.ready & ~results.valid),
            self.idle.eq(~results.valid & ~operands.valid),
        ]
        return m
