"""The stream library: queues and registers between components. Nobody else writes valid/ready twice."""

from amaranth.hdl import Module, Shape, Signal, Value
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Queue", "Register", "as_bits", "connect_streams"]


def as_bits(payload) -> Value:
    """The payload of a stream (a view or a value) as plain bits."""
    return Value.cast(payload)


def connect_streams(m, source, sink) -> None:
    """Wires `source` (something that drives valid) to `sink`, both seen from outside of their owners."""
    m.d.comb += [
        as_bits(sink.payload).eq(as_bits(source.payload)),
        sink.valid.eq(source.valid),
        source.ready.eq(sink.ready),
    ]


class Queue(wiring.Component):
    """First-in first-out queue of `depth` payloads.

    Latency is one cycle; a payload a cycle goes through. `level` counts what it holds.

    Parameters
    ----------
    shape : shape-like
        Of the payload.
    depth : int
        At least 1. Depths of 2 and more are held in memory with an asynchronous read (LUT RAM);
        with `buffered` the read is registered, which maps to block RAM and takes one more cycle
        of latency.

    Raises
    ------
    ValueError
        If `depth` is not a positive integer.
    """

    def __init__(self, shape, depth, *, buffered=False):
        if not isinstance(depth, int) or depth < 1:
            raise ValueError(f"queue depth must be a positive integer, not {depth!r}")
        self._shape = shape
        self._depth = depth
        self._buffered = buffered
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)),
                "level": Out(range(depth + 1)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        kind = fifo.SyncFIFOBuffered if self._buffered else fifo.SyncFIFO
        m.submodules.fifo = inner = kind(width=Shape.cast(self._shape).width, depth=self._depth)
        m.d.comb += [
            inner.w_data.eq(as_bits(self.i.payload)),
            inner.w_en.eq(self.i.valid),
            self.i.ready.eq(inner.w_rdy),
            as_bits(self.o.payload).eq(inner.r_data),
            self.o.valid.eq(inner.r_rdy),
            inner.r_en.eq(self.o.ready),
            self.level.eq(inner.level),
        ]
        return m


class Register(wiring.Component):
    """Pipeline register that cuts valid, payload and ready: a skid buffer of two payloads.

    Latency one cycle, a payload a cycle. Neither `i.ready` nor `o.valid` depends on the other
    side in the same cycle, so engines' borders use it. Payloads are not reset.
    """

    def __init__(self, shape):
        self._shape = shape
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform) -> Module:
        m = Module()
        width = Shape.cast(self._shape).width
        front, spare = Signal(width, reset_less=True), Signal(width, reset_less=True)
        front_valid, spare_valid = Signal(), Signal()
        do_put, do_get = Signal(), Signal()
        incoming = as_bits(self.i.payload)
        m.d.comb += [
            self.i.ready.eq(~spare_valid),
            self.o.valid.eq(front_valid),
            as_bits(self.o.payload).eq(front),
            do_put.eq(self.i.valid & self.i.ready),
            do_get.eq(self.o.valid & self.o.ready),
        ]
        with m.If(do_get | ~front_valid):
            with m.If(spare_valid):
                m.d.sync += [front.eq(spare), front_valid.eq(1), spare_valid.eq(0)]
            with m.Else():
                m.d.sync += [front.eq(incoming), front_valid.eq(do_put)]
        with m.Elif(do_put):
            m.d.sync += [spare.eq(incoming), spare_valid.eq(1)]
        return m
