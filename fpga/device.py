"""The device that reports are made for."""

from dataclasses import dataclass

__all__ = ["ECP5_85F", "Device"]


@dataclass(frozen=True, kw_only=True)
class Device:
    """An FPGA, in nextpnr's terms.

    Parameters
    ----------
    name : str
    arguments : tuple of str
        What tells nextpnr-ecp5 the device, speed grade and package.
    capacity : dict of str to int
        What it has, by nextpnr's cell type. A TRELLIS_COMB is one LUT4; a carry cell takes two, a
        16 x 4 bit LUT RAM four and a TRELLIS_RAMW, which takes the place of two more.
    """

    name: str
    arguments: tuple
    capacity: dict


ECP5_85F = Device(
    name="LFE5U-85F, speed grade 6, CABGA381",
    arguments=("--85k", "--speed", "6", "--package", "CABGA381"),
    capacity={
        "TRELLIS_COMB": 83640,
        "TRELLIS_FF": 83640,
        "TRELLIS_RAMW": 10455,
        "DP16KD": 208,
        "MULT18X18D": 156,
    },
)
