"""Structs and signatures that cross the border between components."""

from amaranth.hdl import signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.isa import COMMAND_BITS, FaultReason

__all__ = [
    "EPOCH_BITS",
    "INDEX_BITS",
    "LINE_ADDRESS_BITS",
    "EngineCommand",
    "Fault",
    "FaultSignature",
    "LineRange",
    "Moments",
    "RowFactor",
    "SemaphoreUnits",
    "TableWriteSignature",
    "bank_write",
    "fault_reason_bits",
    "line_write",
    "read_port",
    "window_layout",
]

LINE_ADDRESS_BITS = 24
INDEX_BITS = 24
EPOCH_BITS = 2
"""Of AXI IDs: bursts given up on keep theirs, and those after them get others."""
fault_reason_bits = 4
assert max(FaultReason) < 1 << fault_reason_bits


class EngineCommand(data.Struct):
    """A command on its way to an engine, with its position in the program."""

    index: unsigned(INDEX_BITS)
    body: unsigned(COMMAND_BITS)


class SemaphoreUnits(data.Struct):
    """`amount` units (1 to 255) of one counting semaphore, to take or to add."""

    semaphore: unsigned(5)
    amount: unsigned(8)


class Fault(data.Struct):
    """Reason of a fault (`FaultReason`) and the program position of the command at fault."""

    reason: unsigned(fault_reason_bits)
    index: unsigned(INDEX_BITS)


FaultSignature = wiring.Signature({"valid": Out(1), "payload": Out(Fault)})
"""`valid` for at least one cycle when a fault happened, `payload` with it."""


def window_layout(config) -> data.StructLayout:
    """Shape of a window of DRAM: its first byte, and the first after it."""
    return data.StructLayout({"base": config.axi_addr_bits, "limit": config.axi_addr_bits + 1})


class LineRange(data.Struct):
    """`count` (at least 1) lines of the scratchpad from line `addr` on, for command `index`."""

    addr: unsigned(LINE_ADDRESS_BITS)
    count: unsigned(17)
    index: unsigned(INDEX_BITS)


def line_write(config) -> data.StructLayout:
    """Shape of a line on its way into the scratchpad; `addr` is not yet known to be in range."""
    return data.StructLayout({"addr": LINE_ADDRESS_BITS, "data": config.line_bits, "index": INDEX_BITS})


def read_port(config) -> wiring.Signature:
    """Signature of a scratchpad read port, as its user sees it.

    request : Out(stream of line addresses)
        An address is taken when valid and ready.
    data_valid, data : In
        The lines, in the order of the requests, a fixed number of cycles after each. There is no
        backpressure: whoever asks must have room.
    """
    return wiring.Signature(
        {
            "request": Out(stream.Signature(unsigned(config.line_addr_bits))),
            "data_valid": In(1),
            "data": In(config.line_bits),
        }
    )


def bank_write(config) -> data.StructLayout:
    """Shape of a write that is known to be in range."""
    return data.StructLayout({"addr": config.line_addr_bits, "data": config.line_bits})


class Moments(data.Struct):
    """Row statistics of one lane: Σx of MOMENTS or the maximum of MAX, and Σx² of either.

    They hold those of 4096 words; more wrap.
    """

    sum: signed(28)
    squares: unsigned(43)


class RowFactor(data.Struct):
    """Row factor of one lane: multiply by `mult`, shift right by `shift`."""

    mult: unsigned(16)
    shift: unsigned(6)


TableWriteSignature = wiring.Signature({"enable": Out(1), "index": Out(8), "data": Out(32)})
"""One table entry a cycle, to all lanes at once."""
