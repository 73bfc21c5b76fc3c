"""The simulated host memory and the trace, from inside the process that simulates.

`sim/hdl/system.cpp` has the C side; its functions are in the executable that runs this Python, or in a
library that this Python loaded (`bertha.sim.library`).
"""

import ctypes
import enum
from dataclasses import dataclass

import numpy as np

__all__ = [
    "TRACE_ENGINES",
    "CLASSES",
    "STRETCH",
    "AddressWaits",
    "Manners",
    "Memory",
    "Misdeed",
    "Response",
    "Stalls",
    "Trace",
    "stray_bytes",
]

TRACE_ENGINES = ("load", "store", "gemm", "vector")
"""In the order of their numbers in the trace."""
CLASSES, STRETCH = 16, 256
"""Values that a `CycleClass` may have, and cycles that are counted together (`trace_classes`, `trace_stretch` in hdl/trace.h)."""


class Response(enum.IntEnum):
    """An AXI response."""

    OKAY = 0
    EXOKAY = 1
    SLVERR = 2
    DECERR = 3


@dataclass(frozen=True)
class Stalls:
    """Odds (0 to 1) that a channel stands still in a cycle."""

    aw: float = 0
    w: float = 0
    b: float = 0
    ar: float = 0
    r: float = 0

    @classmethod
    def everywhere(cls, odds) -> "Stalls":
        """The same odds on every channel."""
        return cls(odds, odds, odds, odds, odds)


class AddressWaits(enum.IntEnum):
    """What the memory waits for before it takes a write address."""

    NOTHING = 0
    DATA_VALID = 1
    """The first of the burst's data are offered."""
    DATA_TAKEN = 2
    """All of the burst's data have been taken."""


_LONGEST_BURST = 256


@dataclass(frozen=True)
class Manners:
    """What AXI allows and some interconnects do.

    Attributes
    ----------
    interleave : bool
        Read beats of different IDs come in any order, beat by beat; those of an ID stay in theirs.
    address_waits : AddressWaits
    early_beats : int
        Write beats that are taken before their address.
    silence : float
        Odds that a channel falls silent in a cycle.
    silence_cycles : int
        Longest such silence.

    Raises
    ------
    ValueError
        If data would have to be taken before the address, but can't be.
    """

    interleave: bool = False
    address_waits: AddressWaits = AddressWaits.NOTHING
    early_beats: int = 0
    silence: float = 0
    silence_cycles: int = 0

    def __post_init__(self):
        if self.address_waits == AddressWaits.DATA_TAKEN and self.early_beats < _LONGEST_BURST:
            raise ValueError(
                f"early_beats must be at least {_LONGEST_BURST}, the longest burst, where the address "
                f"waits for all data, not {self.early_beats}"
            )


class Misdeed(enum.IntEnum):
    """What AXI doesn't allow, in the answer to a burst."""

    LAST_EARLY = 1
    """A read burst is over some beats before its length, with RLAST."""
    LAST_LATE = 2
    """It goes on for some beats after its length, and only then has RLAST."""
    LAST_TWICE = 3
    """RLAST comes some beats before the end and again at the end."""
    LAST_MISSING = 4
    """A read burst is over in time, but without RLAST."""
    RESPONSE_EARLY = 5
    """The write response doesn't wait for the data."""
    RESPONSE_TWICE = 6
    """A write burst is answered twice."""
    OTHER_ID = 7
    """The answer has the ID with the lowest bit flipped."""


class _Counters(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("cycle", "bytes_read", "bytes_written", "violations")]


