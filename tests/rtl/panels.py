"""Panels as lines, written out element by element for tests (docs/architecture.md, "Panels")."""

__all__ = ["lines_of_bytes", "panel8_lines", "panel16_lines", "read8", "read16"]


def lines_of_bytes(content, line_bytes):
    """`content` cut into lines, the last one filled up with zeros."""
    padded = bytes(content) + bytes(-len(content) % line_bytes)
    return [
        int.from_bytes(padded[at : at + line_bytes], "little") for at in range(0, len(padded), line_bytes)
    ]


def panel8_lines(rows, n):
    """Lines of an 8-bit panel; `rows` are at most n sequences of as many elements."""
    words = len(rows[0])
    content = bytearray()
    for k in range(words):
        content += bytes(int(rows[r][k]) & 0xFF if r < len(rows) else 0 for r in range(n))
    return lines_of_bytes(content, 2 * n)


def panel16_lines(rows, n):
    """Lines of a 16-bit panel."""
    content = bytearray()
    for k in range(len(rows[0])):
        for r in range(n):
            value = int(rows[r][k]) if r < len(rows) else 0
            content += (value & 0xFFFF).to_bytes(2, "little")
    return lines_of_bytes(content, 2 * n)


def read8(lines, addr, words, n, *, signed=True):
    """`words` 8-bit words from line `addr` on, as n rows."""
    rows = [[] for _ in range(n)]
    for k in range(words):
        line = lines[addr + k // 2].to_bytes(2 * n, "little")
        for r in range(n):
            byte = line[(k % 2) * n + r]
            rows[r].append(byte - 256 if signed and byte > 127 else byte)
    return rows


def read16(lines, addr, words, n):
    """`words` 16-bit words from line `addr` on, as n rows."""
    rows = [[] for _ in range(n)]
    for k in range(words):
        line = lines[addr + k].to_bytes(2 * n, "little")
        for r in range(n):
            rows[r].append(int.from_bytes(line[2 * r : 2 * r + 2], "little", signed=True))
    return rows
