"""An engine's queue of commands."""

from amaranth.hdl import Cat, Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.isa import COMMAND_BITS, Opcode, reserved_mask
from bertha.rtl.signatures import INDEX_BITS, EngineCommand
from bertha.rtl.stream import Queue

__all__ = ["CommandQueue"]


class CommandQueue(wiring.Component):
    """Holds `config.queue_depth` commands; bits that no opcode of `engine` uses are not stored.

    Ports
    -----
    i, o : stream of EngineCommand
        At `o`, bits that aren't stored are zero, as they must be in a legal command.

    Parameters
    ----------
    config : Config
    engine : Engine
    """

    def __init__(self, config, engine):
        self._config = config
        self._engine = engine
        super().__init__(
            {"i": In(stream.Signature(EngineCommand)), "o": Out(stream.Signature(EngineCommand))}
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        used = 0
        for opcode in Opcode:
            if opcode.engine == self._engine:
                used |= ~reserved_mask(opcode)
        places = [bit for bit in range(COMMAND_BITS) if used >> bit & 1]
        m.submodules.queue = queue = Queue(INDEX_BITS + len(places), self._config.queue_depth)
        m.d.comb += [
            queue.i.valid.eq(self.i.valid),
            self.i.ready.eq(queue.i.ready),
            queue.i.payload.eq(Cat(self.i.payload.index, *(self.i.payload.body[bit] for bit in places))),
            self.o.valid.eq(queue.o.valid),
            queue.o.ready.eq(self.o.ready),
            Cat(self.o.payload.index, *(self.o.payload.body[bit] for bit in places)).eq(queue.o.payload),
        ]
        return m
