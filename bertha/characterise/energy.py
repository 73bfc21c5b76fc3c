"""An estimate of a run's energy, from bytes and operations counted and from published constants.

The constants are those of M. Horowitz, "Computing's energy problem (and what we can do about it)", ISSCC 2014, figure
1.1.9, for 45 nm at 0.9 V: integer arithmetic, reads of 64 bits of caches, and of DRAM, for which it gives 1.3 to 2.6 nJ.
The lower end is taken. What isn't counted: registers and wires between processing elements, clock, leakage, control.
So parts of a run can be compared, and runs with each other; it says nothing of a chip's watts.
"""

import math
from dataclasses import dataclass

__all__ = ["Activity", "energy", "sram_byte"]

PICOJOULES = {"add 32": 0.1, "multiply 8": 0.2, "multiply 32": 3.1, "DRAM 64": 1300.0}
SRAM_64 = {1 << 13: 10.0, 1 << 15: 20.0, 1 << 20: 100.0}
"""pJ of a read of 64 bits, by the memory's bytes."""


@dataclass(frozen=True, kw_only=True)
class Activity:
    """What a run does, as far as it costs energy here.

    Attributes
    ----------
    dram_bytes, scratchpad_bytes : int
        Read and written.
    macs_8 : int
        Multiply-accumulates of 8 bits that the array makes, those of padding and of second passes among them.
    multiplications : int
        Of the lanes behind the array and of the vector engine, up to 32 bits.
    """

    dram_bytes: int
    scratchpad_bytes: int
    macs_8: int
    multiplications: int


def sram_byte(nbytes) -> float:
    """pJ of a byte of a memory of `nbytes` bytes: between the published sizes by a power law, beyond them as at the end."""
    sizes = sorted(SRAM_64)
    nbytes = min(max(nbytes, sizes[0]), sizes[-1])
    above = next(size for size in sizes[1:] if nbytes <= size)
    below = sizes[sizes.index(above) - 1]
    part = math.log(nbytes / below) / math.log(above / below)
    return SRAM_64[below] * (SRAM_64[above] / SRAM_64[below]) ** part / 8


def energy(activity, scratchpad_bytes) -> dict[str, float]:
    """Estimated pJ by where they go, of an accelerator with a scratchpad of so many bytes."""
    return {
        "DRAM": activity.dram_bytes * PICOJOULES["DRAM 64"] / 8,
        "scratchpad": activity.scratchpad_bytes * sram_byte(scratchpad_bytes),
        "MACs": activity.macs_8 * (PICOJOULES["multiply 8"] + PICOJOULES["add 32"]),
        "lanes": activity.multiplications * (PICOJOULES["multiply 32"] + PICOJOULES["add 32"]),
    }
