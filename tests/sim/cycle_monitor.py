"""Where each engine's cycles went, from what passed the ports of its parts: an account that is none of the hardware's.

It knows the program, follows every command, line, beat and pair by counting them, and never looks at what the
hardware says of its own state. docs/architecture.md has the definitions.
"""

from collections import Counter, deque

import numpy as np

from bertha.rtl.counters.classes import CycleClass, semaphore_class
from bertha.rtl.isa import EXP2_ENTRIES, SEGMENTS, Engine, Opcode, Table, Wide, decode
from bertha.rtl.vector.threshold import ROUNDS, WAIT_CYCLES

__all__ = ["Account", "account"]

ENGINES = {Engine.LOAD: "load", Engine.STORE: "store", Engine.GEMM: "gemm", Engine.VECTOR: "vector"}
NOTHING = None


class Account:
    """Counted cycles.

    Attributes
    ----------
    cycles : int
        Of the program.
    classes : dict of Engine to Counter of CycleClass
    roots : Counter of (Engine, CycleClass)
        The array's waits: for whom, and what that one was in.
    """

    def __init__(self):
        self.cycles = 0
        self.classes = {engine: Counter() for engine in ENGINES}
        self.roots = Counter()


class _Signals:
    """Arrays of what was sampled, by name; a cycle's value is that before its clock edge."""

    def __init__(self, samples, fields):
        # As bytes, to be taken apart by NumPy.
        nbytes = (max(start + width for start, width in fields.values()) + 7) // 8
        raw = np.frombuffer(b"".join(value.to_bytes(nbytes, "little") for value in samples), np.uint8)
        bits = np.unpackbits(raw.reshape(len(samples), nbytes), axis=1, bitorder="little")
        self._arrays = {
            name: (bits[:, start : start + width] @ (1 << np.arange(width))).tolist()
            for name, (start, width) in fields.items()
        }

    def __getitem__(self, name):
        return self._arrays[name]

    def moved(self, name):
        """Where something went through a stream."""
        return [
            valid & ready for valid, ready in zip(self[f"{name}.valid"], self[f"{name}.ready"], strict=True)
        ]

    def refused(self, *names):
        """Where one of the streams was held up."""
        pairs = [(self[f"{name}.valid"], self[f"{name}.ready"]) for name in names]
        return [any(valid[t] and not ready[t] for valid, ready in pairs) for t in range(len(pairs[0][0]))]


def _commands(code):
    return [decode(code[start : start + 64]) for start in range(0, len(code), 64)]


def posters(commands) -> dict[int, Engine]:
    """Who posts to each semaphore of a program."""
    found = {}
    for opcode, fields in commands:
        for name in ("post0", "post1"):
            field = fields.get(name, 0)
            if field >> 15:
                semaphore = field >> 8 & 31
                if found.setdefault(semaphore, opcode.engine) != opcode.engine:
                    raise ValueError(f"semaphore {semaphore} must have one engine that posts to it")
    return found


def account(samples, fields, code, config) -> Account:
    """The account of one program that ran to its end.

    Parameters
    ----------
    samples : list of int
        The vector of `tests.sim.watched` at every clock edge, from before the doorbell to after the end.
    fields : dict
        As of `tests.sim.watched.fields`.
    code : bytes
        The program.
    config : Config
    """
    signals = _Signals(samples, fields)
    commands = _commands(code)
    poster_of = posters(commands)
    last = len(samples) - 1
    fronts = {
        Engine.LOAD: _load(signals, commands, config, last),
        Engine.STORE: _store(signals, commands, config, last),
        Engine.GEMM: _gemm(signals, commands, last),
        Engine.VECTOR: _vector(signals, commands, config, last),
    }
    behind = {engine: _behind(signals, name, last) for engine, name in ENGINES.items()}
    fetched = np.cumsum([0, *signals.moved("fetched")])
    found = Account()
    for t in range(last):
        now = {}
        for engine, name in ENGINES.items():
            state, busy = fronts[engine][t]
            if state is not NOTHING:
                now[engine] = state
            elif signals[f"{name}.wants"][t]:
                poster = poster_of.get(signals[f"{name}.semaphore"][t], Engine.SEQUENCER)
                now[engine] = semaphore_class(poster)
            elif busy or behind[engine][t]:
                now[engine] = CycleClass.FILLING
            elif signals["start"][t] or fetched[t] < len(commands):
                now[engine] = CycleClass.COMMAND
            else:
                now[engine] = CycleClass.IDLE
        if not signals["counting"][t + 1]:
            continue
        found.cycles += 1
        for engine, cycle_class in now.items():
            found.classes[engine][cycle_class] += 1
        for poster in ENGINES:
            if now[Engine.GEMM] == semaphore_class(poster):
                found.roots[poster, now[poster]] += 1
    return found


