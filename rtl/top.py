"""The accelerator: only wires its parts."""

from amaranth.hdl import Module, ResetInserter
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from bertha.rtl.axi import axi4_lite_signature, axi4_signature
from bertha.rtl.control.control import Control
from bertha.rtl.dma.dma import Dma
from bertha.rtl.gemm.gemm import GemmEngine
from bertha.rtl.isa import Engine
from bertha.rtl.registers import ADDRESS_BITS
from bertha.rtl.row_slots import RowSlots
from bertha.rtl.scratchpad.scratchpad import Scratchpad
from bertha.rtl.signatures import INDEX_BITS
from bertha.rtl.stream import connect_streams
from bertha.rtl.vector.vector import VectorEngine

__all__ = ["ENGINES", "Bertha"]

ENGINES = [Engine.LOAD, Engine.STORE, Engine.GEMM, Engine.VECTOR]
"""The engines in the order in which they are connected to the control unit."""


class Bertha(wiring.Component):
    """A BERT accelerator.

    Ports
    -----
    s_axil : In(AXI4-Lite)
        Registers, see `bertha.rtl.registers`.
    m_axi : Out(AXI4)
        DRAM.
    irq : Out(1)
        Level, active high, until acknowledged.
    trace_<engine>_active, trace_<engine>_index : Out
        Which command (position in the program) an engine works on, cycle by cycle.

    Parameters
    ----------
    config : Config
    """

    def __init__(self, config):
        self.config = config
        trace = {}
        for engine in ENGINES:
            trace[f"trace_{engine.name.lower()}_active"] = Out(1)
            trace[f"trace_{engine.name.lower()}_index"] = Out(INDEX_BITS)
        super().__init__(
            {
                "s_axil": In(axi4_lite_signature(addr_bits=ADDRESS_BITS)),
                "m_axi": Out(
                    axi4_signature(
                        addr_bits=config.axi_addr_bits,
                        data_bits=config.axi_data_bits,
                        id_bits=Dma.ID_BITS,
                    )
                ),
                "irq": Out(1),
            }
            | trace
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        m.submodules.control = control = Control(config)
        m.submodules.dma = dma = Dma(config)
        m.submodules.scratchpad = scratchpad = Scratchpad(config, readers=7, writers=3)
        m.submodules.row_slots = row_slots = RowSlots(config)
        gemm = GemmEngine(config)
        vector = VectorEngine(config)
        m.submodules.gemm = ResetInserter(control.abort)(gemm)
        m.submodules.vector = ResetInserter(control.abort)(vector)

        connect(m, flipped(self.s_axil), control.s_axil)
        connect(m, dma.axi, flipped(self.m_axi))
        connect(m, control.fetch, dma.fetch)
        m.d.comb += [
            self.irq.eq(control.irq),
            dma.abort.eq(control.abort),
            control.stray.eq(dma.stray),
            dma.window_base.eq(control.window_base),
            dma.window_limit.eq(control.window_limit),
        ]

        # DRAM first among the writers and last among the readers: a load that waits holds up the
        # bus, a store's line can wait.
        for port, reader in enumerate(
            (gemm.a, gemm.b, gemm.residual, gemm.params, vector.source, vector.params, dma.read)
        ):
            connect(m, reader, scratchpad.read[port])
        for port, writer in enumerate((dma.write, gemm.write, vector.write)):
            connect(m, writer, scratchpad.write[port])

        connect(m, gemm.factor_read, row_slots.factor_read)
        connect(m, gemm.statistics_continue, row_slots.statistics_continue)
        connect(m, gemm.statistics_write, row_slots.statistics_write)
        connect(m, vector.factor_write, row_slots.factor_write)
        connect(m, vector.statistics_read, row_slots.statistics_read)
        connect(m, vector.piecewise_write, gemm.table)

        for number, engine in enumerate(ENGINES):
            unit, select = {
                Engine.LOAD: (dma, 0),
                Engine.STORE: (dma, 1),
                Engine.GEMM: (gemm, None),
                Engine.VECTOR: (vector, None),
            }[engine]

            def port(name, unit=unit, select=select):
                member = getattr(unit, name)
                return member if select is None else member[select]

            connect_streams(m, control.command[number], port("command"))
            connect_streams(m, port("wait"), control.wait[number])
            connect_streams(m, port("post"), control.post[number])
            m.d.comb += [
                control.fault[number].valid.eq(port("fault").valid),
                control.fault[number].payload.eq(port("fault").payload),
                control.idle[number].eq(port("idle")),
                control.waiting[number].eq(port("waiting")),
                control.active[number].eq(port("active")),
                getattr(self, f"trace_{engine.name.lower()}_active").eq(port("active")),
                getattr(self, f"trace_{engine.name.lower()}_index").eq(port("index")),
            ]
        return m
