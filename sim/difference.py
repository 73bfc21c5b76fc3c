"""Where an accelerator first wrote something else than its program says.

The interpreter says what every command writes to the scratchpad, in program order; the simulation what was written, in
the order of time. Conflicting accesses are ordered by semaphores (`bertha.compiler.check.check` proves it), so the
writes to any one line come in program order: the n-th write to a line in simulation is the program's n-th.
"""

from dataclasses import dataclass

import numpy as np

from bertha.compiler.interpret import Interpreter
from bertha.compiler.operations import general_name, kind_of, layer_of
from bertha.rtl.isa import Opcode, decode
from bertha.sim.writes import WRITE_PORTS

__all__ = ["Difference", "ExpectedWrites", "first_store_difference", "first_write_difference"]

_UNSIGNED = (Opcode.SOFTMAX,)
_INT16_LOADS = ("residual", "embedding")  # operations whose LOADs bring int16 panels
_WINDOW_CYCLES = 20
"""So many cycles before the command begins and behind the wrong write are shown, too."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The first result of a command that differs.

    Attributes
    ----------
    operation : str
        Its name, such as `layer0.scores.head3`.
    layer, head : int or None
    kind : str
        Of operation (`bertha.compiler.operations.KINDS`).
    engine, opcode : str
    command : int
        Its position in the program.
    tile : int
        Of a GEMM's tiles; 0 of other commands.
    row : int or None
        Token, or dimension of the head in `value`, or lane of the panel where `row_is` says so.
    row_is : {"token", "dimension", "lane"}
    word : int
        Of what the tile, or the pass, or the row of a DMA command writes, counted from 0.
    line : int or None
        Of the scratchpad; None of a store.
    address : int or None
        First byte of DRAM of the line that a LOAD or STORE moved.
    result, expected : int or None
        The word's two values in the row; None if nothing was, or had to be, written.
    first_cycle, last_cycle : int
        From the doorbell: what to look at, from the command's begin to the wrong write.
    wrong_lines : int
        Lines, of all that the run wrote, that differ: the first one, what follows from it, and other faults.
    """

    operation: str
    layer: int | None
    head: int | None
    kind: str
    engine: str
    opcode: str
    command: int
    tile: int
    row: int | None
    row_is: str
    word: int | None
    line: int | None
    address: int | None
    result: int | None
    expected: int | None
    first_cycle: int
    last_cycle: int
    wrong_lines: int

    def __str__(self):
        place = "before layer 0" if self.layer is None else f"layer {self.layer}"
        head = "" if self.head is None else f", head {self.head}"
        tile = f", tile {self.tile}" if self.opcode == "GEMM" else ""
        found = "nothing" if self.result is None else self.result
        wanted = "nothing" if self.expected is None else self.expected
        where = f"{self.row_is} {self.row}, word {self.word}"
        if self.line is not None:
            where += f" (scratchpad line {self.line})"
        if self.address is not None:
            where += f" (DRAM {self.address:#x})"
        return (
            f"first in {place}, {self.kind}{head}: {self.operation}, {self.opcode} command {self.command}{tile}, "
            f"{where}: {found} instead of {wanted}; look at cycles {self.first_cycle:,} to {self.last_cycle:,} "
            "from the doorbell"
        )


@dataclass(frozen=True)
class _Source:
    """Which command, and tile, wrote lines from `first` on, with words of `bits`; row 0's token and the LOAD's address."""

    command: int
    tile: int
    first: int
    bits: int
    token: int | None
    address: int | None


