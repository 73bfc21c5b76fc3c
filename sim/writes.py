"""Every line that is written to the scratchpad, from inside the process that simulates (`sim/hdl/writes.h`)."""

import ctypes

import numpy as np

__all__ = ["WRITE_PORTS", "WriteLog"]

WRITE_PORTS = ("load", "gemm", "vector")
"""Engines that write, in the order of the scratchpad's ports (`rtl/engine/table.py`)."""


class WriteLog:
    """What the system keeps of writes, which is nothing until it is asked to.

    Parameters
    ----------
    line_bytes : int
        Of the accelerator's lines.
    library : ctypes.CDLL, optional
        That has the simulation, if it isn't this process's executable.
    """

    ROW = np.dtype([("cycle", np.uint64), ("line", np.uint32), ("port", np.uint32)])

    def __init__(self, line_bytes, *, library=None):
        self._line_bytes = line_bytes
        self._library = library or ctypes.CDLL(None)
        for name, result, *arguments in (
            ("writes_rows", ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64)),
            ("writes_contents", ctypes.c_void_p),
            ("writes_keep", None, ctypes.c_int),
        ):
            function = getattr(self._library, name)
            function.restype, function.argtypes = result, arguments

    def keep(self, keeps=True) -> None:
        """Forgets what was written, and from now on keeps what is, or doesn't."""
        self._library.writes_keep(keeps)

    def read(self) -> tuple[np.ndarray, np.ndarray]:
        """Copies of all rows in the order of time, and of their lines: uint8 [rows, line_bytes].

        A row's cycle is `bertha.sim.memory.Memory.cycle`, to one cycle.
        """
        count = ctypes.c_uint64()
        rows = self._library.writes_rows(ctypes.byref(count))
        if not count.value:
            return np.zeros(0, self.ROW), np.zeros((0, self._line_bytes), np.uint8)
        lines = self._library.writes_contents()
        return (
            _copy(rows, count.value * self.ROW.itemsize).view(self.ROW),
            _copy(lines, count.value * self._line_bytes).reshape(-1, self._line_bytes),
        )


def _copy(place, nbytes):
    return np.frombuffer((ctypes.c_uint8 * nbytes).from_address(place), np.uint8).copy()
