"""The engines there are."""

from bertha.rtl.dma.load import LoadEngine
from bertha.rtl.dma.store import StoreEngine
from bertha.rtl.gemm.gemm import GemmEngine
from bertha.rtl.isa import Engine
from bertha.rtl.vector.vector import VectorEngine

__all__ = ["ENGINES"]

ENGINES = {
    Engine.LOAD: LoadEngine,
    Engine.GEMM: GemmEngine,
    Engine.VECTOR: VectorEngine,
    Engine.STORE: StoreEngine,
}
"""Every engine with a queue and its component, which takes a configuration.

A component has a port `control : In(ControlSide)`, and names its scratchpad ports in `READS` and
`WRITES`. The order is the scratchpad's preference: DRAM first among the writers and last among the
readers, since a load that waits holds up the bus and a store's line can wait. Another engine is a line
here; its commands are declared in `bertha.rtl.isa`, its busy counter in `bertha.rtl.registers`.
"""
