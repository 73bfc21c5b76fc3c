"""A register harness: any component behind two pins, every port of it behind a register."""

from amaranth.hdl import Cat, ClockDomain, ClockSignal, Const, Module, ResetSignal, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Harness"]


class Harness(wiring.Component):
    """Puts a component where only its own paths are timed and nothing of it is optimised away.

    A shift register feeds the component's inputs, one register an input bit. Each output bit is
    registered, and the registers are folded into a second shift register. So every path that leaves
    or enters the component starts or ends at a register right beside it, and two pins suffice.

    Ports
    -----
    clk, rst : In(1)
        The pins; `rst` is registered before it reaches the component.
    i : In(1)
        Into the inputs' shift register.
    o : Out(1)
        Out of the outputs' shift register.

    Parameters
    ----------
    component : wiring.Component
        Becomes the submodule `component`. Uses the domain `sync` only.
    """

    def __init__(self, component):
        self._component = component
        super().__init__({"clk": In(1), "rst": In(1), "i": In(1), "o": Out(1)})

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.component = component = self._component
        m.domains.sync = ClockDomain()
        m.domains.pins = ClockDomain(reset_less=True)
        reset = Signal()
        m.d.comb += [
            ClockSignal("sync").eq(self.clk),
            ClockSignal("pins").eq(self.clk),
            ResetSignal("sync").eq(reset),
        ]
        m.d.pins += reset.eq(self.rst)

        inputs, outputs = [], []
        for _, member, value in component.signature.flatten(component):
            # The signature is the component's own view: what flows in has to be driven here.
            (inputs if member.flow is In else outputs).append(Value.cast(value))
        inputs, outputs = Cat(*inputs), Cat(*outputs)

        driven = Signal(len(inputs))
        captured = Signal(len(outputs))
        folded = Signal(len(outputs))
        m.d.pins += [
            # Inverted, since a bit that is passed on as it is would be the same register as the one in
            # which the component takes it, and be merged with it.
            driven.eq(~Cat(self.i, driven)),
            captured.eq(outputs),
            folded.eq(captured ^ Cat(Const(0, 1), folded)),
        ]
        m.d.comb += [inputs.eq(driven), self.o.eq(folded[-1])]
        return m
