"""What the C++ side of the cycle model is told: sizes and latencies of the hardware, and the fields of commands."""

import ctypes
import functools

import numpy as np

from bertha.rtl.isa import COMMAND_BYTES, EXP2_ENTRIES, SEGMENTS, Opcode

__all__ = ["COMMAND_FIELDS", "MemoryTiming", "Parameters", "encode_commands", "parameters_of"]

_NAMES = (
    "array_n scratchpad_banks axi_data_bytes line_bytes beats_per_line burst_lines burst_beats "
    "outstanding_bursts queue_depth semaphores command_bytes prefetched_commands settle_cycles "
    "tiles_ahead tiles_in_flight param_lines array_latency words_in_flight requantise_latency "
    "piecewise_latency word_latency room_latency packer_depth scratchpad_latency reader_depth softmax_stages "
    "normalise_stages gamma_stage requantise_stages softmax_scale_cycles layernorm_scale_cycles "
    "threshold_rounds threshold_wait exp2_entries segments block_ram_depth"
).split()


class Parameters(ctypes.Structure):
    """`Parameters` of native/types.h."""

    _fields_ = [(name, ctypes.c_uint32) for name in _NAMES]


class MemoryTiming(ctypes.Structure):
    """`MemoryTiming` of native/types.h."""

    _fields_ = [
        ("read_latency", ctypes.c_uint32),
        ("write_latency", ctypes.c_uint32),
        ("outstanding", ctypes.c_uint32),
        ("bandwidth", ctypes.c_double),
    ]


COMMAND_FIELDS = (
    "opcode wait0 wait1 post0 post1 dram_addr dram_stride scratchpad_addr scratchpad_stride lines rows "
    "k count columns params residual out16 out_wide residue wide wait1_each post0_each post1_each "
    "a_addr b_addr c_addr residue_addr residual_addr param_addr a_stride b_stride c_stride residue_stride "
    "residual_stride param_stride low_offset words src_addr dst16_addr dst8_addr write16 write8 table kept flagged mark"
).split()
"""`Command` of native/types.h, each of 64 bits."""


@functools.cache
def _constants():
    """Latencies and depths, from where the hardware has them; importing that takes a while."""
    from bertha.rtl.control import fetcher
    from bertha.rtl.control.supervisor import Supervisor
    from bertha.rtl.dma import load
    from bertha.rtl.gemm import epilogue, gemm, packer, tile
    from bertha.rtl.gemm.array import SystolicArray
    from bertha.rtl.gemm.piecewise import Piecewise
    from bertha.rtl.gemm.requantise import Requantise
    from bertha.rtl.scratchpad.scratchpad import Scratchpad
    from bertha.rtl.vector import threshold
    from bertha.rtl.vector.normalise import NormaliseLane
    from bertha.rtl.vector.requantise import RequantiseLane
    from bertha.rtl.vector.softmax import SoftmaxLane

    return {
        "command_bytes": COMMAND_BYTES,
        "prefetched_commands": fetcher._PREFETCHED_COMMANDS,
        "settle_cycles": Supervisor.SETTLE_CYCLES,
        "tiles_ahead": gemm.TILES_AHEAD,
        "tiles_in_flight": gemm.TILES_IN_FLIGHT,
        "param_lines": tile.PARAM_LINES,
        "array_latency": SystolicArray.latency,
        "words_in_flight": epilogue.WORDS_IN_FLIGHT,
        "requantise_latency": Requantise.latency,
        "piecewise_latency": Piecewise.latency,
        "word_latency": packer.WORD_LATENCY,
        "room_latency": packer.ROOM_LATENCY,
        "packer_depth": packer.QUEUE_DEPTH,
        "scratchpad_latency": Scratchpad.latency,
        "reader_depth": Scratchpad.latency + 5,
        "softmax_stages": SoftmaxLane.stages,
        "normalise_stages": NormaliseLane.stages,
        "gamma_stage": NormaliseLane.gamma_stage,
        "requantise_stages": RequantiseLane.stages,
        # From `start` to `done` of rtl/vector/row_scale.py.
        "softmax_scale_cycles": 30,
        "layernorm_scale_cycles": 91,
        "threshold_rounds": threshold.ROUNDS,
        "threshold_wait": threshold.WAIT_CYCLES,
        "exp2_entries": EXP2_ENTRIES,
        "segments": SEGMENTS,
        "block_ram_depth": load._BLOCK_RAM_DEPTH,
    }


def parameters_of(config) -> Parameters:
    """The parameters of a configuration (`Config`)."""
    from bertha.rtl.dma.signatures import burst_lines

    sizes = {
        "array_n": config.array_n,
        "scratchpad_banks": config.scratchpad_banks,
        "axi_data_bytes": config.axi_data_bytes,
        "line_bytes": config.line_bytes,
        "beats_per_line": config.beats_per_line,
        "burst_lines": burst_lines(config),
        "burst_beats": config.burst_beats,
        "outstanding_bursts": config.outstanding_bursts,
        "queue_depth": config.queue_depth,
        "semaphores": config.semaphores,
    }
    return Parameters(**sizes, **_constants())


def encode_commands(commands, marks=()) -> tuple[np.ndarray, np.ndarray]:
    """Commands as int64 [commands, fields], and a list (int32) that their `flagged` points into.

    There, a GEMM has the flagged columns of each tile; a LAYERNORM or QUANTIZE the number of its flagged words and
    then these. `marks`: positions of GEMMs at whose ends snapshots are taken.
    """
    lists = []
    rows = np.zeros((len(commands), len(COMMAND_FIELDS)), dtype=np.int64)
    for row, command in zip(rows, commands, strict=True):
        row[0] = command.opcode
        for name, value in command.fields.items():
            number = _PLACES.get(name)
            if number is not None:
                row[number] = value
        row[_FLAGGED] = -1
        if any(command.residue_words):
            row[_FLAGGED] = len(lists)
            if command.opcode == Opcode.GEMM:
                lists.extend(command.residue_words)
            else:
                (count,) = command.residue_words
                lists.append(count)
                lists.extend(command.flagged or _evenly_apart(count, command.get("words")))
    for number, command in enumerate(marks):
        rows[command, -1] = 1 + number
    return rows, np.array(lists or [0], dtype=np.int32)


def _evenly_apart(count, words):
    """Where flagged words may be, of a program that was read from a file and doesn't say where they are."""
    return [word for word in range(words) if (word + 1) * count // words != word * count // words]


_PLACES = {name: number for number, name in enumerate(COMMAND_FIELDS)}
_FLAGGED = _PLACES["flagged"]
