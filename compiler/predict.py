"""Predicts the cycles of a program: an event model of the engines, their queues and the semaphores.

One pass in program order suffices, since a command only ever waits for commands before it. It is used to
choose schedules and to see where time goes; the RTL's counters are the measure.
"""

import math
from collections import defaultdict
from dataclasses import dataclass

from bertha.rtl.isa import COMMAND_BYTES, Engine, Opcode

__all__ = ["Prediction", "Timing", "default_timing", "predict", "vector_cycles"]

WORD_CYCLES = 2  # of a vector pass, measured while the array works: they share the scratchpad
PREFETCHED_COMMANDS = 4  # rtl/control/fetcher.py
PASS_CYCLES = 20  # that a vector pass takes beside its words
SHORT_WORDS = {Opcode.FACTORS: 2, Opcode.RANGES: 2, Opcode.TABLE: 128}
SCALE_CYCLES = {Opcode.SOFTMAX: 30, Opcode.LAYERNORM: 91}  # 1/sum, 1/deviation (rtl/vector/row_scale.py)


def vector_cycles(opcode, words) -> int:
    """Cycles of a pass of the vector engine."""
    return WORD_CYCLES * words + PASS_CYCLES + SCALE_CYCLES.get(opcode, 0)


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Latencies in cycles, of memory and between stages.

    Attributes
    ----------
    memory : from an address to its first beat, and from a last beat to its acknowledgement
    bandwidth : of the memory in bytes a cycle, reads and writes together; None: whatever the bus can move
    dispatch : from a command's fetch to its engine
    drain : from a tile's last drained column to its post1
    semaphore : from a post to the start of who waited for it
    """

    memory: int = 100
    bandwidth: float | None = None
    dispatch: int = 8
    drain: int = 16
    semaphore: int = 4


USUAL_BANDWIDTH = 8  # bytes a cycle, unless the bus moves more


def default_timing(config) -> Timing:
    """With the memory that runs are simulated with, unless another is asked for."""
    return Timing(bandwidth=max(USUAL_BANDWIDTH, config.axi_data_bytes))


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """Cycles of a program.

    Attributes
    ----------
    cycles : int
        From the doorbell to the last acknowledgement.
    busy : dict
        Cycles by engine: array steps, DMA beats, vector passes.
    macs : int
    utilization : float
        macs / (N² · cycles).
    spans : list of (start, end)
        Of each command.
    idle : list of (cycles, command number)
        Where the array stood still, the longest first.
    """

    cycles: int
    busy: dict
    macs: int
    utilization: float
    spans: list
    idle: list


def predict(program, timing=None) -> Prediction:
    """The cycles that a program takes."""
    return _Model(program, timing or Timing()).run()


class _Model:
    def __init__(self, program, timing):
        self._program, self._timing = program, timing
        self._beat = max(1, program.config.axi_data_bytes / (timing.bandwidth or math.inf))  # cycles
        self._units = defaultdict(list)  # by semaphore: when each unit was posted
        self._taken = defaultdict(int)
        self._free = dict.fromkeys(Engine, 0)  # when an engine can start its next command
        self._starts = defaultdict(list)  # by engine, for the queues
        self._bus = {Engine.LOAD: 0, Engine.STORE: 0}
        self._last_done = 0
        self._idle = []
        self._busy = defaultdict(int)

    def run(self):
        config, timing = self._program.config, self._timing
        fetch = self._transfer(COMMAND_BYTES, self._beats(COMMAND_BYTES), PREFETCHED_COMMANDS)
        fetched = timing.memory + self._beats(COMMAND_BYTES) - fetch
        spans = []
        for number, command in enumerate(self._program.commands):
            engine = command.engine
            fetched += fetch
            if engine == Engine.SEQUENCER:
                fetched = max(fetched, self._last_done)
                spans.append((fetched, fetched))
                continue
            queue = self._starts[engine]
            if len(queue) > config.queue_depth:
                fetched = max(fetched, queue[-config.queue_depth])
            ready = max(fetched + timing.dispatch, self._free[engine])
            start = self._wait(command, "wait0", ready)
            if not command.get("wait1_each"):
                start = self._wait(command, "wait1", start)
            queue.append(start)
            end = self._execute(command, number, start)
            self._last_done = max(self._last_done, end)
            spans.append((start, end))
        macs = self._program.macs
        cycles = max(self._last_done, self._memory_cycles())
        return Prediction(
            cycles=cycles,
            busy={engine.name.lower(): cycles for engine, cycles in self._busy.items()},
            macs=macs,
            utilization=macs / (config.array_n**2 * cycles),
            spans=spans,
            idle=sorted(self._idle, reverse=True),
        )

    def _beats(self, nbytes):
        """Cycles that so many bytes take on the bus."""
        return math.ceil(max(1, nbytes / self._program.config.axi_data_bytes) * self._beat)

    def _transfer(self, nbytes, cycles, outstanding):
        """Cycles from one transfer of so many bytes to the next: `outstanding` bursts are in flight at most."""
        config = self._program.config
        bursts = math.ceil(nbytes / (config.burst_beats * config.axi_data_bytes))
        return max(cycles, math.ceil(bursts * self._timing.memory / outstanding))

    def _memory_cycles(self):
        """Cycles that the memory needs for everything that is moved, since all share its bandwidth."""
        if self._timing.bandwidth is None:
            return 0
        moved = sum(command.dram_bytes + COMMAND_BYTES for command in self._program.commands)
        return self._timing.memory + math.ceil(moved / self._timing.bandwidth)

    def _wait(self, command, name, time):
        field = command.get(name)
        if not field:
            return time
        number = field >> 8 & 31
        self._taken[number] += field & 255
        return max(time, self._units[number][self._taken[number] - 1] + self._timing.semaphore)

    def _post(self, command, name, time):
        field = command.get(name)
        if field:
            self._units[field >> 8 & 31].extend([time] * (field & 255))

    def _execute(self, command, number, start):
        engine, timing, config = command.engine, self._timing, self._program.config
        if command.opcode == Opcode.GEMM:
            return self._gemm(command, number, start)
        if engine in self._bus and command.get("lines"):
            nbytes = command.get("lines") * config.line_bytes
            row = self._transfer(nbytes, self._beats(nbytes), config.outstanding_bursts)
            beats = command.get("rows") * row
            first = max(start + timing.memory * (engine == Engine.LOAD), self._bus[engine])
            self._bus[engine] = first + beats
            done = first + beats + timing.memory * (engine == Engine.STORE)
            self._free[engine] = max(start, first + beats - timing.memory)
            self._busy[engine] += beats
        elif engine == Engine.VECTOR and "src_addr" in command.fields:
            words = command.get("words") or SHORT_WORDS[command.opcode]
            cycles = vector_cycles(command.opcode, words)
            done = self._free[engine] = start + cycles
            self._busy[engine] += cycles
        else:
            done = self._free[engine] = start
        self._post(command, "post0", done)
        self._post(command, "post1", done)
        return done

    def _gemm(self, command, number, start):
        n, timing = self._program.config.array_n, self._timing
        passes = 2 if command.get("wide") else 1
        words = passes * command.get("k")
        done = start
        for tile in range(command.tiles):
            begin = max(start, self._free[Engine.GEMM])
            if command.get("wait1_each"):
                begin = self._wait(command, "wait1", begin)
            if begin > self._free[Engine.GEMM]:
                self._idle.append((begin - self._free[Engine.GEMM], number))
            last = tile == command.tiles - 1
            read = begin + words
            done = read + n + timing.drain
            if last or command.get("post0_each"):
                self._post(command, "post0", read)
            if last or command.get("post1_each"):
                self._post(command, "post1", done)
            cycles = max(words, passes * n)
            self._free[Engine.GEMM] = begin + cycles
            self._busy[Engine.GEMM] += cycles
        return done
