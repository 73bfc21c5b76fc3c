"""Records and tables as bytes, from their declarations in `bertha.rtl.isa`."""

import numpy as np
from amaranth.lib import data

from bertha.compiler.layout.panels import panel_count
from bertha.rtl.isa import (
    EXP2_ENTRIES,
    SEGMENTS,
    ColumnRecord,
    FactorRecord,
    NormRecord,
    RangeRecord,
    SegmentRecord,
)

__all__ = [
    "COLUMN_RECORD_BYTES",
    "RANGE_RECORD_BYTES",
    "column_records",
    "exp2_table",
    "factor_records",
    "mask_records",
    "norm_records",
    "pack_records",
    "piecewise_table",
    "range_records",
    "record_bytes",
    "unpack_records",
]


def record_bytes(record) -> int:
    """Bytes of a record that `bertha.rtl.isa` declares."""
    return data.Layout.cast(record).size // 8


COLUMN_RECORD_BYTES = record_bytes(ColumnRecord)
RANGE_RECORD_BYTES = record_bytes(RangeRecord)


def pack_records(record, count, **fields) -> bytes:
    """`count` records as bytes. A field is one integer for all, or an array that zeros follow; others are zero.

    Raises
    ------
    ValueError
        If a value doesn't fit its field.
    """
    packed = np.zeros(count, dtype=np.uint64)
    for name, values in fields.items():
        field = data.Layout.cast(record)[name]
        values = np.asarray(values, dtype=np.int64)
        filled = np.zeros(count, dtype=np.int64)
        filled[: len(values) if values.ndim else count] = values
        bits = filled & ((1 << field.width) - 1)
        wrong = np.flatnonzero(_value(bits, field) != filled)
        if len(wrong):
            raise ValueError(
                f"{name} of a {record.__name__} must fit {field.shape!r}, not {filled[wrong[0]]}"
            )
        packed |= bits.astype(np.uint64) << np.uint64(field.offset)
    return packed.astype(f"<u{record_bytes(record)}").tobytes()


def unpack_records(record, content) -> dict[str, np.ndarray]:
    """The records in `content` (bytes or an array of bytes), field by field: name to int64 array."""
    packed = np.frombuffer(content, f"<u{record_bytes(record)}").astype(np.uint64)
    return {
        name: _value((packed >> np.uint64(field.offset)).astype(np.int64) & ((1 << field.width) - 1), field)
        for name, field in data.Layout.cast(record)
    }


def _value(bits, field):
    return np.where(field.shape.signed & (bits >> field.width - 1 == 1), bits - (1 << field.width), bits)


def column_records(count, **fields) -> bytes:
    """`count` column records (`bertha.rtl.isa.ColumnRecord`); see `pack_records`."""
    return pack_records(ColumnRecord, count, **fields)


def norm_records(norm) -> bytes:
    """Norm records (`bertha.rtl.isa.NormRecord`) of a `bertha.golden.layer.QuantizedNorm`, one a feature."""
    fields = {name: getattr(norm, name) for name in ("gamma", "beta", "mult", "residue")}
    return pack_records(NormRecord, len(norm.mult), **fields)


def factor_records(count, *, mult, shift) -> bytes:
    """`count` factor records (`bertha.rtl.isa.FactorRecord`); see `pack_records`."""
    return pack_records(FactorRecord, count, mult=mult, shift=shift)


def mask_records(mask, tokens, n) -> bytes:
    """Column records of the key mask of `tokens` keys, in whole panels; keys that aren't there are masked.

    Raises
    ------
    ValueError
        If the mask has another length.
    """
    real = np.ones(tokens, dtype=bool) if mask is None else np.asarray(mask).astype(bool)
    if real.shape != (tokens,):
        raise ValueError(f"the key mask must have the shape [{tokens}], not {list(real.shape)}")
    count = panel_count(tokens, n) * n
    hidden = np.ones(count, dtype=bool)
    hidden[:tokens] = ~real
    return column_records(count, mask=hidden)


def range_records(ranges, rows, n) -> bytes:
    """Range records of `rows` rows, in whole panels; rows that aren't there see no key.

    Parameters
    ----------
    ranges : int [rows, 2]
        Row r sees the keys from ranges[r, 0] on, up to but without ranges[r, 1].

    Raises
    ------
    ValueError
        If the ranges have another shape, or a bound doesn't fit 16 bits.
    """
    ranges = np.asarray(ranges)
    if ranges.shape != (rows, 2):
        raise ValueError(f"the row ranges must have the shape [{rows}, 2], not {list(ranges.shape)}")
    return pack_records(RangeRecord, panel_count(rows, n) * n, first=ranges[:, 0], last=ranges[:, 1])


def exp2_table() -> bytes:
    """The 64 entries of the EXP2 table: round(65280 * 2**(-f / 64)), from `docs/architecture.md`."""
    return np.round(65280.0 * np.exp2(-np.arange(EXP2_ENTRIES) / EXP2_ENTRIES)).astype("<u2").tobytes()


def piecewise_table(base, slope) -> bytes:
    """256 segment records (`bertha.rtl.isa.SegmentRecord`)."""
    return pack_records(SegmentRecord, SEGMENTS, base=base, slope=slope)
