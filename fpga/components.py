"""The parts of the accelerator that can be reported on by name."""

from amaranth.hdl import Elaboratable

from bertha.errors import UserError
from bertha.rtl.control.control import Control
from bertha.rtl.dma.dma import Dma
from bertha.rtl.engine.table import ENGINES
from bertha.rtl.row_slots import RowSlots
from bertha.rtl.scratchpad.scratchpad import Scratchpad
from bertha.rtl.top import Bertha

__all__ = ["COMPONENTS", "component"]

COMPONENTS = {
    "top": Bertha,
    **{kind.name.lower(): component for kind, component in ENGINES.items()},
    "dma": Dma,
    "control": lambda config: Control(config, ENGINES),
    "scratchpad": lambda config: Scratchpad(
        config,
        readers=sum(len(engine.READS) for engine in ENGINES.values()),
        writers=sum(len(engine.WRITES) for engine in ENGINES.values()),
    ),
    "row_slots": RowSlots,
}


def component(name, config) -> Elaboratable:
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
