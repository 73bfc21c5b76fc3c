"""Small programs for the whole accelerator, with what they must leave in memory.

Results are expected by the independent integer model (`bertha.golden.units`), never by the hardware's own code.
"""

from dataclasses import dataclass

import numpy as np

from bertha.compiler.layout.panels import even, pack, panel_count
from bertha.golden.units import requantise, round_half_up, saturate
from bertha.rtl.isa import COMMAND_BYTES, Engine, FaultReason, Opcode, encode, semaphore

__all__ = [
    "FAULTS",
    "GEMM_SHAPES",
    "SmallProgram",
    "copy_program",
    "fault_program",
    "gemm_program",
    "loads_program",
    "random_shapes",
]

LOADED, WRITTEN = 0, 1  # semaphores

GEMM_SHAPES = [(1, 1, 1), (3, 2, 5), (5, 7, 3), (1, 33, 1), (16, 16, 16), (17, 3, 18)]
"""(M, K, columns): single elements, K below N, and sizes that are no multiple of any N."""


def random_shapes(generator, count):
    """As many random GEMM shapes."""
    return [tuple(int(size) for size in generator.integers(1, 40, 3)) for _ in range(count)]


@dataclass(frozen=True)
class SmallProgram:
    """A program in its memory.

    Attributes
    ----------
    base : int
        First byte of the memory.
    before, after : uint8 arrays
        All of the memory before the program, and as the program must leave it.
    window : (int, int)
        A part of the memory.
    address, commands : int
        Of the program.
    """

    base: int
    before: np.ndarray
    after: np.ndarray
    window: tuple
    address: int
    commands: int


_MARGIN = 4096  # memory outside of the window, at both ends