def _behind(signals, name, last):
    """By cycle: a command waits in the engine's queue, or a post is still to be taken."""
    entered, left = signals.moved(f"{name}.command"), signals.moved(f"{name}.unqueued")
    posts, taken = signals.moved(f"{name}.posts"), signals.moved(f"{name}.post")
    queued = owed = 0
    rows = []
    for t in range(last):
        rows.append(queued > 0 or owed > 0)
        queued += entered[t] - left[t]
        owed += posts[t] * (signals[f"{name}.post0"][t] + signals[f"{name}.post1"][t]) - taken[t]
        assert queued >= 0 and owed >= 0, (name, t)
    return rows


def _load(signals, commands, config, last):
    """By cycle: the load engine's state, and whether a command is in work."""
    sizes = iter([f["lines"] * f["rows"] for opcode, f in commands if opcode == Opcode.LOAD])
    accepted, bursts, written = (signals.moved(f"load.{name}") for name in ("accepted", "burst", "write"))
    refused = signals.refused("load.write")
    lines = beats = 0  # of commands in work that aren't written, of bursts that haven't been taken
    rows = []
    for t in range(last):
        takes = signals["load.active"][t + 1]
        state = NOTHING
        if takes:
            assert beats, t
            state = CycleClass.WORKING
        elif beats:
            state = CycleClass.SCRATCHPAD if signals["load.beat"][t] else CycleClass.DRAM_READ
        elif lines:
            state = CycleClass.SCRATCHPAD if refused[t] else CycleClass.FILLING
        rows.append((state, lines > 0))
        beats += bursts[t] * signals["load.burst.lines"][t] * config.beats_per_line - takes
        lines += (next(sizes) if accepted[t] else 0) - written[t]
    assert lines == beats == 0
    return rows


def _store(signals, commands, config, last):
    """As `_load`, of the store engine."""
    sizes = iter([f["lines"] * f["rows"] for opcode, f in commands if opcode == Opcode.STORE])
    accepted, bursts, answers = (signals.moved(f"store.{name}") for name in ("accepted", "burst", "answer"))
    refused = signals.refused("store.read")
    unanswered, due = deque(), deque()  # lines of bursts without an answer; beats left of those to be sent
    lines = here = sent = 0  # of commands in work that aren't acknowledged; lines that wait; beats of a burst
    rows = []
    for t in range(last):
        sends = signals["store.active"][t + 1]
        state = NOTHING
        if sends:
            assert due and here, t
            state = CycleClass.WORKING
        elif due and here:
            state = CycleClass.DRAM_WRITE
        elif due:
            state = CycleClass.SCRATCHPAD if sent or refused[t] else CycleClass.FILLING
        elif unanswered:
            state = CycleClass.DRAM_WRITE
        elif lines:
            state = CycleClass.FILLING
        rows.append((state, lines > 0))
        if sends:
            sent += 1
            here -= sent % config.beats_per_line == 0
            if sent == due[0]:
                due.popleft()
                sent = 0
        here += signals["store.read.line"][t]
        if answers[t]:
            lines -= unanswered.popleft()
        if accepted[t]:
            lines += next(sizes)
        if bursts[t]:
            unanswered.append(signals["store.burst.lines"][t])
            due.append(signals["store.burst.lines"][t] * config.beats_per_line)
    assert not (lines or here or due or unanswered)
    return rows


