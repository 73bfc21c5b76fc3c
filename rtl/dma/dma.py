"""Both DMA engines behind one AXI4 manager port."""

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.axi import BURST_INCR, axi4_signature, read_client
from bertha.rtl.dma.load import LoadEngine
from bertha.rtl.dma.read_arbiter import ReadArbiter
from bertha.rtl.dma.signatures import engine_ports
from bertha.rtl.dma.store import StoreEngine
from bertha.rtl.signatures import bank_write, read_port
from bertha.rtl.stream import connect_streams

__all__ = ["Dma"]


class Dma(wiring.Component):
    """Load engine, store engine and program fetch on one AXI4 port; read and write side by side.

    Ports
    -----
    command, wait, post, fault, idle, waiting, active, index : as `engine_ports` x 2
        0 is the load engine, 1 the store engine.
    abort, window_base, window_limit : In
        For both, see `engine_ports`. Fetch isn't touched by `abort`.
    write : Out(stream of bank_write)
    read : Out(read_port)
        To the scratchpad.
    fetch : In(read_client)
    stray : Out(1)
        A response or data that belong to no burst of a load or store came; they are dropped.
    axi : Out(axi4_signature)

    Parameters
    ----------
    config : Config
    """

    SHARED = ("abort", "window_base", "window_limit")
    ID_BITS = 1

    def __init__(self, config):
        self._config = config
        ports = {
            name: member if name in self.SHARED else member.array(2)
            for name, member in engine_ports(config).items()
        }
        super().__init__(
            ports
            | {
                "write": Out(stream.Signature(bank_write(config))),
                "read": Out(read_port(config)),
                "fetch": In(read_client(config)),
                "stray": Out(1),
                "axi": Out(
                    axi4_signature(
                        addr_bits=config.axi_addr_bits,
                        data_bits=config.axi_data_bits,
                        id_bits=self.ID_BITS,
                    )
                ),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config, axi = self._config, self.axi
        m.submodules.load = load = LoadEngine(config)
        m.submodules.store = store = StoreEngine(config)
        m.submodules.reads = reads = ReadArbiter(config)
        for number, engine in enumerate((load, store)):
            connect_streams(m, self.command[number], engine.command)
            connect_streams(m, engine.wait, self.wait[number])
            connect_streams(m, engine.post, self.post[number])
            wiring.connect(m, engine.fault, wiring.flipped(self.fault[number]))
            m.d.comb += [getattr(engine, name).eq(getattr(self, name)) for name in self.SHARED]
            for name in ("idle", "waiting", "active", "index"):
                m.d.comb += getattr(self, name)[number].eq(getattr(engine, name))
        wiring.connect(m, load.port, wiring.flipped(self.write))
        wiring.connect(m, store.port, wiring.flipped(self.read))
        wiring.connect(m, load.dram, reads.load)
        wiring.connect(m, wiring.flipped(self.fetch), reads.fetch)

        size = (config.axi_data_bytes - 1).bit_length()
        for channel, cache in (("aw", config.axi_write_cache), ("ar", config.axi_read_cache)):
            constants = {"size": size, "burst": BURST_INCR, "cache": cache, "prot": config.axi_prot}
            m.d.comb += [getattr(axi, channel + name).eq(value) for name, value in constants.items()]
        other_id = axi.bid != 0
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
            axi.awaddr.eq(store.dram.aw.payload.addr),
            axi.awlen.eq(store.dram.aw.payload.len),
            axi.awvalid.eq(store.dram.aw.valid),
            store.dram.aw.ready.eq(axi.awready),
            axi.wdata.eq(store.dram.w.payload.data),
            axi.wstrb.eq(store.dram.w.payload.strb),
            axi.wlast.eq(store.dram.w.payload.last),
            axi.wvalid.eq(store.dram.w.valid),
            store.dram.w.ready.eq(axi.wready),
            store.dram.b.payload.eq(axi.bresp),
            store.dram.b.valid.eq(axi.bvalid & ~other_id),
            axi.bready.eq(store.dram.b.ready | other_id),
        ]
        m.d.sync += self.stray.eq(load.stray | store.stray | (axi.bvalid & other_id))
        return m