def _declare(library):
    """The C functions of `library`, by default those of the executable, with their types."""
    library = library or ctypes.CDLL(None)
    u8, u32, u64, number, integer = (
        ctypes.c_uint8,
        ctypes.c_uint32,
        ctypes.c_uint64,
        ctypes.c_double,
        ctypes.c_int,
    )
    for name, result, *arguments in (
        ("memory_allocate", ctypes.POINTER(u8), u64, u64),
        ("memory_set_timing", None, u32, u32, number, u32),
        ("memory_set_stalls", None, u64, number, number, number, number, number),
        ("memory_add_error", None, u64, u64, u8, integer, integer),
        ("memory_clear_errors", None),
        ("memory_set_manners", None, integer, u8, u32, number, u32),
        ("memory_add_misdeed", None, u8, u64, u64, u32),
        ("memory_clear_misdeeds", None),
        ("memory_counters", ctypes.POINTER(_Counters)),
        ("memory_violation", ctypes.c_char_p, u32),
        ("trace_rows", ctypes.c_void_p, u32, ctypes.POINTER(u64)),
        ("trace_newest", u32, u32),
        ("trace_clear", None),
        ("trace_record_classes", None, integer),
        ("trace_command_classes", ctypes.c_void_p, u32, ctypes.POINTER(u64)),
        ("trace_stretches", ctypes.c_void_p, ctypes.POINTER(u64), ctypes.POINTER(u64)),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class Memory:
    """Host memory behind the accelerator's AXI4 port.

    Attributes
    ----------
    base : int
        Address of its first byte.
    bytes : numpy array of uint8
        The contents: the very memory that is simulated, not a copy.

    Parameters
    ----------
    base, size : int
        In bytes. Addresses outside answer DECERR.
    library : ctypes.CDLL, optional
        That has the simulation, if it isn't this process's executable.
    """

    def __init__(self, base, size, *, library=None):
        self._library = _declare(library)
        self._counters = self._library.memory_counters()
        self.base = base
        place = self._library.memory_allocate(base, size)
        self.bytes = np.ctypeslib.as_array(place, (size,))
        self.set_timing()
        self.set_stalls(Stalls(), seed=0)
        self.set_manners(Manners())
        self.clear_errors()
        self.clear_misdeeds()

    def view(self, address, size) -> np.ndarray:
        """`size` bytes from `address` on, as a part of `bytes`.

        Raises
        ------
        ValueError
            If they are not in the memory.
        """
        start = address - self.base
        if start < 0 or start + size > len(self.bytes):
            raise ValueError(f"addresses must be in the memory, not {address:#x} to {address + size:#x}")
        return self.bytes[start : start + size]

    def write(self, address, data) -> None:
        """Puts bytes (or an array of any type) at `address`."""
        data = np.frombuffer(np.ascontiguousarray(data) if isinstance(data, np.ndarray) else data, np.uint8)
        self.view(address, len(data))[:] = data

    def set_timing(self, *, latency=1, write_latency=None, bandwidth=1e9, outstanding=64) -> None:
        """Sets how fast the memory is.

        Parameters
        ----------
        latency : int
            Cycles from a read address to its first data, at least 1.
        write_latency : int, optional
            Cycles from the last write data to the response; as `latency` if not given.
        bandwidth : float
            Most bytes a cycle on average, reads and writes together.
        outstanding : int
            Bursts of each direction that are accepted before the first is finished.
        """
        write_latency = latency if write_latency is None else write_latency
        self._library.memory_set_timing(latency, write_latency, bandwidth, outstanding)

    def set_stalls(self, stalls, *, seed) -> None:
        """Makes the channels stand still at random; the same seed gives the same stalls."""
        self._library.memory_set_stalls(seed, stalls.aw, stalls.w, stalls.b, stalls.ar, stalls.r)

    def set_manners(self, manners) -> None:
        """Makes the memory behave as some interconnects do; chance comes from the seed of `set_stalls`."""
        self._library.memory_set_manners(
            manners.interleave,
            manners.address_waits,
            manners.early_beats,
            manners.silence,
            manners.silence_cycles,
        )

    def add_error(self, low, high, response, *, on_read=True, on_write=True) -> None:
        """Lets accesses to the addresses from `low` up to, not including, `high` answer an error."""
        self._library.memory_add_error(low, high, response, on_read, on_write)

    def clear_errors(self) -> None:
        """Forgets the addresses that answer errors."""
        self._library.memory_clear_errors()

    def add_misdeed(self, misdeed, low, high, *, beats=1) -> None:
        """Answers bursts that touch an address from `low` up to, not including, `high` against the rules of AXI."""
        self._library.memory_add_misdeed(misdeed, low, high, beats)

    def clear_misdeeds(self) -> None:
        """Forgets `add_misdeed`."""
        self._library.memory_clear_misdeeds()

    @property
    def cycle(self) -> int:
        """Clock edges so far."""
        return self._counters.contents.cycle

    @property
    def bytes_read(self) -> int:
        """Bytes of the read beats that the accelerator took."""
        return self._counters.contents.bytes_read

    @property
    def bytes_written(self) -> int:
        """Bytes written with their strobe set."""
        return self._counters.contents.bytes_written

    @property
    def violations(self) -> list[str]:
        """What the accelerator did against the rules of AXI4, a sentence each; the first hundred."""
        count = min(self._counters.contents.violations, 100)
        return [self._library.memory_violation(number).decode() for number in range(count)]


def stray_bytes(memory, expected, regions) -> int:
    """Bytes of the memory that differ from `expected` outside the regions, pairs of first byte and bytes."""
    different = memory.bytes != expected
    for address, nbytes in regions:
        start = address - memory.base
        different[start : start + nbytes] = False
    return int(np.count_nonzero(different))


class Trace:
    """Which command each engine worked on, and with cycle counters what it was in, by command and over time.

    Parameters
    ----------
    library : ctypes.CDLL, optional
        As of `Memory`.
    """

    ROW = np.dtype([("busy", np.uint64), ("first", np.uint64), ("last", np.uint64)])

    def __init__(self, *, library=None):
        self._library = _declare(library)

    def rows(self, engine) -> np.ndarray:
        """A copy of the engine's rows, indexed by the command's position in the program.

        Cycles are those of `Memory.cycle`; a command that never was active has `busy` 0.
        """
        count = ctypes.c_uint64()
        place = self._library.trace_rows(TRACE_ENGINES.index(engine), ctypes.byref(count))
        return _copied(place, count.value, self.ROW)

    def command_classes(self, engine) -> np.ndarray:
        """uint32 [commands, CLASSES]: the engine's cycles by value of `CycleClass`, by position in the program.

        Cycles in which it was active for no command belong to its next one. Empty without cycle counters.
        """
        count = ctypes.c_uint64()
        place = self._library.trace_command_classes(TRACE_ENGINES.index(engine), ctypes.byref(count))
        return _copied(place, count.value, np.dtype((np.uint32, (CLASSES,))))

    def stretches(self) -> tuple[int, np.ndarray]:
        """Cycles by class over time.

        Returns
        -------
        int
            The first cycle (`Memory.cycle`).
        uint16 [stretches, engines, CLASSES]
            From it on in stretches of `STRETCH` cycles, engines as in `TRACE_ENGINES`. Empty without cycle counters.
        """
        count, start = ctypes.c_uint64(), ctypes.c_uint64()
        place = self._library.trace_stretches(ctypes.byref(count), ctypes.byref(start))
        return start.value, _copied(place, count.value, np.dtype((np.uint16, (len(TRACE_ENGINES), CLASSES))))

    def record_classes(self, on) -> None:
        """Whether cycles are recorded by class from now on, as they are at first."""
        self._library.trace_record_classes(on)

    def newest(self) -> int:
        """Position of the last command that any engine has worked on."""
        return max(self._library.trace_newest(engine) for engine in range(len(TRACE_ENGINES)))

    def clear(self) -> None:
        """Forgets everything."""
        self._library.trace_clear()


def _copied(place, count, dtype):
    """A copy of `count` items at an address."""
    if not count:
        return np.zeros(0, dtype)
    size = count * dtype.itemsize
    return (
        np.frombuffer((ctypes.c_uint8 * size).from_address(place), dtype.base if dtype.shape else dtype)
        .reshape(count, *dtype.shape)
        .copy()
    )
