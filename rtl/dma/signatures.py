"""What both DMA engines have in common at their borders."""

from amaranth.hdl import Mux, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.axi import Response, burst_address, write_beat
from bertha.rtl.engine.posts import PostPair
from bertha.rtl.isa import FaultReason
from bertha.rtl.signatures import EPOCH_BITS, INDEX_BITS

__all__ = ["burst_layout", "burst_lines", "response_reason", "write_client"]


def burst_lines(config) -> int:
    """Lines in the longest burst: what `config.burst_beats` hold, but never more than 4 KiB."""
    return min(config.burst_beats // config.beats_per_line, 4096 // config.line_bytes)


def burst_layout(config) -> data.StructLayout:
    """Shape of a planned burst, known to be legal.

    `addr` is its first byte in DRAM, `scratchpad_addr` its first line, `lines` its length;
    `last` marks the last burst of command `index`, whose post fields are `posts`.
    """
    return data.StructLayout(
        {
            "addr": config.axi_addr_bits,
            "scratchpad_addr": config.line_addr_bits,
            "lines": range(burst_lines(config) + 1),
            "index": INDEX_BITS,
            "last": 1,
            "posts": PostPair,
        }
    )


def write_client(config) -> wiring.Signature:
    """Signature of someone who writes bursts to DRAM, as that client sees it.

    An address goes with the epoch in which it was issued, and only responses of the present one come.
    """
    address = data.StructLayout({"epoch": EPOCH_BITS, "burst": burst_address(config)})
    return wiring.Signature(
        {
            "aw": Out(stream.Signature(address)),
            "w": Out(stream.Signature(write_beat(config))),
            "b": In(stream.Signature(Response)),
        }
    )


def response_reason(response) -> Value:
    """`FaultReason` of an answer that is none to what was asked.

    `response` is its RRESP or BRESP. An OKAY is wrong by where it came, an EXOKAY always: nothing exclusive
    is asked for.
    """
    failed = Mux(response == Response.DECERR, FaultReason.AXI_DECERR, FaultReason.AXI_SLVERR)
    return Mux(response[1], failed, FaultReason.AXI_PROTOCOL)
