"""Checks bursts before they are issued."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.dma.signatures import burst_layout
from bertha.rtl.isa import FaultReason
from bertha.rtl.signatures import FaultSignature, fault_reason_bits, window_layout
from bertha.rtl.stream import Queue, connect_streams

__all__ = ["BurstChecker", "candidate_layout"]


def candidate_layout(config) -> data.StructLayout:
    """Shape of a burst that isn't checked yet, with the first byte after it and what is known to be wrong."""
    return data.StructLayout(
        {"burst": burst_layout(config), "end": config.axi_addr_bits + 2, "reason": fault_reason_bits}
    )


class BurstChecker(wiring.Component):
    """Lets bursts pass that lie in the window and have no reason to fault; the first other one faults.

    A burst takes two cycles. Nothing passes after a fault until reset.

    Ports
    -----
    i : In(stream of candidate_layout)
    o : Out(stream of burst_layout)
    window : In(window_layout)
    fault : Out(FaultSignature)
    idle : Out(1)

    Parameters
    ----------
    config : Config
    depth : int
        Bursts that may wait at `o`.
    """

    def __init__(self, config, *, depth):
        self._config = config
        self._depth = depth
        super().__init__(
            {
                "i": In(stream.Signature(candidate_layout(config))),
                "o": Out(stream.Signature(burst_layout(config))),
                "window": In(window_layout(config)),
                "fault": Out(FaultSignature),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.bursts = bursts = Queue(burst_layout(self._config), self._depth)
        connect_streams(m, bursts.o, self.o)
        checked = Signal(candidate_layout(self._config), reset_less=True)
        burst = checked.burst
        checking, judged, faulty, failed, done = Signal(), Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            self.i.ready.eq(~checking | done),
            self.idle.eq(~checking & ~bursts.o.valid),
            bursts.i.payload.eq(burst),
            bursts.i.valid.eq(judged & ~faulty & ~failed),
            done.eq(bursts.i.valid & bursts.i.ready),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [checking.eq(1), checked.eq(self.i.payload)]
        with m.Elif(done):
            m.d.sync += checking.eq(0)

        # The comparisons take a cycle of their own. Past the end of the address space, `end` exceeds any limit.
        outside = (burst.addr < self.window.base) | (checked.end > self.window.limit)
        wrong = checked.reason != FaultReason.NONE
        m.d.sync += [
            faulty.eq(outside | wrong),
            judged.eq(checking & ~done),
            failed.eq(failed | (judged & faulty)),
            self.fault.valid.eq(judged & faulty & ~failed),
            self.fault.payload.index.eq(burst.index),
            self.fault.payload.reason.eq(Mux(wrong, checked.reason, FaultReason.DRAM_WINDOW)),
        ]
        return m