class ExpectedWrites(Interpreter):
    """An interpreter that keeps every line that a program writes.

    Attributes
    ----------
    commands : list of Command
    base : int
        First byte of the DRAM.
    lines : int64 [writes]
        Lines of the scratchpad in program order.
    contents : uint8 [writes, line_bytes]

    Parameters
    ----------
    program : Program
    pieces : list of (int, bytes)
        What is in DRAM beside the program's own pieces.
    """

    def __init__(self, program, pieces):
        super().__init__(program.config, window=program.window)
        self.commands = program.commands
        self.base = program.window[0]
        self._token = np.full(program.config.lines, -1)  # of each line's row 0; -1 where it isn't known
        self._sources, self._starts, self._count = [], [], 0
        self._lists = [], []
        self._now = 0, 0
        for address, content in [*program.pieces, *pieces]:
            self.write(address, content)
        self._execute_program()
        self.lines, self.contents = (np.concatenate(parts) for parts in self._lists)
        del self._lists

    def _execute_program(self):
        for number, command in enumerate(self.commands):
            _, fields = decode(command.encode())
            for tile in range(command.tiles):
                self._now = number, tile
                self.execute(command.opcode, fields, tile)

    def put(self, first, lines, *, bits) -> None:
        super().put(first, lines, bits=bits)
        number, tile = self._now
        command = self.commands[number]
        token = self._token_of(command, tile)
        self._token[first : first + len(lines)] = -1 if token is None else token
        address = self._address(command, first)
        if command.opcode == Opcode.LOAD and general_name(command.name) in _INT16_LOADS:
            bits = 16
        self._sources.append(_Source(number, tile, first, bits, token, address))
        self._starts.append(self._count)
        self._count += len(lines)
        self._lists[0].append(np.arange(first, first + len(lines)))
        self._lists[1].append(np.array(lines, dtype=np.uint8))

    def _token_of(self, command, tile):
        """The token in row 0 of what a command writes; of V, whose rows are dimensions, the token of word 0."""
        if command.opcode == Opcode.GEMM and command.work:
            return command.work[tile].rows.start
        source = command.get("src_addr")
        if command.opcode == Opcode.GEMM and command.get("residual"):
            source = command.get("residual_addr") + tile * command.get("residual_stride")
        if command.opcode == Opcode.LOAD and ".panel" in command.name and ".weights." not in command.name:
            return int(command.name.rpartition(".panel")[2]) * self._n
        known = int(self._token[source]) if command.opcode != Opcode.LOAD else -1
        return known if known >= 0 else None

    def _address(self, command, line):
        if command.opcode != Opcode.LOAD:
            return None
        row = 0
        if command.get("rows") > 1:
            row = (line - command.get("scratchpad_addr")) // command.get("scratchpad_stride")
        return command.get("dram_addr") + row * command.get("dram_stride")

    def source(self, number) -> _Source:
        """Where write `number` comes from."""
        return self._sources[np.searchsorted(self._starts, number, side="right") - 1]


def first_write_difference(expected, rows, contents, *, trace, doorbell) -> Difference | None:
    """The first write, in time, that isn't the program's, or None.

    Parameters
    ----------
    expected : ExpectedWrites
    rows : array of `WriteLog.ROW`
        What was written in simulation, in the order of time.
    contents : uint8 [rows, line_bytes]
    trace : dict of str to array
        Rows of `bertha.sim.memory.Trace` by engine, cycles from the doorbell.
    doorbell : int
        Cycle of the doorbell, as in `rows`.
    """
    wanted_keys, found_keys = _keys(expected.lines), _keys(rows["line"])
    order = np.argsort(wanted_keys)
    places = np.searchsorted(wanted_keys, found_keys, sorter=order)
    known = places < len(order)
    partner = order[np.where(known, places, 0)]
    known &= wanted_keys[partner] == found_keys
    wrong = ~known
    wrong[known] = (contents[known] != expected.contents[partner[known]]).any(axis=1)
    missing = np.setdiff1d(np.arange(len(order)), partner[known])
    if not wrong.any() and not len(missing):
        return None
    count = int(wrong.sum()) + len(missing)
    if not wrong.any():
        return _describe(expected, int(missing[0]), None, trace, None, count)
    number = int(np.argmax(wrong))
    cycle = int(rows["cycle"][number]) - doorbell
    engine = WRITE_PORTS[rows["port"][number]]
    if known[number]:
        source = expected.source(partner[number])
        command = expected.commands[source.command]
        spent = _spent(trace, command, source.command)
        if command.engine.name.lower() == engine and spent is not None and spent[0] <= cycle + 1:
            return _describe(expected, int(partner[number]), contents[number], trace, cycle, count)
    return _misplaced(expected, rows[number], contents[number], engine, trace, cycle, count)


