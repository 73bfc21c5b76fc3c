"""Shares the read channels of one AXI4 manager port."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.axi import burst_address, read_beat, read_client
from bertha.rtl.signatures import EPOCH_BITS
from bertha.rtl.stream import Register

__all__ = ["ID_BITS", "ReadArbiter"]

ID_BITS = 1 + EPOCH_BITS


class ReadArbiter(wiring.Component):
    """Lets program fetch and the load engine read side by side, told apart by the ID of a burst.

    Fetch goes first: it asks seldom and only for as much as it has room for, so the load engine is
    not held up either. Addresses and data are registered, a beat a cycle. Each client must take its
    data without waiting for anything else, or it would hold up the other's.

    Ports
    -----
    load, fetch : In(read_client)
    epoch : In(EPOCH_BITS)
        Beats of another epoch are dropped.
    stray : Out(1)
        A beat came of an epoch that hasn't begun.
    ar : Out(stream of id, addr, len)
    r : In(stream of id and read_beat)
    """

    LOAD_ID = 0
    FETCH_ID = 1

    def __init__(self, config):
        self._config = config
        super().__init__(
            {
                "load": In(read_client(config)),
                "fetch": In(read_client(config)),
                "epoch": In(EPOCH_BITS),
                "stray": Out(1),
                "ar": Out(stream.Signature(self.address_layout(config))),
                "r": In(stream.Signature(self.data_layout(config))),
            }
        )

    @staticmethod
    def address_layout(config) -> data.StructLayout:
        """A burst address and its ID: who asks, and the epoch above it."""
        return data.StructLayout({"id": ID_BITS, "burst": burst_address(config)})

    @staticmethod
    def data_layout(config) -> data.StructLayout:
        """A beat and the ID of its burst."""
        return data.StructLayout({"id": ID_BITS, "beat": read_beat(config)})

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.ar = ar = Register(self.address_layout(self._config))
        m.submodules.r = r = Register(self.data_layout(self._config))
        wiring.connect(m, ar.o, wiring.flipped(self.ar))
        wiring.connect(m, r.i, wiring.flipped(self.r))
        is_fetch, is_present = Signal(), Signal()
        m.d.comb += [
            ar.i.valid.eq(self.fetch.ar.valid | self.load.ar.valid),
            ar.i.payload.id.eq(Cat(Mux(self.fetch.ar.valid, self.FETCH_ID, self.LOAD_ID), self.epoch)),
            ar.i.payload.burst.eq(
                Mux(self.fetch.ar.valid, self.fetch.ar.payload.as_value(), self.load.ar.payload.as_value())
            ),
            self.fetch.ar.ready.eq(ar.i.ready),
            self.load.ar.ready.eq(ar.i.ready & ~self.fetch.ar.valid),
            is_fetch.eq(r.o.payload.id[0] == self.FETCH_ID),
            is_present.eq(r.o.payload.id[1:] == self.epoch),
            self.stray.eq(r.o.valid & (r.o.payload.id[1:] > self.epoch)),
            self.fetch.r.payload.eq(r.o.payload.beat),
            self.load.r.payload.eq(r.o.payload.beat),
            self.fetch.r.valid.eq(r.o.valid & is_present & is_fetch),
            self.load.r.valid.eq(r.o.valid & is_present & ~is_fetch),
            r.o.ready.eq(Mux(is_fetch, self.fetch.r.ready, self.load.r.ready) | ~is_present),
        ]
        return m
