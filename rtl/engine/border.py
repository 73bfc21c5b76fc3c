"""What stands between the control part and an engine."""

from amaranth.hdl import Elaboratable, Module, Mux, ResetInserter, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.engine.command_queue import CommandQueue
from bertha.rtl.engine.posts import Posts
from bertha.rtl.engine.signatures import ControlSide, EngineSide
from bertha.rtl.engine.waits import Waits
from bertha.rtl.signatures import SemaphoreUnits
from bertha.rtl.stream import Register, connect_streams

__all__ = ["Border"]


class Border(wiring.Component):
    """Queues an engine's commands, takes their waits, posts, and tells how the engine is.

    Every engine has one. The definitions are those of `bertha.rtl.engine.signatures`.

    Ports
    -----
    control : In(ControlSide)
    engine : Out(EngineSide)

    Parameters
    ----------
    config : Config
    kind : Engine
    """

    def __init__(self, config, kind):
        self._config = config
        self._kind = kind
        super().__init__({"control": In(ControlSide), "engine": Out(EngineSide)})

    def elaborate(self, platform) -> Elaboratable:
        m = Module()
        control, engine = self.control, self.engine
        m.submodules.queue = queue = CommandQueue(self._config, self._kind)
        m.submodules.waits = waits = Waits()
        m.submodules.posts = posts = Posts()
        # The posts end in a register here: the semaphores' arbitration is long enough by itself.
        m.submodules.post = post = Register(SemaphoreUnits)
        connect_streams(m, control.command, queue.i)
        connect_streams(m, queue.o, waits.i)
        connect_streams(m, waits.o, engine.command)
        connect_streams(m, engine.wait, waits.more)
        connect_streams(m, waits.wait, control.wait)
        connect_streams(m, engine.post, posts.i)
        connect_streams(m, posts.o, post.i)
        connect_streams(m, post.o, control.post)
        m.d.comb += [waits.hold.eq(engine.hold), engine.has_room.eq(posts.has_room)]
        with m.If(engine.stopped):
            m.d.comb += [waits.i.valid.eq(0), posts.i.valid.eq(0)]

        m.d.sync += [
            control.fault.valid.eq(engine.fault.valid & ~engine.stopped),
            control.fault.payload.eq(engine.fault.payload),
        ]
        with m.If(engine.fault.valid):
            m.d.sync += engine.stopped.eq(1)

        # What is still on the bus is told in an abort too, so the reset isn't for these.
        working, waiting, idle = (Signal(name=n, reset_less=True) for n in ("working", "waiting", "idle"))
        works = engine.busy | ~posts.idle | post.o.valid
        m.d.sync += [
            working.eq(works),
            waiting.eq(waits.waiting | engine.wait.valid),
            idle.eq(~works & ~engine.wait.valid & ~queue.o.valid),
        ]
        m.d.comb += [
            control.working.eq(working),
            control.waiting.eq(waiting),
            control.idle.eq(idle),
            control.waiting_index.eq(Mux(engine.wait.valid, engine.wait_index, queue.o.payload.index)),
            control.active.eq(engine.active),
            control.index.eq(engine.index),
        ]
        return ResetInserter(control.abort)(m)
