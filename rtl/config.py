"""The one configuration that every component, the compiler and the benches are built from.

`Config` holds what a user may choose; the properties below the fields are the sizes that follow
from it. No other module computes a width or a depth of its own.
"""

from dataclasses import asdict, dataclass, fields, replace

from bertha.errors import UserError

__all__ = ["PRESETS", "Config", "preset"]


def _is_power_of_two(value):
    return value > 0 and value & (value - 1) == 0


@dataclass(frozen=True, kw_only=True)
class Config:
    """Parameters of one accelerator.

    Parameters
    ----------
    array_n : int
        Side of the systolic array and number of vector lanes (N). A power of two, 4 to 32.
    scratchpad_bytes : int
        Size of the scratchpad. A power of two, at most 2**23 lines: with half of all addresses outside of
        it, what runs out of the scratchpad meets a fault before it wraps.
    scratchpad_banks : int
        Single-port banks that consecutive lines are interleaved over. A power of two, 2 to 32.
    axi_data_bits : int
        Width of the AXI4 data buses; at most one scratchpad line (16 · N bits).
    axi_addr_bits : int
        Width of DRAM addresses, 16 to 64.
    axi_write_cache, axi_read_cache : int
        AWCACHE and ARCACHE of every burst, 4 bits, none of the reserved values. The default is normal,
        non-cacheable, non-bufferable memory: a write is acknowledged by where it ends up, so that who
        sees the interrupt sees the data. With bit 0 (bufferable) of AWCACHE set that is up to the system.
    axi_prot : int
        AWPROT and ARPROT of every burst, 3 bits: privileged, non-secure, instruction.
    burst_beats : int
        Longest AXI burst the DMA issues, in beats. A power of two, 1 to 256.
    outstanding_bursts : int
        Read bursts (and, separately, write bursts) in flight at once, 1 to 64.
    queue_depth : int
        Commands each engine queues, 2 to 64.
    row_slots : int
        Panels whose row statistics and row factors are kept at once. A power of two, 2 to 256.
    semaphores : int
        Counting semaphores, 2 to 32.
    cycle_counters : int
        1 counts where each engine's cycles go (`bertha.rtl.counters`), 0 leaves that out and nothing of it behind.
    hard_attention : int
        1 lets SOFTMAX keep the highest scores only (its field `kept`), 0 leaves that out and nothing of it behind.

    Raises
    ------
    ValueError
        If a parameter breaks its rule; the message names it, the rule and the value.
    """

    array_n: int = 16
    scratchpad_bytes: int = 1 << 20
    scratchpad_banks: int = 8
    axi_data_bits: int = 64
    axi_addr_bits: int = 32
    axi_write_cache: int = 0b0010
    axi_read_cache: int = 0b0010
    axi_prot: int = 0b000
    burst_beats: int = 64
    outstanding_bursts: int = 8
    queue_depth: int = 8
    row_slots: int = 64
    semaphores: int = 32
    cycle_counters: int = 1
    hard_attention: int = 1

    def __post_init__(self):
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"{field.name} must be an integer, not {value!r}")
        self._check_power_of_two("array_n", 4, 32)
        self._check_power_of_two("scratchpad_banks", 2, 32)
        self._check_power_of_two(
            "scratchpad_bytes", 16 * self.line_bytes * self.scratchpad_banks, self.line_bytes << 23
        )
        self._check_power_of_two("axi_data_bits", 32, 1024)
        if self.axi_data_bits > self.line_bits:
            raise ValueError(
                f"axi_data_bits must be at most one scratchpad line (16 * array_n = "
                f"{self.line_bits} bits), not {self.axi_data_bits}"
            )
        self._check_range("axi_addr_bits", 16, 64)
        self._check_cache("axi_write_cache")
        self._check_cache("axi_read_cache")
        self._check_range("axi_prot", 0, 7)
        self._check_power_of_two("burst_beats", self.beats_per_line, 256)
        self._check_range("outstanding_bursts", 1, 64)
        self._check_range("queue_depth", 2, 64)
        self._check_power_of_two("row_slots", 2, 256)
        self._check_range("semaphores", 2, 32)
        self._check_range("cycle_counters", 0, 1)
        self._check_range("hard_attention", 0, 1)

    def _check_range(self, name, low, high):
        value = getattr(self, name)
        if not low <= value <= high:
            raise ValueError(f"{name} must be from {low} to {high}, not {value}")

    def _check_power_of_two(self, name, low, high):
        self._check_range(name, low, high)
        if not _is_power_of_two(getattr(self, name)):
            raise ValueError(f"{name} must be a power of two, not {getattr(self, name)}")

    def _check_cache(self, name):
        self._check_range(name, 0, 15)
        value = getattr(self, name)
        if value & 0b1100 and not value & 0b0010:
            raise ValueError(
                f"{name} must have bit 1 (modifiable) set where it has bit 2 or 3, not {value:#06b}"
            )

    def replace(self, **changes) -> "Config":
        """A copy with some parameters changed."""
        return replace(self, **changes)

    def as_dict(self) -> dict[str, int]:
        """The chosen parameters by name."""
        return asdict(self)

    # Sizes that follow. A word is one element of each lane at 8 bits; a line is what a scratchpad
    # bank holds at one address: two 8-bit words or one 16-bit word.

    @property
    def line_bytes(self) -> int:
        """Bytes of a scratchpad line (2 · N)."""
        return 2 * self.array_n

    @property
    def line_bits(self) -> int:
        """Bits of a scratchpad line."""
        return 8 * self.line_bytes

    @property
    def lines(self) -> int:
        """Lines in the scratchpad."""
        return self.scratchpad_bytes // self.line_bytes

    @property
    def bank_lines(self) -> int:
        """Lines in one bank."""
        return self.lines // self.scratchpad_banks

    @property
    def bank_bits(self) -> int:
        """Address bits that choose the bank (the lowest ones of a line address)."""
        return (self.scratchpad_banks - 1).bit_length()

    @property
    def line_addr_bits(self) -> int:
        """Bits of a line address that is known to be in range."""
        return (self.lines - 1).bit_length()

    @property
    def axi_data_bytes(self) -> int:
        """Bytes of one AXI beat."""
        return self.axi_data_bits // 8

    @property
    def beats_per_line(self) -> int:
        """AXI beats that make one scratchpad line."""
        return self.line_bits // self.axi_data_bits

    @property
    def slot_bits(self) -> int:
        """Bits of a row-slot number."""
        return (self.row_slots - 1).bit_length()


PRESETS = {
    "tiny4": Config(array_n=4, scratchpad_bytes=1 << 16, scratchpad_banks=4, row_slots=16),
    # The FPGA's: it has little room, and its clock hasn't been measured with the cycle counters.
    "edge8": Config(array_n=8, scratchpad_bytes=1 << 18, scratchpad_banks=4, row_slots=32, cycle_counters=0),
    "edge16": Config(),
    # It takes more than 7 bytes a cycle: eight bursts hardly bring them from 1,000 cycles away, and many more make what is urgent late.
    "server32": Config(array_n=32, scratchpad_bytes=1 << 21, axi_data_bits=128, outstanding_bursts=10),
}


def preset(name) -> Config:
    """The preset called `name`.

    Raises
    ------
    UserError
        If there is none; the message lists those there are.
    """
    try:
        return PRESETS[name]
    except KeyError:
        raise UserError(f"preset must be one of {', '.join(PRESETS)}, not {name!r}") from None
