"""Matrices as panels, byte for byte as DRAM and the scratchpad hold them.

A panel is N rows of a matrix, word by word: word k holds element k of each row. Rows beyond the matrix are
zero, and so is the last word of a row of odd length: panels have an even number of words.
"""

import numpy as np

__all__ = ["even", "pack", "panel_count", "unpack"]


def even(words) -> int:
    """`words` rounded up to an even number."""
    return words + (words & 1)


def panel_count(rows, n) -> int:
    """Panels that `rows` rows make."""
    return -(-rows // n)


def pack(matrix, n, *, dtype=np.int8) -> np.ndarray:
    """Panels of a matrix.

    Parameters
    ----------
    matrix : integers [rows, words]
    n : int
        Lanes.
    dtype : int8, uint8 or int16
        int8 and uint8 words take N bytes, int16 words 2 · N (little-endian).

    Returns
    -------
    uint8 [panels, bytes of a panel]

    Raises
    ------
    ValueError
        If the matrix isn't one, or a value doesn't fit `dtype`.
    """
    matrix = np.asarray(matrix)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(f"a matrix to pack must have rows and words, not the shape {list(matrix.shape)}")
    limits = np.iinfo(dtype)
    if matrix.min() < limits.min or matrix.max() > limits.max:
        raise ValueError(
            f"values to pack as {np.dtype(dtype).name} must be from {limits.min} to {limits.max}, "
            f"not {int(matrix.min())} to {int(matrix.max())}"
        )
    rows, words = matrix.shape
    panels = panel_count(rows, n)
    padded = np.zeros((panels * n, even(words)), dtype=np.dtype(dtype).newbyteorder("<"))
    padded[:rows, :words] = matrix
    by_word = padded.reshape(panels, n, -1).transpose(0, 2, 1)
    return np.ascontiguousarray(by_word).view(np.uint8).reshape(panels, -1)


def unpack(panels, n, *, rows, words, dtype=np.int8) -> np.ndarray:
    """The matrix [rows, words] that `pack` made `panels` (bytes in any shape) of.

    Raises
    ------
    ValueError
        If there are not as many bytes as such a matrix takes.
    """
    dtype = np.dtype(dtype).newbyteorder("<")
    data = np.frombuffer(np.ascontiguousarray(panels, dtype=np.uint8).tobytes(), dtype=dtype)
    count = panel_count(rows, n)
    if data.size != count * n * even(words):
        raise ValueError(
            f"panels of {rows} rows and {words} words must have {count * n * even(words) * dtype.itemsize} "
            f"bytes, not {data.size * dtype.itemsize}"
        )
    matrix = data.reshape(count, even(words), n).transpose(0, 2, 1).reshape(count * n, even(words))
    return matrix[:rows, :words].astype(dtype.newbyteorder("="))