def _gemm(signals, commands, last):
    """As `_load`, of the array."""
    gemms = iter([fields for opcode, fields in commands if opcode == Opcode.GEMM])
    accepted, issued, finished = (signals.moved(f"gemm.{name}") for name in ("accepted", "tile", "finished"))
    operand_refused = signals.refused("gemm.a", "gemm.b")
    other_refused = signals.refused("gemm.residual", "gemm.params", "gemm.write")
    coming = deque()  # pairs of the passes that have been issued
    pairs = entered = 0  # of the pass in the feeder: all, and those that have entered the array
    lines = {"a": 0, "b": 0}  # that wait in front of the feeder
    passes = each = tiles = (
        0  # that the command still issues, of each of its tiles, and tiles that aren't finished
    )
    rows = []
    for t in range(last):
        steps = signals["gemm.active"][t + 1]
        issuing = passes > 0 and not signals["gemm.between"][t]
        state = NOTHING
        if steps:
            assert pairs and all(lines.values()), t
            state = CycleClass.WORKING
        elif pairs and all(lines.values()):
            state = CycleClass.SCRATCHPAD if other_refused[t] else CycleClass.FILLING
        elif pairs:
            state = CycleClass.SCRATCHPAD if entered or operand_refused[t] else CycleClass.FILLING
        elif coming or issuing:
            state = CycleClass.FILLING
        rows.append((state, issuing or tiles > 0))
        if steps:
            entered += 1
            if entered % 2 == 0:
                lines = {name: count - 1 for name, count in lines.items()}
        if entered == pairs:
            entered, pairs = 0, coming.popleft() if coming else 0
        for name in lines:
            lines[name] += signals[f"gemm.{name}.line"][t]
        if issued[t]:
            coming.append(signals["gemm.tile.k"][t])
            passes -= 1
            tiles += passes % each == 0
        tiles -= finished[t]
        if accepted[t]:
            fields = next(gemms)
            each = 1 + (fields.get("wide", 0) != Wide.NONE)
            passes = fields["count"] * each
    assert not (coming or pairs or passes or tiles or any(lines.values()))
    return rows


def _vector(signals, commands, config, last):
    """As `_load`, of the vector engine."""
    sources = iter(
        [
            (_source_lines(opcode, fields, config), ROUNDS if fields.get("kept") else 0)
            for opcode, fields in commands
            if opcode.engine == Engine.VECTOR and opcode != Opcode.VECTOR_WAIT
        ]
    )
    accepted, asked, results, finished = (
        signals.moved(f"vector.{name}") for name in ("accepted", "range", "result", "finished")
    )
    refused = signals.refused("vector.source", "vector.params", "vector.write")
    busy = begun = scaling = False
    rounds = counted = choosing = (
        0  # passes over scores to be counted, words of this one, cycles until the next one
    )
    owed = here = expected = 0  # source lines that are still to be taken, and those of them that wait
    rows = []
    for t in range(last):
        ready = signals["vector.line.ready"][t]
        takes = here > 0 and ready
        state = NOTHING
        if busy:
            works = (
                takes
                or scaling
                or choosing
                or signals["vector.scale"][t]
                or signals["vector.exp2"][t]
                or signals["vector.segments"][t]
                or (results[t] and owed and not ready)
            )
            late = begun and owed and ready and not here
            state = CycleClass.FILLING
            if works:
                state = CycleClass.WORKING
            elif late or refused[t]:
                state = CycleClass.SCRATCHPAD
        rows.append((state, busy))
        begun = begun or takes
        scaling = (scaling or signals["vector.scale"][t]) and not signals["vector.scaled"][t]
        owed -= takes
        choosing = max(0, choosing - 1)
        counted += takes
        if rounds and counted == expected:
            rounds, counted, choosing = rounds - 1, 0, WAIT_CYCLES
        here += signals["vector.source.line"][t] - takes
        if asked[t]:
            owed += expected
            assert signals["vector.range.count"][t] == expected
        if finished[t]:
            assert not owed and not scaling
            busy = False
        if accepted[t]:
            busy, begun, counted = True, False, 0
            expected, rounds = next(sources)
    assert not (busy or owed or here)
    return rows


def _source_lines(opcode, fields, config):
    """Lines that a vector command reads of its source."""
    if opcode == Opcode.TABLE:
        bits = 32 * SEGMENTS if fields["table"] == Table.PIECEWISE else 16 * EXP2_ENTRIES
        return bits // config.line_bits
    return 2 if opcode in (Opcode.FACTORS, Opcode.RANGES) else fields["words"]
