"""The vector engine on exact Python integers, straight from docs/architecture.md.

Panels are lists of words, a word is a list of N lane values. Nothing here is shared with rtl/.
"""

from math import isqrt

import numpy as np

__all__ = [
    "exp2_table",
    "factor_lines",
    "layernorm",
    "moments",
    "norm_lines",
    "pack8",
    "panel16",
    "quantize",
    "row_scale",
    "softmax",
    "softmax_factor",
    "table_lines",
]


def rhu(x, s):
    """Round half up of x / 2**s."""
    return (x + (1 << (s - 1) if s else 0)) >> s


def saturate(x, bits):
    return max(-(1 << (bits - 1)), min((1 << (bits - 1)) - 1, x))


def exp2_table():
    """The architecture's table."""
    return [int(np.floor(65280 * 2.0 ** (-f / 64) + 0.5)) for f in range(64)]


def moments(panel):
    """Sum and sum of squares of each lane."""
    return [
        (sum(word[lane] for word in panel), sum(word[lane] ** 2 for word in panel))
        for lane in range(len(panel[0]))
    ]


def softmax_factor(total):
    """Multiplier and shift of a lane whose probabilities add up to `total`."""
    if total == 0:
        return 0, 0
    e = 20 - total.bit_length()
    return ((1 << 35) - 1) // (total << e), 35 - e


def softmax(panel, maxima, table, kept=0, whole_sum=0):
    """Probabilities (a panel) and the factors of the lanes."""
    out = []
    for word in panel:
        values = []
        for x, m in zip(word, maxima):
            i, f = divmod((m - x) % 65536, 64)
            values.append(0 if x == -32768 else min(255, rhu(table[f], 8 + i)))
        out.append(values)
    sums = [sum(word[lane] for word in out) for lane in range(len(maxima))]
    if kept:
        for lane, m in enumerate(maxima):
            seen = [k for k, word in enumerate(panel) if word[lane] != -32768]
            seen.sort(key=lambda k: ((m - panel[k][lane]) % 65536, k))
            for k in seen[kept:]:
                sums[lane] -= 0 if whole_sum else out[k][lane]
                out[k][lane] = 0
    return out, [softmax_factor(total) for total in sums]


def row_scale(n, total, squares, epsilon):
    """r and e of a lane."""
    v = n * squares - total * total + epsilon or 1
    e = (56 - v.bit_length()) // 2
    root = isqrt((v << 2 * e) >> 16)
    assert 1 << 54 <= v << 2 * e < 1 << 56 and 1 << 19 <= root < 1 << 20
    return ((1 << 35) - 1) // root, e


def _requantize(panel, records, mult_shift, wide):
    word8, residue = [], []
    for word, record in zip(panel, records):
        w = [saturate(rhu(y * record["mult"], mult_shift), 16) for y in word]
        if wide:
            w = [min(v, 127 * 256 + 127) for v in w]
            word8.append([(v + 128) // 256 for v in w])
            residue.append([(v + 128) % 256 - 128 for v in w])
            continue
        word8.append([saturate(v, 8) for v in w])
        if record["residue"]:
            residue.append([saturate(v - saturate(v, 8), 8) for v in w])
    return word8, residue


def quantize(panel, records, mult_shift, wide=0):
    """int8 panel and residue words, or the high and the low plane."""
    return _requantize(panel, records, mult_shift, wide)


def layernorm(panel, row_moments, records, *, epsilon, gamma_shift, mult_shift, wide=0):
    """int16 panel, and int8 panel and residue words or the high and the low plane."""
    n = len(panel)
    scales = [row_scale(n, total, squares, epsilon) for total, squares in row_moments]
    out = []
    for word, record in zip(panel, records):
        values = []
        for x, (r, e), (total, _) in zip(word, scales, row_moments):
            z = saturate(rhu((n * x - total) * r, 31 - e), 18)
            values.append(saturate(rhu(z * record["gamma"], gamma_shift) + record["beta"], 16))
        out.append(values)
    return (out, *_requantize(out, records, mult_shift, wide))


def _lines(data, line_bytes):
    data = data + bytes(-len(data) % line_bytes)
    return [int.from_bytes(data[i : i + line_bytes], "little") for i in range(0, len(data), line_bytes)]


def panel16(panel):
    """Lines of an int16 panel."""
    return [
        int.from_bytes(b"".join((v & 0xFFFF).to_bytes(2, "little") for v in word), "little") for word in panel
    ]


def pack8(words, lanes):
    """Lines of 8-bit words, two a line; an odd last one beside zeros."""
    return _lines(bytes(v & 0xFF for word in words for v in word), 2 * lanes)


def norm_lines(records, lanes):
    """Lines of norm records."""
    data = b"".join(
        b"".join(
            (record[name] & 0xFFFF).to_bytes(2, "little") for name in ("gamma", "beta", "mult", "residue")
        )
        for record in records
    )
    return _lines(data, 2 * lanes)


def factor_lines(factors):
    """Lines of one factor record (mult, shift) for each lane."""
    data = b"".join(mult.to_bytes(2, "little") + shift.to_bytes(2, "little") for mult, shift in factors)
    return _lines(data, 2 * len(factors))


def table_lines(entries, entry_bytes, lanes):
    """Lines of a table."""
    return _lines(b"".join(e.to_bytes(entry_bytes, "little") for e in entries), 2 * lanes)
