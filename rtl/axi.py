"""AXI4 and AXI4-Lite signatures, with the specification's signal names in lower case.

Source: AMBA AXI and ACE Protocol Specification, ARM IHI 0022, chapters A2 and B1. The streams are
the channels as components inside the accelerator see them.
"""

from enum import IntEnum

from amaranth.hdl import unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = [
    "Response",
    "axi4_lite_signature",
    "axi4_signature",
    "burst_address",
    "read_beat",
    "read_client",
    "write_beat",
]

BURST_INCR = 1


class Response(IntEnum):
    """RRESP and BRESP."""

    OKAY = 0
    EXOKAY = 1
    SLVERR = 2
    DECERR = 3


def burst_address(config) -> data.StructLayout:
    """Shape of an INCR burst of whole beats: first byte, and beats less one."""
    return data.StructLayout({"addr": config.axi_addr_bits, "len": 8})


def read_beat(config) -> data.StructLayout:
    """Shape of a beat of read data."""
    return data.StructLayout({"data": config.axi_data_bits, "resp": Response, "last": 1})


def write_beat(config) -> data.StructLayout:
    """Shape of a beat of write data."""
    return data.StructLayout({"data": config.axi_data_bits, "strb": config.axi_data_bytes, "last": 1})


def read_client(config) -> wiring.Signature:
    """Signature of someone who reads bursts from DRAM, as that client sees it."""
    return wiring.Signature(
        {"ar": Out(stream.Signature(burst_address(config))), "r": In(stream.Signature(read_beat(config)))}
    )


def axi4_signature(*, addr_bits, data_bits, id_bits) -> wiring.Signature:
    """Signature of an AXI4 manager."""
    address = {
        "id": unsigned(id_bits),
        "addr": unsigned(addr_bits),
        "len": unsigned(8),
        "size": unsigned(3),
        "burst": unsigned(2),
        "lock": unsigned(1),
        "cache": unsigned(4),
        "prot": unsigned(3),
        "qos": unsigned(4),
        "valid": unsigned(1),
    }
    return wiring.Signature(
        {f"aw{name}": Out(shape) for name, shape in address.items()}
        | {"awready": In(1)}
        | {
            "wdata": Out(data_bits),
            "wstrb": Out(data_bits // 8),
            "wlast": Out(1),
            "wvalid": Out(1),
            "wready": In(1),
            "bid": In(id_bits),
            "bresp": In(2),
            "bvalid": In(1),
            "bready": Out(1),
        }
        | {f"ar{name}": Out(shape) for name, shape in address.items()}
        | {
            "arready": In(1),
            "rid": In(id_bits),
            "rdata": In(data_bits),
            "rresp": In(2),
            "rlast": In(1),
            "rvalid": In(1),
            "rready": Out(1),
        }
    )


def axi4_lite_signature(*, addr_bits) -> wiring.Signature:
    """Signature of an AXI4-Lite manager with 32 data bits; use it with `In` for a subordinate."""
    return wiring.Signature(
        {
            "awaddr": Out(addr_bits),
            "awprot": Out(3),
            "awvalid": Out(1),
            "awready": In(1),
            "wdata": Out(32),
            "wstrb": Out(4),
            "wvalid": Out(1),
            "wready": In(1),
            "bresp": In(2),
            "bvalid": In(1),
            "bready": Out(1),
            "araddr": Out(addr_bits),
            "arprot": Out(3),
            "arvalid": Out(1),
            "arready": In(1),
            "rdata": In(32),
            "rresp": In(2),
            "rvalid": In(1),
            "rready": Out(1),
        }
    )
