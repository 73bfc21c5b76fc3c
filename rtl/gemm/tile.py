"""What the tile sequencer tells the stages of the GEMM engine about a tile."""

from amaranth.hdl import unsigned
from amaranth.lib import data

from bertha.rtl.isa import semaphore_layout
from bertha.rtl.signatures import INDEX_BITS, LINE_ADDRESS_BITS

__all__ = ["PARAM_LINES", "RECORDS_BITS", "EpilogueTile", "FeederTile", "PackerTile"]

PARAM_LINES = 4  # N column records of 8 bytes in lines of 2 N bytes
RECORDS_BITS = 6  # of a modulo count of tiles; fewer than half as many are in flight


class FeederTile(data.Struct):
    """For the feeder: `k` words of each operand, then post0 if it is enabled.

    `records` counts the tiles with column records, modulo, up to and with this one. `wide_high` is the first pass
    of a tile with a wide operand, over its high plane, `wide_low` the second one.
    """

    k: unsigned(16)
    a_unsigned: unsigned(1)
    wide_high: unsigned(1)
    wide_low: unsigned(1)
    records: unsigned(RECORDS_BITS)
    post0: semaphore_layout
    index: unsigned(INDEX_BITS)


class EpilogueTile(data.Struct):
    """For the epilogue's arithmetic."""

    columns: unsigned(8)
    piecewise: unsigned(1)
    residual: unsigned(1)
    row_factor: unsigned(1)
    params: unsigned(1)
    uniform: unsigned(1)
    ranges: unsigned(1)
    out16: unsigned(1)
    out_wide: unsigned(1)
    residue: unsigned(1)
    statistics: unsigned(2)
    statistics_init: unsigned(1)
    slot: unsigned(8)
    first_key: unsigned(16)
    mult: unsigned(16)
    shift: unsigned(6)
    post_shift: unsigned(4)
    gain: unsigned(4)


class PackerTile(data.Struct):
    """For the packer: where the tile's words go, then post1 if it is enabled."""

    addr: unsigned(LINE_ADDRESS_BITS)
    residue_addr: unsigned(LINE_ADDRESS_BITS)
    post1: semaphore_layout
    index: unsigned(INDEX_BITS)
