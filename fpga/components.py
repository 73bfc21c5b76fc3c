"""The parts of the accelerator that can be reported on by name."""

from bertha.errors import UserError
from bertha.rtl.control.control import Control
from bertha.rtl.dma.dma import Dma
from bertha.rtl.gemm.gemm import GemmEngine
from bertha.rtl.row_slots import RowSlots
from bertha.rtl.scratchpad.scratchpad import Scratchpad
from bertha.rtl.top import Bertha
from bertha.rtl.vector.vector import VectorEngine

__all__ = ["COMPONENTS", "component"]

COMPONENTS = {
    "top": Bertha,
    "gemm": GemmEngine,
    "vector": VectorEngine,
    "dma": Dma,
    "control": Control,
    "scratchpad": Scratchpad,
    "row_slots": RowSlots,
}


def component(name, config):
    """The component called `name`, for `config`.

    Raises
    ------
    UserError
        If there is none; the message lists those there are.
    """
    try:
        build = COMPONENTS[name]
    except KeyError:
        raise UserError(f"component must be one of {', '.join(COMPONENTS)}, not {name!r}") from None
    return build(config)
