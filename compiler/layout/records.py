"""Records and tables as bytes: column, norm and factor records, key mask, EXP2 and piecewise tables."""

import numpy as np

from bertha.compiler.layout.panels import panel_count

__all__ = [
    "COLUMN_RECORD_BYTES",
    "column_records",
    "exp2_table",
    "factor_records",
    "mask_records",
    "norm_records",
    "piecewise_table",
]

COLUMN_RECORD_BYTES = 8

_COLUMN = np.dtype([("bias", "<i4"), ("mult", "<u2"), ("bits", "<u2")])
_NORM = np.dtype([("gamma", "<i2"), ("beta", "<i2"), ("mult", "<u2"), ("bits", "<u2")])
_FACTOR = np.dtype([("mult", "<u2"), ("bits", "<u2")])
_SEGMENT = np.dtype([("base", "<i2"), ("slope", "<i2")])


def column_records(count, *, bias=0, mult=0, shift=0, post_shift=0, mask=False, residue=False):
    """`count` column records (`bertha.rtl.isa.ColumnRecord`); shorter arrays are filled up with zeros."""
    records = np.zeros(count, dtype=_COLUMN)
    bits = np.zeros(count, dtype=np.int64)
    records["bias"] = _fill(bias, count)
    records["mult"] = _fill(mult, count)
    for values, low in ((shift, 0), (post_shift, 6), (mask, 10), (residue, 11)):
        bits |= _fill(values, count) << low
    records["bits"] = bits
    return records.tobytes()


def norm_records(norm):
    """Norm records (`bertha.rtl.isa.NormRecord`) of a `bertha.golden.layer.QuantizedNorm`, one a feature."""
    records = np.zeros(len(norm.mult), dtype=_NORM)
    records["gamma"], records["beta"], records["mult"] = norm.gamma, norm.beta, norm.mult
    records["bits"] = np.asarray(norm.residue, dtype=np.int64)
    return records.tobytes()


def factor_records(count, *, mult, shift):
    """`count` factor records (`bertha.rtl.isa.FactorRecord`); shorter arrays are filled up with zeros."""
    records = np.zeros(count, dtype=_FACTOR)
    records["mult"], records["bits"] = _fill(mult, count), _fill(shift, count)
    return records.tobytes()


def mask_records(mask, tokens, n):
    """Column records of the key mask of `tokens` keys, in whole panels; keys that aren't there are masked.

    Raises
    ------
    ValueError
        If the mask has another length or no real token.
    """
    real = np.ones(tokens, dtype=bool) if mask is None else np.asarray(mask).astype(bool)
    if real.shape != (tokens,):
        raise ValueError(f"the key mask must have the shape [{tokens}], not {list(real.shape)}")
    if not real.any():
        raise ValueError("the key mask must have at least one real token, not none")
    count = panel_count(tokens, n) * n
    hidden = np.ones(count, dtype=bool)
    hidden[:tokens] = ~real
    return column_records(count, mask=hidden)


def exp2_table():
    """The 64 entries of the EXP2 table: round(65280 * 2**(-f / 64)), from `docs/architecture.md`."""
    return np.round(65280.0 * np.exp2(-np.arange(64) / 64)).astype("<u2").tobytes()


def piecewise_table(base, slope):
    """256 segment records (`bertha.rtl.isa.SegmentRecord`)."""
    records = np.zeros(256, dtype=_SEGMENT)
    records["base"], records["slope"] = base, slope
    return records.tobytes()


def _fill(values, count):
    filled = np.zeros(count, dtype=np.int64)
    values = np.asarray(values, dtype=np.int64)
    if values.ndim == 0:
        filled[:] = values
    else:
        filled[: len(values)] = values
    return filled
