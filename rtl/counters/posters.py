"""Knows which engine posts to which semaphore."""

from amaranth.hdl import Const, Module, Mux, Shape, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.engine.posts import PostPair
from bertha.rtl.isa import Engine

__all__ = ["Posters"]


class Posters(wiring.Component):
    """The engine whose command posts to a semaphore, learned when the command is dispatched.

    In a legal program that command comes before every one that waits for the semaphore, so the poster is
    known before it is asked for. It is the last one dispatched; a legal program has only one.

    Ports
    -----
    clear : In(1)
        A program starts: nobody posts.
    dispatched : In(1)
        A command goes to its engine; not in two cycles on end.
    engine : In(Engine)
        Who executes it.
    posts : In(PostPair)
        Its post fields.
    semaphore : In(5) x users
    poster : Out(Engine) x users
        In the same cycle. SEQUENCER: nobody.

    Parameters
    ----------
    semaphores, users : int
    """

    latency = 3
    """Cycles from `dispatched` until `poster` knows of it."""

    def __init__(self, semaphores, users):
        self._semaphores = semaphores
        super().__init__(
            {
                "clear": In(1),
                "dispatched": In(1),
                "engine": In(Engine),
                "posts": In(PostPair),
                "semaphore": In(5).array(users),
                "poster": Out(Engine).array(users),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.table = table = memory.Memory(shape=Shape.cast(Engine), depth=self._semaphores, init=[])
        write = table.write_port()
        engine, posts = Signal(Engine, reset_less=True), Signal(PostPair, reset_less=True)
        first, second = Signal(), Signal()  # the field that is entered now
        known = Signal(self._semaphores)
        with m.If(self.dispatched):
            m.d.sync += [engine.eq(self.engine), posts.eq(self.posts)]
        m.d.sync += [first.eq(self.dispatched), second.eq(first)]
        m.d.comb += [
            write.en.eq((first & posts.post0.enable) | (second & posts.post1.enable)),
            write.addr.eq(Mux(first, posts.post0.semaphore, posts.post1.semaphore)),
            write.data.eq(engine),
        ]
        with m.If(self.clear):
            m.d.sync += known.eq(0)
        with m.Elif(write.en):
            m.d.sync += known.eq(known | (Const(1, 1) << write.addr))
        for semaphore, poster in zip(self.semaphore, self.poster):
            read = table.read_port(domain="comb")
            m.d.comb += [
                read.addr.eq(semaphore),
                poster.eq(Mux(known.bit_select(semaphore, 1), read.data, Engine.SEQUENCER)),
            ]
        return m