class _Memory:
    """Hands out the memory of the window and collects what is in it before and after."""

    def __init__(self, config, window, generator):
        self._line = config.line_bytes
        self.window = window
        self._free, self._end = window
        self.base = window[0] - _MARGIN
        # Random, so that a write that goes astray is seen.
        self.before = generator.integers(0, 256, window[1] + _MARGIN - self.base, dtype=np.uint8)
        self.after = self.before.copy()

    def reserve(self, size, align=None):
        align = align or self._line
        address = -(-self._free // align) * align
        self._free = address + size
        if self._free > self._end:
            raise ValueError(f"the test's window must hold {self._free - self.window[0]} bytes")
        return address

    def put(self, content, align=None):
        content = np.frombuffer(bytes(content), np.uint8)
        address = self.reserve(len(content), align)
        for memory in (self.before, self.after):
            memory[address - self.base : address - self.base + len(content)] = content
        return address

    def expect(self, address, content):
        content = np.frombuffer(bytes(content), np.uint8)
        self.after[address - self.base : address - self.base + len(content)] = content

    def finish(self, commands):
        address = self.put(b"".join(commands), COMMAND_BYTES)
        return SmallProgram(self.base, self.before, self.after, self.window, address, len(commands))


def _load(memory, panels, scratchpad, config):
    """A LOAD of the rows of `panels` (bytes), one after the other from line `scratchpad` on."""
    lines = panels.shape[1] // config.line_bytes
    return encode(
        Opcode.LOAD,
        dram_addr=memory.put(panels.tobytes()),
        scratchpad_addr=scratchpad,
        lines=lines,
        rows=len(panels),
        dram_stride=panels.shape[1],
        scratchpad_stride=lines,
        post1=semaphore(LOADED),
    )


def _gemm(config, memory, generator, shape, *, out16):
    """Commands that multiply two random matrices and store the product, which is expected."""
    n, (rows, depth, columns) = config.array_n, shape
    unsigned = bool(generator.integers(2))
    low, high = (0, 256) if unsigned else (-128, 128)
    a = generator.integers(low, high, (rows, depth))
    b = generator.integers(-128, 128, (columns, depth))
    mult, shift, post_shift = (int(value) for value in generator.integers((1, 0, 0), (1 << 16, 26, 8)))
    wide = requantise(a @ b.T, mult, shift)
    result = wide if out16 else saturate(round_half_up(wide, post_shift), 8)

    a_panels = pack(a, n, dtype=np.uint8 if unsigned else np.int8)
    b_panels = pack(b, n)
    panel_lines = even(depth) // 2
    b_addr = len(a_panels) * panel_lines
    c_addr = b_addr + len(b_panels) * panel_lines
    words = even(columns)
    c_lines = words if out16 else words // 2  # of a result panel
    step = n if out16 else n // 2  # lines of a tile
    commands = [_load(memory, a_panels, 0, config), _load(memory, b_panels, b_addr, config)]
    commands.append(encode(Opcode.GEMM_WAIT, wait0=semaphore(LOADED, 2)))
    whole, rest = divmod(columns, n)
    pieces = [(0, whole, n)] * bool(whole) + [(whole, 1, rest)] * bool(rest)
    for panel in range(len(a_panels)):
        for first, count, width in pieces:
            commands.append(
                encode(
                    Opcode.GEMM,
                    a_unsigned=unsigned,
                    out16=out16,
                    columns=width,
                    k=even(depth),
                    count=count,
                    mult=mult,
                    shift=shift,
                    post_shift=post_shift,
                    a_addr=panel * panel_lines,
                    b_addr=b_addr + first * panel_lines,
                    b_stride=panel_lines,
                    c_addr=c_addr + panel * c_lines + first * step,
                    c_stride=step,
                    post1=semaphore(WRITTEN),
                )
            )
    stored = columns if out16 else c_lines  # an odd int16 panel has no last line
    stride = c_lines * config.line_bytes
    panels = panel_count(rows, n)
    address = memory.reserve(panels * stride)
    commands.append(
        encode(
            Opcode.STORE,
            dram_addr=address,
            scratchpad_addr=c_addr,
            lines=stored,
            rows=panels,
            dram_stride=stride,
            scratchpad_stride=c_lines,
            wait0=semaphore(WRITTEN, panels * len(pieces)),
        )
    )
    expected = pack(result, n, dtype=np.int16 if out16 else np.int8)
    for panel in range(panels):
        memory.expect(address + panel * stride, expected[panel, : stored * config.line_bytes].tobytes())
    return [*commands, encode(Opcode.BARRIER)]


_WINDOW = (0x8000, 0x30000)


def gemm_program(config, shapes, *, seed, window=_WINDOW):
    """Multiplies random matrices of the shapes, int8 and int16 results in turn, and stores every product."""
    generator = np.random.default_rng(seed)
    memory = _Memory(config, window, generator)
    commands = []
    for number, shape in enumerate(shapes):
        commands += _gemm(config, memory, generator, shape, out16=bool(number % 2))
    return memory.finish(commands)


def copy_program(config, *, seed, window=_WINDOW, rows=7):
    """Loads and stores strided rows of every length, beginning at every place in a 4 KiB page's end."""
    generator = np.random.default_rng(seed)
    memory = _Memory(config, window, generator)
    line = config.line_bytes
    commands, scratchpad = [], 0
    for lines in (1, 2, 3, 4096 // line + 1):
        stride = (lines + int(generator.integers(1, 4))) * line
        source = memory.reserve(rows * stride, 4096) + (4096 - line)  # the first row ends a page
        memory.reserve(4096)
        target = memory.reserve(rows * stride, 4096) + (4096 - 2 * line)
        memory.reserve(4096)
        shape = {
            "scratchpad_addr": scratchpad,
            "lines": lines,
            "rows": rows,
            "dram_stride": stride,
            "scratchpad_stride": lines + 1,
        }
        commands.append(encode(Opcode.LOAD, dram_addr=source, post1=semaphore(LOADED), **shape))
        commands.append(encode(Opcode.STORE, dram_addr=target, wait0=semaphore(LOADED), **shape))
        for row in range(rows):
            start = source + row * stride - memory.base
            memory.expect(target + row * stride, memory.before[start : start + lines * line])
        scratchpad += rows * (lines + 1)
    return memory.finish(commands)


def loads_program(config, *, seed, count=24, window=_WINDOW):
    """Only loads, so that it may end anywhere; with the (address, bytes) that each of them reads."""
    generator = np.random.default_rng(seed)
    memory = _Memory(config, window, generator)
    commands, places = [], []
    for _ in range(count):
        lines = int(generator.integers(3, 90))
        memory.reserve(int(generator.integers(0, 9)) * config.line_bytes)
        places.append((memory.reserve(lines * config.line_bytes), lines * config.line_bytes))
        commands.append(encode(Opcode.LOAD, dram_addr=places[-1][0], lines=lines, rows=1))
    return memory.finish(commands), places


@dataclass(frozen=True)
class FaultCase:
    """A program that must be stopped, with what the accelerator must say about it.

    `error` are the addresses (first, and first after) that must answer with an error, for the faults that
    come from the bus.
    """

    program: SmallProgram
    reason: FaultReason
    engine: Engine
    index: int
    error: tuple | None = None


def _illegal(**changes):
    command = bytearray(encode(Opcode.LOAD, dram_addr=0, lines=1, rows=1))
    for place, value in changes.items():
        command[int(place[1:])] = value
    return bytes(command)


FAULTS = {
    "unknown_opcode": (FaultReason.ILLEGAL_COMMAND, Engine.SEQUENCER),
    "reserved_bit": (FaultReason.ILLEGAL_COMMAND, Engine.SEQUENCER),
    "load_beyond_scratchpad": (FaultReason.SCRATCHPAD_RANGE, Engine.LOAD),
    "store_beyond_scratchpad": (FaultReason.SCRATCHPAD_RANGE, Engine.STORE),
    "gemm_beyond_scratchpad": (FaultReason.SCRATCHPAD_RANGE, Engine.GEMM),
    "vector_beyond_scratchpad": (FaultReason.SCRATCHPAD_RANGE, Engine.VECTOR),
    "load_below_window": (FaultReason.DRAM_WINDOW, Engine.LOAD),
    "load_above_window": (FaultReason.DRAM_WINDOW, Engine.LOAD),
    "store_below_window": (FaultReason.DRAM_WINDOW, Engine.STORE),
    "store_above_window": (FaultReason.DRAM_WINDOW, Engine.STORE),
    "load_misaligned": (FaultReason.MISALIGNED, Engine.LOAD),
    "store_misaligned": (FaultReason.MISALIGNED, Engine.STORE),
    "load_slverr": (FaultReason.AXI_SLVERR, Engine.LOAD),
    "load_decerr": (FaultReason.AXI_DECERR, Engine.LOAD),
    "store_slverr": (FaultReason.AXI_SLVERR, Engine.STORE),
    "store_decerr": (FaultReason.AXI_DECERR, Engine.STORE),
    "fetch_slverr": (FaultReason.AXI_SLVERR, Engine.SEQUENCER),
    "fetch_decerr": (FaultReason.AXI_DECERR, Engine.SEQUENCER),
    "semaphore_overflow": (FaultReason.SEMAPHORE_OVERFLOW, Engine.LOAD),
    "deadlock": (FaultReason.DEADLOCK, Engine.STORE),
}
"""By name: the reason and the engine that the accelerator must give."""


def fault_program(config, name):
    """The fault called `name`, after two commands that are right; its memory must stay as it is."""
    start, end = 0x8000, 0xBE00  # not at the end of a page, where a burst would end anyway
    memory = _Memory(config, (start, end), np.random.default_rng(len(name)))
    line, page = config.line_bytes, memory.reserve(4096, 4096)
    error = None
    load, store = {"scratchpad_addr": 4, "lines": 2, "rows": 2, "dram_stride": 2 * line}, {}
    store.update(load, scratchpad_stride=2)
    load.update(scratchpad_stride=2)
    beyond = config.lines - 1
    commands = [encode(Opcode.LOAD, dram_addr=page, **load), encode(Opcode.BARRIER)]
    match name:
        case "unknown_opcode":
            bad = _illegal(b0=0x77)
        case "reserved_bit":
            bad = _illegal(b63=0x80)
        case "load_beyond_scratchpad":
            bad = encode(Opcode.LOAD, dram_addr=page, **{**load, "scratchpad_addr": beyond})
        case "store_beyond_scratchpad":
            bad = encode(Opcode.STORE, dram_addr=page, **{**store, "scratchpad_addr": beyond})
        case "gemm_beyond_scratchpad":
            bad = encode(Opcode.GEMM, a_addr=beyond, columns=1, k=4, count=1)
        case "vector_beyond_scratchpad":
            bad = encode(Opcode.SOFTMAX, src_addr=beyond, words=2)
        case "load_below_window":
            bad = encode(Opcode.LOAD, dram_addr=start - line, **load)
        case "load_above_window":
            bad = encode(Opcode.LOAD, dram_addr=end - 3 * line, **load)
        case "store_below_window":
            bad = encode(Opcode.STORE, dram_addr=start - line, **{**store, "rows": 1})
        case "store_above_window":
            bad = encode(Opcode.STORE, dram_addr=end - line, **{**store, "rows": 1})
        case "load_misaligned":
            bad = encode(Opcode.LOAD, dram_addr=page + line // 2, **load)
        case "store_misaligned":
            bad = encode(Opcode.STORE, dram_addr=page, **{**store, "dram_stride": 2 * line + 4})
        case "load_slverr" | "load_decerr":
            bad = encode(Opcode.LOAD, dram_addr=page + 1024, **load)
            error = (page + 1024 + 3 * line, page + 1024 + 4 * line)
        case "store_slverr" | "store_decerr":
            bad = encode(Opcode.STORE, dram_addr=page + 1024, **{**store, "rows": 1})
            error = (page + 1024, page + 1024 + 2 * line)
        case "fetch_slverr" | "fetch_decerr":
            bad = encode(Opcode.BARRIER)
        case "semaphore_overflow":
            full = {**load, "post0": semaphore(3, 200), "post1": semaphore(3, 100)}
            bad = encode(Opcode.LOAD, dram_addr=page, **full)
        case "deadlock":
            bad = encode(Opcode.STORE_WAIT, wait0=semaphore(5))
    # What follows must not run: its store would be seen.
    after = encode(Opcode.STORE, dram_addr=page, **{**store, "rows": 1})
    program = memory.finish([*commands, bad, encode(Opcode.BARRIER), after])
    if name.startswith("fetch"):
        error = (program.address + 2 * COMMAND_BYTES, program.address + 3 * COMMAND_BYTES)
    reason, engine = FAULTS[name]
    return FaultCase(program, reason, engine, len(commands), error)
