"""The accelerator: only wires its parts."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from bertha.rtl.axi import axi4_lite_signature, axi4_signature
from bertha.rtl.control.control import Control
from bertha.rtl.counters.classes import CycleClass
from bertha.rtl.dma.dma import Dma
from bertha.rtl.engine.table import ENGINES
from bertha.rtl.isa import Engine
from bertha.rtl.registers import ADDRESS_BITS
from bertha.rtl.row_slots import RowSlots
from bertha.rtl.scratchpad.scratchpad import Scratchpad
from bertha.rtl.signatures import INDEX_BITS

__all__ = ["Bertha"]


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
    trace_<engine>_class : Out(CycleClass)
        With cycle counters only: what the engine was in, two cycles before (`CycleCounters.classes`).

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
            if config.cycle_counters:
                trace[f"trace_{engine.name.lower()}_class"] = Out(CycleClass)
        super().__init__(
            {
                "s_axil": In(axi4_lite_signature(addr_bits=ADDRESS_BITS)),
                "m_axi": Out(
                    axi4_signature(
                        addr_bits=config.axi_addr_bits, data_bits=config.axi_data_bits, id_bits=Dma.ID_BITS
                    )
                ),
                "irq": Out(1),
            }
            | trace
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        engines = {kind: component(config) for kind, component in ENGINES.items()}
        reads = [getattr(engine, name) for engine in engines.values() for name in engine.READS]
        writes = [getattr(engine, name) for engine in engines.values() for name in engine.WRITES]
        m.submodules.control = control = Control(config, engines)
        m.submodules.dma = dma = Dma(config)
        m.submodules.scratchpad = scratchpad = Scratchpad(config, readers=len(reads), writers=len(writes))
        m.submodules.row_slots = row_slots = RowSlots(config)
        connect(m, flipped(self.s_axil), control.s_axil)
        connect(m, dma.axi, flipped(self.m_axi))
        m.d.comb += self.irq.eq(control.irq)

        for port, (kind, engine) in zip(control.engine, engines.items()):
            name = kind.name.lower()
            m.submodules[name] = engine
            connect(m, port, engine.control)
            m.d.comb += [
                getattr(self, f"trace_{name}_active").eq(port.active),
                getattr(self, f"trace_{name}_index").eq(port.index),
            ]
        if config.cycle_counters:
            m.d.comb += [state.eq(engine.state) for state, engine in zip(control.state, engines.values())]
            for kind, cycle_class in zip(engines, control.classes):
                m.d.comb += getattr(self, f"trace_{kind.name.lower()}_class").eq(cycle_class)
        for port, user in (*zip(scratchpad.read, reads), *zip(scratchpad.write, writes)):
            connect(m, user, port)

        load, store = engines[Engine.LOAD], engines[Engine.STORE]
        connect(m, control.fetch, dma.fetch)
        connect(m, load.dram, dma.load)
        connect(m, store.dram, dma.store)
        m.d.comb += [
            control.stray.eq(dma.stray | load.stray | store.stray),
            load.window.eq(control.window),
            store.window.eq(control.window),
            store.epoch.eq(control.epoch),
            dma.epoch.eq(control.epoch),
        ]

        gemm, vector = engines[Engine.GEMM], engines[Engine.VECTOR]
        connect(m, gemm.factor_read, row_slots.factor_read)
        connect(m, gemm.range_read, row_slots.range_read)
        connect(m, gemm.statistics_continue, row_slots.statistics_continue)
        connect(m, gemm.statistics_write, row_slots.statistics_write)
        connect(m, vector.factor_write, row_slots.factor_write)
        connect(m, vector.range_write, row_slots.range_write)
        connect(m, vector.statistics_read, row_slots.statistics_read)
        connect(m, vector.piecewise_write, gemm.table)
        return m
