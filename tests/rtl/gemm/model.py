"""The GEMM command in plain Python integers, straight from docs/architecture.md, "Epilogue"."""

__all__ = ["gemm_tile", "round_half_up", "saturate"]


def round_half_up(value, shift):
    return value if shift == 0 else (value + (1 << (shift - 1))) >> shift


def saturate(value, bits):
    return max(-(1 << (bits - 1)), min((1 << (bits - 1)) - 1, value))


def gemm_tile(
    a,
    b,
    *,
    columns,
    records=None,
    uniform=False,
    mult=0,
    shift=0,
    post_shift=0,
    factors=None,
    gain=0,
    segments=None,
    residual=None,
    statistics=None,
):
    """One tile.

    Parameters
    ----------
    a, b : n rows of k integers
    records : list of dict, optional
        Of the columns.
    factors : list of (mult, shift), optional
        Of the rows.
    segments : list of (base, slope), optional
    residual : n rows of `columns` integers, optional
    statistics : list of [sum or max, squares], optional
        Continued in place; kind in statistics[0][2].

    Returns
    -------
    word16, word8, residue8 : n rows of `columns`
    """
    n = len(a)
    word16 = [[0] * columns for _ in range(n)]
    word8 = [[0] * columns for _ in range(n)]
    residue8 = [[0] * columns for _ in range(n)]
    for c in range(columns):
        record = records[c] if records else {}
        for r in range(n):
            total = sum(x * y for x, y in zip(a[r], b[c])) + record.get("bias", 0)
            if factors:
                m, s = factors[r][0], max(factors[r][1] - gain, 0)
            elif records and not uniform:
                m, s = record["mult"], record["shift"]
            else:
                m, s = mult, shift
            value = saturate(round_half_up(total * m, s), 16)
            if segments:
                base, slope = segments[(value + 32768) >> 8]
                value = saturate(base + round_half_up(slope * (value & 255), 8), 16)
            if residual:
                value = saturate(value + residual[r][c], 16)
            if statistics and statistics[r][2] == "max":
                value = max(value, -32767)
            if record.get("mask"):
                value = -32768
            if statistics:
                entry = statistics[r]
                if entry[2] == "max":
                    entry[0] = max(entry[0], value)
                else:
                    entry[0] += value
                    entry[1] += value * value
            ps = record["post_shift"] if records and not uniform else post_shift
            scaled = round_half_up(value, ps)
            word16[r][c] = value
            word8[r][c] = saturate(scaled, 8)
            residue8[r][c] = saturate(scaled - saturate(scaled, 8), 8)
    return word16, word8, residue8
