"""The AXI4 manager port."""

from amaranth.hdl import Cat, Const, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.axi import BURST_INCR, axi4_signature, read_client
from bertha.rtl.dma.read_arbiter import ID_BITS, ReadArbiter
from bertha.rtl.dma.signatures import write_client
from bertha.rtl.signatures import EPOCH_BITS

__all__ = ["Dma"]


class Dma(wiring.Component):
    """Loads, stores and the fetch of the program on one AXI4 port; read and write side by side.

    An ID is who asks (bit 0) and the epoch. Answers of an epoch before the present one belong to bursts
    that were given up on: they are taken and dropped.

    Ports
    -----
    load, fetch : In(read_client)
    store : In(write_client)
    epoch : In(EPOCH_BITS)
    stray : Out(1)
        An answer came whose ID nobody has used; it is dropped.
    axi : Out(axi4_signature)

    Parameters
    ----------
    config : Config
    """

    ID_BITS = ID_BITS

    def __init__(self, config):
        self._config = config
        super().__init__(
            {
                "load": In(read_client(config)),
                "fetch": In(read_client(config)),
                "store": In(write_client(config)),
                "epoch": In(EPOCH_BITS),
                "stray": Out(1),
                "axi": Out(
                    axi4_signature(
                        addr_bits=config.axi_addr_bits, data_bits=config.axi_data_bits, id_bits=self.ID_BITS
                    )
                ),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config, axi, store = self._config, self.axi, self.store
        m.submodules.reads = reads = ReadArbiter(config)
        wiring.connect(m, wiring.flipped(self.load), reads.load)
        wiring.connect(m, wiring.flipped(self.fetch), reads.fetch)
        other_id = axi.bid != Cat(Const(0, 1), self.epoch)
        m.d.comb += reads.epoch.eq(self.epoch)

        size = (config.axi_data_bytes - 1).bit_length()
        for channel, cache in (("aw", config.axi_write_cache), ("ar", config.axi_read_cache)):
            constants = {"size": size, "burst": BURST_INCR, "cache": cache, "prot": config.axi_prot}
            m.d.comb += [getattr(axi, channel + name).eq(value) for name, value in constants.items()]
        m.d.comb += [
            axi.arid.eq(reads.ar.payload.id),
            axi.araddr.eq(reads.ar.payload.burst.addr),
            axi.arlen.eq(reads.ar.payload.burst.len),
            axi.arvalid.eq(reads.ar.valid),
            reads.ar.ready.eq(axi.arready),
            reads.r.payload.id.eq(axi.rid),
            reads.r.payload.beat.data.eq(axi.rdata),
            reads.r.payload.beat.resp.eq(axi.rresp),
            reads.r.payload.beat.last.eq(axi.rlast),
            reads.r.valid.eq(axi.rvalid),
            axi.rready.eq(reads.r.ready),
            axi.awid[1:].eq(store.aw.payload.epoch),
            axi.awaddr.eq(store.aw.payload.burst.addr),
            axi.awlen.eq(store.aw.payload.burst.len),
            axi.awvalid.eq(store.aw.valid),
            store.aw.ready.eq(axi.awready),
            axi.wdata.eq(store.w.payload.data),
            axi.wstrb.eq(store.w.payload.strb),
            axi.wlast.eq(store.w.payload.last),
            axi.wvalid.eq(store.w.valid),
            store.w.ready.eq(axi.wready),
            store.b.payload.eq(axi.bresp),
            store.b.valid.eq(axi.bvalid & ~other_id),
            axi.bready.eq(store.b.ready | other_id),
        ]
        unknown = axi.bid[0] | (axi.bid[1:] > self.epoch)
        m.d.sync += self.stray.eq(reads.stray | (axi.bvalid & unknown))
        return m
