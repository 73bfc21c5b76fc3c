"""Shares the read channels of one AXI4 manager port."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.axi import burst_address, read_beat, read_client
from bertha.rtl.stream import Register

__all__ = ["ReadArbiter"]


class ReadArbiter(wiring.Component):
    """Lets program fetch and the load engine read side by side, told apart by the ID of a burst.

    Fetch goes first: it asks seldom and only for as much as it has room for, so the load engine is
    not held up either. Addresses and data are registered, a beat a cycle. Each client must take its
    data without waiting for anything else, or it would hold up the other's.

    Ports
    -----
    load, fetch : In(read_client)
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
                "ar": Out(stream.Signature(self.address_layout(config))),
                "r": In(stream.Signature(self.data_layout(config))),
            }
        )

    @staticmethod
    def address_layout(config):
        """A burst address and the ID of who asks."""
        return data.StructLayout({"id": 1, "burst": burst_address(config)})

    @staticmethod
    def data_layout(config):
        """A beat and the ID of who asked."""
        return data.StructLayout({"id": 1, "beat": read_beat(config)})

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.ar = ar = Register(self.address_layout(self._config))
        m.submodules.r = r = Register(self.data_layout(self._config))
        wiring.connect(m, ar.o, wiring.flipped(self.ar))
        wiring.connect(m, r.i, wiring.flipped(self.r))
        is_fetch = Signal()
        m.d.comb += [
            ar.i.valid.eq(self.fetch.ar.valid | self.load.ar.valid),
            ar.i.payload.id.eq(Mux(self.fetch.ar.valid, self.FETCH_ID, self.LOAD_ID)),
            ar.i.payload.burst.eq(
                Mux(
                    self.fetch.ar.valid,
                    self.fetch.ar.payload.as_value(),
                    self.load.ar.payload.as_value(),
                )
            ),
            self.fetch.ar.ready.eq(ar.i.ready),
            self.load.ar.ready.eq(ar.i.ready & ~self.fetch.ar.valid),
            is_fetch.eq(r.o.payload.id == self.FETCH_ID),
            self.fetch.r.payload.eq(r.o.payload.beat),
            self.load.r.payload.eq(r.o.payload.beat),
            self.fetch.r.valid.eq(r.o.valid & is_fetch),
            self.load.r.valid.eq(r.o.valid & ~is_fetch),
            r.o.ready.eq(Mux(is_fetch, self.fetch.r.ready, self.load.r.ready)),
        ]
        return m
