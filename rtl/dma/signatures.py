"""What both DMA engines have in common at their borders."""

from amaranth.hdl import Mux, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.axi import Response, burst_address, write_beat
from bertha.rtl.control.posts import PostPair
from bertha.rtl.isa import FaultReason
from bertha.rtl.signatures import INDEX_BITS, EngineCommand, FaultSignature, SemaphoreUnits

__all__ = ["burst_layout", "burst_lines", "engine_ports", "response_reason", "write_client"]


def burst_lines(config):
    """Lines in the longest burst: what `config.burst_beats` hold, but never more than 4 KiB."""
    return min(config.burst_beats // config.beats_per_line, 4096 // config.line_bytes)


def burst_layout(config):
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


def write_client(config):
    """Signature of someone who writes bursts to DRAM, as that client sees it."""
    return wiring.Signature(
        {
            "aw": Out(stream.Signature(burst_address(config))),
            "w": Out(stream.Signature(write_beat(config))),
            "b": In(stream.Signature(Response)),
        }
    )


def response_reason(response):
    """`FaultReason` of an answer that is none to what was asked.

    `response` is its RRESP or BRESP. An OKAY is wrong by where it came, an EXOKAY always: nothing exclusive
    is asked for.
    """
    failed = Mux(response == Response.DECERR, FaultReason.AXI_DECERR, FaultReason.AXI_SLVERR)
    return Mux(response[1], failed, FaultReason.AXI_PROTOCOL)


def engine_ports(config):
    """Ports that the load and the store engine share.

    command : In(stream of EngineCommand)
    wait, post : Out(stream of SemaphoreUnits)
    fault : Out(FaultSignature)
        One cycle for the first fault; the engine then issues no burst until `abort`.
    abort : In(1)
        Level, held for 8 cycles at least and until `idle`. Nothing new is issued, what is on the
        bus is completed without effect, all else is dropped.
    window_base, window_limit : In
        First byte of DRAM that may be accessed, and the first after it.
    idle : Out(1)
        Nothing is held and nothing is on the bus. A command that waits for its semaphores is still
        at `command`.
    waiting : Out(1)
        Blocked on a semaphore with nothing else to do.
    active : Out(1)
        A beat of command `index` moved.
    """
    return {
        "command": In(stream.Signature(EngineCommand)),
        "wait": Out(stream.Signature(SemaphoreUnits)),
        "post": Out(stream.Signature(SemaphoreUnits)),
        "fault": Out(FaultSignature),
        "abort": In(1),
        "window_base": In(unsigned(config.axi_addr_bits)),
        "window_limit": In(unsigned(config.axi_addr_bits + 1)),
        "idle": Out(1),
        "waiting": Out(1),
        "active": Out(1),
        "index": Out(INDEX_BITS),
    }