def first_store_difference(expected, dram, *, trace) -> Difference | None:
    """The first STORE, in program order, whose target isn't what it must be, though the scratchpad was right.

    Parameters
    ----------
    expected : ExpectedWrites
    dram : uint8 array
        The window after the run.
    trace : dict of str to array
    """
    line_bytes, base = expected.contents.shape[1], expected.base
    wanted = np.frombuffer(expected.read(base, len(dram)), np.uint8)
    wrong = np.flatnonzero(wanted != dram)
    for number, command in enumerate(expected.commands):
        if command.opcode != Opcode.STORE or not len(wrong):
            continue
        for row in range(command.get("rows")):
            start = command.get("dram_addr") + row * command.get("dram_stride") - base
            place = np.searchsorted(wrong, start)
            if place == len(wrong) or wrong[place] >= start + command.get("lines") * line_bytes:
                continue
            first = (wrong[place] - start) // line_bytes
            span = slice(start + first * line_bytes, start + (first + 1) * line_bytes)
            word, lane, result, value = _first_word(dram[span], wanted[span], 8)
            begin, end = _spent(trace, command, number) or (0, 0)
            return _difference(
                command,
                number,
                row_is="lane",
                row=lane,
                word=2 * int(first) + word,
                address=base + span.start,
                result=result,
                expected=value,
                first_cycle=max(0, begin - _WINDOW_CYCLES),
                last_cycle=end + _WINDOW_CYCLES,
                wrong_lines=len(np.unique(wrong // line_bytes)),
            )
    return None


def _keys(lines):
    """Line and rank of each write: how many before it went to the same line."""
    lines = np.asarray(lines, dtype=np.int64)
    order = np.argsort(lines, kind="stable")
    ordered = lines[order]
    first = np.r_[True, ordered[1:] != ordered[:-1]] if len(ordered) else np.zeros(0, bool)
    begins = np.maximum.accumulate(np.where(first, np.arange(len(ordered)), 0))
    ranks = np.empty(len(lines), dtype=np.int64)
    ranks[order] = np.arange(len(ordered)) - begins
    return lines << 32 | ranks


def _spent(trace, command, number):
    """First and last cycle in which a command was active, or None."""
    rows = trace.get(command.engine.name.lower(), ())
    if number >= len(rows) or not rows[number]["busy"]:
        return None
    return int(rows[number]["first"]), int(rows[number]["last"])


def _first_word(result, expected, bits, *, signed=True):
    """Word, lane and both values of the first difference of two lines."""
    kind = np.dtype(f"<{'i' if signed else 'u'}{bits // 8}")
    words = 16 // bits
    found = np.ascontiguousarray(result).view(kind).reshape(words, -1)
    wanted = np.ascontiguousarray(expected).view(kind).reshape(words, -1)
    word, lane = (int(place) for place in np.argwhere(found != wanted)[0])
    return word, lane, int(found[word, lane]), int(wanted[word, lane])


def _describe(expected, number, content, trace, cycle, count):
    """The difference in write `number` of the program's; `content` is None if it wasn't written."""
    source = expected.source(number)
    command = expected.commands[source.command]
    line = int(expected.lines[number])
    wanted = expected.contents[number]
    signed = command.opcode not in _UNSIGNED
    other = ~wanted if content is None else content
    word, lane, result, value = _first_word(other, wanted, source.bits, signed=signed)
    word += (line - source.first) * (16 // source.bits)
    is_value = command.opcode == Opcode.GEMM and ".value." in command.name
    row, row_is = lane, "dimension" if is_value else "lane"
    if source.token is not None and is_value:
        word += source.token  # words are tokens, since V is transposed
    elif source.token is not None:
        row, row_is = source.token + lane, "token"
    begin, end = _spent(trace, command, source.command) or (0, 0)
    address = source.address
    if address is not None:
        address += (line - source.first) * len(wanted)
    return _difference(
        command,
        source.command,
        tile=source.tile,
        row=row,
        row_is=row_is,
        word=word,
        line=line,
        address=address,
        result=None if content is None else result,
        expected=value,
        first_cycle=max(0, begin - _WINDOW_CYCLES),
        last_cycle=(end if cycle is None else cycle) + _WINDOW_CYCLES,
        wrong_lines=count,
    )


def _misplaced(expected, row, content, engine, trace, cycle, count):
    """A write that the program doesn't ask for there and then: of the command that the engine worked on."""
    rows = trace[engine]
    busy = np.flatnonzero((rows["busy"] > 0) & (rows["first"].astype(np.int64) <= cycle + 1))
    number = int(busy[-1]) if len(busy) else 0
    command = expected.commands[number]
    begin = _spent(trace, command, number) or (cycle, cycle)
    return _difference(
        command,
        number,
        row_is="lane",
        row=0,
        word=0,
        line=int(row["line"]),
        result=int(content.view(np.int8)[0]),
        first_cycle=max(0, begin[0] - _WINDOW_CYCLES),
        last_cycle=cycle + _WINDOW_CYCLES,
        wrong_lines=count,
    )


def _difference(command, number, **facts):
    head = command.name.rpartition(".head")[2]
    given = {"tile": 0, "line": None, "address": None, "result": None, "expected": None}
    return Difference(
        operation=command.name,
        layer=layer_of(command.name),
        head=int(head) if head.isdecimal() else None,
        kind=kind_of(command),
        engine=command.engine.name.lower(),
        opcode=command.opcode.name,
        command=number,
        **{**given, **facts},
    )
