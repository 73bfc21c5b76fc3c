"""Draws random legal programs, and what they must leave in memory.

Every opcode and every option is drawn. A program loads a part of the scratchpad and then works on it: on tables
and records that hold what their kind may hold, and on data of all kinds, from zeros to extremes. What runs side
by side is kept apart either by the compiler's semaphores (`bertha.compiler.synchronise`) or by barriers; on top
come semaphores that nobody needs. The memory afterwards is the interpreter's (`bertha.compiler.interpret`).
"""

from dataclasses import dataclass

import numpy as np

from bertha.compiler.hazards.accesses import Space, accesses
from bertha.compiler.interpret import Interpreter
from bertha.compiler.program import Command
from bertha.compiler.synchronise.synchronise import synchronise
from bertha.compiler.synchronise.units import WAIT_ONLY
from bertha.rtl.isa import COMMAND_BYTES, Opcode, Statistics, Table, Wide, semaphore

__all__ = ["Case", "draw_case"]

PAGE = 4096
MOST_WORDS = 48  # of a panel
WORK_LINES = 256
MOST_OFFSET = 60  # lines from a high plane to its low plane
COLUMN_RECORDS, NORM_RECORDS, FACTOR_RECORDS = 64, 64, 16
MOST_UNITS = 255


@dataclass
class Case:
    """A program in its memory.

    Attributes
    ----------
    base : int
        First byte of the memory.
    before : uint8 array
        All of the memory before the program.
    after : uint8 array or None
        As the program must leave it; None where that can't be told.
    window : (int, int)
        What the program may touch, a part of the memory.
    address : int
        Of the program.
    code : bytes
        The commands.
    commands : list of Command
        What `code` was before it was damaged.
    """

    base: int
    before: np.ndarray
    after: np.ndarray | None
    window: tuple
    address: int
    code: bytes
    commands: list

    @property
    def length(self):
        """Commands in `code`."""
        return len(self.code) // COMMAND_BYTES

    def store_code(self) -> None:
        """Puts the code into the memory before."""
        start = self.address - self.base
        self.before[start : start + len(self.code)] = np.frombuffer(self.code, np.uint8)


@dataclass(frozen=True)
class _Area:
    """Lines `first` to `end` of the scratchpad, loaded from `address` on."""

    first: int
    end: int
    address: int


def draw_case(generator, config):
    """A random legal program."""
    return _Draw(generator, config).case()


class _Draw:
    def __init__(self, generator, config):
        self._random = generator
        self._config = config
        self._n, self._line = config.array_n, config.line_bytes
        self._commands = []
        self._statistics = {}  # slot -> Statistics gathered in it
        self._factors = set()  # slots with row factors
        self._ranges = set()  # slots with row ranges
        self._tables = set()

    # Small choices.

    def _chance(self, odds):
        return self._random.random() < odds

    def _integer(self, low, high):
        """From `low` to `high`, both included."""
        return int(self._random.integers(low, high + 1))

    def _one_of(self, *choices):
        return choices[self._integer(0, len(choices) - 1)]

    def _even(self, high):
        return 2 * self._integer(1, high // 2)

    # Memory.

    def case(self):
        self._lay_out()
        self._load_everything()
        for _ in range(self._integer(1, self._one_of(3, 8, 16))):
            self._draw_command()
        if self._chance(0.9):
            self._store()  # most of the work, so that it is compared
            self._store_all()
        commands = self._order()
        if self._chance(0.6):
            commands = _Decoration(self._random, self._config, commands).run()
        if self._chance(0.2):
            commands.insert(self._integer(0, len(commands)), _barrier())
        code = b"".join(command.encode() for command in commands)
        case = Case(self._base, self._memory, None, self._window, self._code, code, commands)
        case.store_code()
        case.after = self._interpret(case)
        return case

    def _lay_out(self):
        """Chooses where everything is, and fills the memory."""
        line, random = self._line, self._random
        bytes_of = {
            "columns": 8 * COLUMN_RECORDS,
            "norms": 8 * NORM_RECORDS,
            "factors": 4 * FACTOR_RECORDS * self._n // 4,
            "ranges": 4 * FACTOR_RECORDS * self._n // 4,
            "exp2": 128,
            "segments": 1024 if self._chance(0.4) else 0,
            "work": WORK_LINES * line,
        }
        names = list(bytes_of)
        random.shuffle(names)
        lines = {name: bytes_of[name] // line for name in names}
        total = sum(lines.values())
        spare = self._config.lines - total
        first = self._one_of(0, spare, self._integer(0, spare))
        source = 0
        self._areas = {}
        for name in names:
            self._areas[name] = _Area(first, first + lines[name], source)
            first += lines[name]
            source += lines[name] * line
        # The window: program and data in any order, the data at any line of a page.
        data_bytes, code_bytes = 2 * total * line, 200 * COMMAND_BYTES
        slack = line * self._integer(0, 64)
        size = -(-(data_bytes + code_bytes + slack + COMMAND_BYTES) // line) * line
        top = 1 << self._config.axi_addr_bits
        start = self._one_of(0, top - size, PAGE * self._integer(2, 1000) + line * self._integer(0, 600))
        start -= start % line
        self._window = (start, start + size)
        if self._chance(0.5):
            self._code = -(-start // COMMAND_BYTES) * COMMAND_BYTES
            self._data = self._code + code_bytes + slack
            self._data += -self._data % line
        else:
            self._data = start + slack
            self._code = -(-(self._data + data_bytes) // COMMAND_BYTES) * COMMAND_BYTES
        self._spare = (self._data + total * line, total)  # first byte and lines of what only stores touch
        self._base = max(start - PAGE, 0)
        self._memory = random.integers(0, 256, min(start + size + PAGE, top) - self._base, dtype=np.uint8)
        for name, area in self._areas.items():
            content = getattr(self, f"_{name}_content")(bytes_of[name])
            place = self._data + area.address - self._base
            self._memory[place : place + len(content)] = content
        self._total = total
        self._first = min(area.first for area in self._areas.values())

    def _columns_content(self, nbytes):
        count, random = nbytes // 8, self._random
        records = np.zeros(count, np.dtype([("bias", "<i4"), ("mult", "<u2"), ("bits", "<u2")]))
        far = self._one_of(1, 1000, 1 << 20, (1 << 31) - (1 << 22))
        records["bias"] = random.integers(-far, far + 1, count)
        records["mult"] = self._numbers(count, 16, signed=False)
        shift = np.clip(random.integers(0, self._one_of(12, 26, 64), count), 0, 63)
        post_shift = random.integers(0, 16, count)
        mask = random.random(count) < self._one_of(0, 0.1, 0.5, 1)
        residue = random.random(count) < self._one_of(0, 0.2, 0.5, 1)
        reserved = random.integers(0, 16, count) if self._chance(0.3) else 0
        records["bits"] = shift | post_shift << 6 | mask << 10 | residue << 11 | reserved << 12
        return records.view(np.uint8)

    def _norms_content(self, nbytes):
        count, random = nbytes // 8, self._random
        records = np.zeros(
            count, np.dtype([("gamma", "<i2"), ("beta", "<i2"), ("mult", "<u2"), ("bits", "<u2")])
        )
        records["gamma"], records["beta"] = self._numbers(count, 16), self._numbers(count, 16)
        records["mult"] = self._numbers(count, 16, signed=False)
        residue = random.random(count) < self._one_of(0, 0.2, 0.5, 1)
        records["bits"] = residue | (random.integers(0, 1 << 15, count) << 1 if self._chance(0.3) else 0)
        return records.view(np.uint8)

    def _factors_content(self, nbytes):
        count, random = nbytes // 4, self._random
        records = np.zeros(count, np.dtype([("mult", "<u2"), ("bits", "<u2")]))
        records["mult"] = self._numbers(count, 16, signed=False)
        records["bits"] = random.integers(0, self._one_of(20, 64), count)
        if self._chance(0.3):
            records["bits"] |= (random.integers(0, 1 << 10, count) << 6).astype(np.uint16)
        return records.view(np.uint8)

    def _ranges_content(self, nbytes):
        """Bounds that columns' keys lie about, and all others; many that say all or nothing."""
        count, random = nbytes // 4, self._random
        bounds = random.integers(0, self._one_of(16, 64, 1 << 16), (count, 2))
        whole, nothing = random.random((2, count)) < 0.2
        bounds[whole], bounds[nothing] = (0, 65535), (0, 0)
        return bounds.astype("<u2").reshape(-1).view(np.uint8)

    def _exp2_content(self, nbytes):
        if self._chance(0.3):
            return np.round(65280 * 2.0 ** (-np.arange(64) / 64)).astype("<u2").view(np.uint8)
        return self._numbers(nbytes // 2, 16, signed=False).astype("<u2").view(np.uint8)

    def _segments_content(self, nbytes):
        return self._numbers(nbytes // 2, 16).astype("<i2").view(np.uint8)

    def _work_content(self, nbytes):
        """Chunks of every kind of data."""
        content = np.zeros(nbytes, np.uint8)
        chunk = 16 * self._line
        for start in range(0, nbytes, chunk):
            if self._chance(0.5):
                part = self._numbers(chunk // 2, 16).astype("<i2").view(np.uint8)
            else:
                part = self._numbers(chunk, 8).astype(np.int8).view(np.uint8)
            content[start : start + chunk] = part
        return content

    def _numbers(self, count, bits, *, signed=True):
        """Numbers of a random kind: all, small, extreme, zero."""
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        random = self._random
        match self._integer(0, 4):
            case 0 | 1:
                return random.integers(low, high + 1, count)
            case 2:
                return random.integers(max(low, -9), 10, count)
            case 3:
                return random.choice(np.array([low, low + 1, 0, 1, high - 1, high]), count)
            case _:
                return np.where(random.random(count) < 0.8, 0, random.integers(low, high + 1, count))

    # Commands.

    def _add(self, opcode, name, **fields):
        self._commands.append(Command(opcode=opcode, fields=fields, name=name))
        return self._commands[-1]

    def _place(self, lines, area="work", count=1):
        """First line and stride of `count` times `lines` lines in an area, at random."""
        area = self._areas[area]
        room = area.end - area.first - lines
        most = min(room // max(count - 1, 1), 40)
        stride = self._one_of(0, min(lines, most), self._integer(0, most))
        last = area.end - lines - (count - 1) * stride
        return self._one_of(last, self._integer(area.first, last)), stride

    def _anywhere(self, lines, count=1):
        """As `_place`, anywhere in what was loaded."""
        if self._chance(0.7):
            return self._place(lines, count=count)
        end = self._first + self._total
        stride = self._integer(0, 4)
        return self._integer(self._first, end - lines - (count - 1) * stride), stride

    def _load_everything(self):
        """Loads all areas: in one piece or as rows."""
        rows = self._one_of(*(rows for rows in (1, 2, 4, 8) if self._total % rows == 0))
        lines = self._total // rows
        self._add(
            Opcode.LOAD,
            "load all",
            dram_addr=self._data,
            scratchpad_addr=self._first,
            lines=lines,
            rows=rows,
            dram_stride=lines * self._line,
            scratchpad_stride=lines,
        )

    def _draw_command(self):
        draws = [
            (self._gemm, 8),
            (self._attention, 2),
            (self._normalise, 2),
            (self._quantize, 2),
            (self._load_factors, 1),
            (self._load_ranges, 1),
            (self._load_table, 1),
            (self._load, 2),
            (self._store, 3),
            (self._softmax, 1),
            (self._layernorm, 1),
        ]
        weights = np.array([weight for _, weight in draws], float)
        draws[self._random.choice(len(draws), p=weights / weights.sum())][0]()

    def _load(self):
        """Rows of DRAM into the work area; or some of the records again, which changes nothing."""
        if self._chance(0.2):
            area = self._areas[self._one_of("columns", "norms", "exp2")]
            lines = self._integer(1, area.end - area.first)
            skip = self._integer(0, area.end - area.first - lines)
            self._add(
                Opcode.LOAD,
                "load records",
                dram_addr=self._data + area.address + skip * self._line,
                scratchpad_addr=area.first + skip,
                lines=lines,
                rows=1,
            )
            return
        rows, lines = self._integer(1, 5), self._integer(1, self._one_of(4, 32))
        line, stride = self._place(lines, count=rows)
        self._dma(Opcode.LOAD, rows, lines, line, stride, self._window[0], self._window[1])

    def _store(self):
        rows, lines = self._integer(1, 5), self._integer(1, self._one_of(4, 32))
        line, stride = self._anywhere(lines, count=rows)
        if self._chance(0.7):
            start, end = self._spare[0], self._spare[0] + self._spare[1] * self._line
        else:
            work = self._areas["work"]
            start = self._data + work.address
            end = start + (work.end - work.first) * self._line
        self._dma(Opcode.STORE, rows, lines, line, stride, start, end)

    def _dma(self, opcode, rows, lines, line, stride, start, end):
        room = (end - start) // self._line - lines
        dram_stride = self._one_of(min(lines, room // rows), self._integer(0, min(80, room // rows)))
        first = start + self._line * self._integer(0, room - (rows - 1) * dram_stride)
        self._add(
            opcode,
            opcode.name.lower(),
            dram_addr=first,
            scratchpad_addr=line,
            lines=lines,
            rows=rows,
            dram_stride=dram_stride * self._line,
            scratchpad_stride=stride,
        )

    def _store_all(self):
        work = self._areas["work"]
        lines = work.end - work.first
        self._add(
            Opcode.STORE,
            "store all",
            dram_addr=self._spare[0],
            scratchpad_addr=work.first,
            lines=lines,
            rows=1,
        )

    def _load_table(self, table=None):
        if table is None:
            table = self._one_of(*Table)
        area = self._areas["exp2" if table == Table.EXP2 else "segments"]
        if area.end == area.first:
            return False
        self._tables.add(table)
        self._add(Opcode.TABLE, "table", table=table, src_addr=area.first)
        return True

    def _load_factors(self, slot=None):
        area = self._areas["factors"]
        slot = self._slot() if slot is None else slot
        self._factors.add(slot)
        self._add(Opcode.FACTORS, "factors", src_addr=self._integer(area.first, area.end - 2), slot=slot)

    def _load_ranges(self, slot=None):
        area = self._areas["ranges"]
        slot = self._slot() if slot is None else slot
        self._ranges.add(slot)
        self._add(Opcode.RANGES, "ranges", src_addr=self._integer(area.first, area.end - 2), slot=slot)

    def _slot(self):
        return self._integer(0, self._config.row_slots - 1)

    def _disjoint(self, command):
        """Whether no tile writes what it reads, but for what the documents allow."""
        get = command.get
        for tile in range(command.tiles):
            found = [
                access
                for access in accesses(command, tile, self._config, dram_base=0)
                if access.space == Space.SCRATCHPAD
            ]
            same = [
                (access.first, access.end, access.write)
                for access in found
                if not self._may_be_in_place(get, access, tile)
            ]
            for number, (first, end, write) in enumerate(same):
                for other_first, other_end, other_write in same[number + 1 :]:
                    if (write or other_write) and first < other_end and other_first < end:
                        return False
        return True

    @staticmethod
    def _may_be_in_place(get, access, tile):
        """A residual panel that the result replaces, a LayerNorm that replaces its source."""
        if access.write:
            return False
        residual = get("residual") and get("out16") and get("residual_addr") == get("c_addr")
        if residual and get("residual_stride") == get("c_stride"):
            return access.first == get("residual_addr") + tile * get("residual_stride") and not access.operand
        return get("write16") and get("dst16_addr") == get("src_addr") == access.first

    def _gemm(self, **fixed):
        """A GEMM with random options; `fixed` are fields that are given."""
        for _ in range(20):
            command = self._random_gemm(fixed)
            if self._disjoint(command):
                break
        else:
            return None
        # Tiles of a command run into one another, so only the first that don't meet are kept. What they
        # gather in one slot they do in their order.
        tiles = [[a for a in tile if a.space != Space.STATISTICS] for tile in self._accesses(command)]
        meeting = (n for n in range(1, len(tiles)) if _meet(sum(tiles[:n], []), tiles[n]))
        command.fields["count"] = next(meeting, len(tiles))
        command.residue_words = command.residue_words[: command.tiles]
        get = command.get
        if get("row_factor"):
            for tile in range(command.tiles):
                slot = get("slot") + tile * get("slot_step")
                if slot not in self._factors:
                    self._load_factors(slot)
        if get("ranges"):
            for tile in range(command.tiles):
                slot = get("slot") + tile * get("slot_step")
                if slot not in self._ranges:
                    self._load_ranges(slot)
        if get("statistics") != Statistics.NONE:
            for tile in range(command.tiles):
                slot = get("slot") + tile * get("slot_step")
                if not get("statistics_init") and self._statistics.get(slot, (None,))[0] != get("statistics"):
                    command.fields["statistics_init"] = 1
                self._statistics[slot] = (get("statistics"), 0)
        if get("piecewise") and Table.PIECEWISE not in self._tables and not self._load_table(Table.PIECEWISE):
            command.fields["piecewise"] = 0
        self._commands.append(command)
        return command

    def _random_gemm(self, fixed):
        n = self._n
        count = fixed.get("count") or self._one_of(1, 1, self._integer(1, 6))
        k = self._even(self._one_of(4, 16, MOST_WORDS))
        columns = fixed.get("columns") or self._one_of(n, self._integer(1, n))
        out16 = fixed.get("out16", self._integer(0, 1))
        flag = {name: self._integer(0, 1) for name in ("a_unsigned", "params", "uniform")}
        flag["residual"] = int(self._chance(0.3))
        flag["piecewise"] = int(self._chance(0.2))
        flag["row_factor"] = int(self._chance(0.25))
        flag["residue"] = int(flag["params"] and not out16 and self._chance(0.5))
        flag["ranges"] = int(self._chance(0.3))
        flag["out_wide"] = int(not out16 and self._chance(0.3))
        wide = self._one_of(*Wide) if self._chance(0.5) else Wide.NONE
        statistics = self._one_of(0, 0, 1, 2)
        slot_step = 0
        slots = self._config.row_slots
        if statistics or flag["row_factor"] or flag["ranges"]:
            most = min((slots - 1) // max(count - 1, 1), 255)
            slot_step = self._one_of(0, 1, self._integer(0, most)) if count > 1 else self._integer(0, 255)
            slot = self._integer(0, slots - 1 - (count - 1) * slot_step)
        else:
            slot_step = self._integer(0, 255 // count)  # nobody looks at them
            slot = self._integer(0, 255 - count * slot_step)
        low_offset = self._one_of(k // 2, self._integer(0, MOST_OFFSET))
        a, a_stride = self._anywhere(k // 2 + low_offset * (wide == Wide.A), count)
        b, b_stride = self._anywhere(k // 2 + low_offset * (wide == Wide.B), count)
        c, c_stride = self._place(columns if out16 else (columns + 1) // 2, count=count)
        fields = {
            **flag,
            "out16": out16,
            "wide": wide,
            "low_offset": low_offset,
            "first_key": self._one_of(0, self._integer(0, 64), self._integer(0, 65535)),
            "key_step": self._one_of(n, n, self._integer(0, 65535)),
            "statistics": statistics,
            "statistics_init": self._integer(0, 1) if statistics else 0,
            "columns": columns,
            "k": k,
            "count": count,
            "slot": slot,
            "slot_step": slot_step,
            "a_addr": a,
            "a_stride": a_stride,
            "b_addr": b,
            "b_stride": b_stride,
            "c_addr": c,
            "c_stride": c_stride,
            "mult": int(self._numbers(1, 16, signed=False)[0]),
            "shift": self._integer(0, self._one_of(12, 26, 63)),
            "post_shift": self._integer(0, 15),
            "gain": self._integer(0, 15),
        }
        if flag["params"]:
            fields["param_addr"], fields["param_stride"] = self._place(8 * n // self._line, "columns", count)
        if flag["residual"]:
            if out16 and self._chance(0.5):
                fields["residual_addr"], fields["residual_stride"] = c, c_stride
            else:
                fields["residual_addr"], fields["residual_stride"] = self._anywhere(columns, count)
        if flag["residue"] or flag["out_wide"]:
            fields["residue_addr"], fields["residue_stride"] = self._place((columns + 1) // 2, count=count)
        fields.update(fixed)
        command = Command(opcode=Opcode.GEMM, fields=fields, name="gemm")
        if fields["residue"]:
            command.residue_words = (columns,) * count
        return command

    def _panel(self, statistics):
        """GEMMs that write an int16 panel and gather statistics of it: (first line, words, slot)."""
        n, slot = self._n, self._slot()
        words, columns, least = 0, [], self._one_of(2, 8, 24)
        while words < least or words % 2:
            width = self._one_of(n, self._integer(1, n))
            if words + width >= least and (words + width) % 2:
                width += 1 if width < n else -1
            columns.append(width)
            words += columns[-1]
        line, _ = self._place(words)
        start = line
        for number, width in enumerate(columns):
            fixed = {
                "columns": width,
                "count": 1,
                "out16": 1,
                "out_wide": 0,
                "residue": 0,
                "c_addr": line,
                "c_stride": 0,
                "statistics": statistics,
                "statistics_init": int(number == 0),
                "slot": slot,
                "slot_step": 0,
                "residual": 0,
            }
            if self._gemm(**fixed) is None:
                return None
            line += width
        self._statistics[slot] = (statistics, words)
        return start, words, slot

    def _attention(self):
        """Scores with their maximum, softmax, and often a product that is divided by its sum."""
        panel = self._panel(Statistics.MAX)
        if panel is None:
            return
        source, words, slot = panel
        if self._softmax(source, words, slot) and self._chance(0.6):
            self._gemm(row_factor=1, slot=slot, slot_step=0)

    def _softmax(self, source=None, words=None, slot=None):
        if Table.EXP2 not in self._tables:
            self._load_table(Table.EXP2)
        if source is None:
            slots = [slot for slot, (kind, _) in self._statistics.items() if kind == Statistics.MAX]
            if not slots:
                return False
            words, slot = self._even(MOST_WORDS), self._one_of(*slots)
            source, _ = self._anywhere(words)
        for _ in range(20):
            target, _ = self._place(words // 2)
            command = Command(
                opcode=Opcode.SOFTMAX,
                fields={
                    "src_addr": source,
                    "slot": slot,
                    "dst8_addr": target,
                    "words": words,
                    **self._hard(words),
                },
                name="softmax",
            )
            if self._disjoint(command):
                self._commands.append(command)
                self._factors.add(slot)
                return True
        return False

    def _hard(self, words):
        """Fields of a softmax that keeps some keys, or none."""
        if not self._config.hard_attention or self._chance(0.5):
            return {}
        return {"kept": self._one_of(1, words, self._integer(1, words)), "whole_sum": self._integer(0, 1)}

    def _normalise(self):
        panel = self._panel(Statistics.MOMENTS)
        if panel:
            self._layernorm(*panel)

    def _layernorm(self, source=None, words=None, slot=None):
        if source is None:
            slots = [slot for slot, (kind, _) in self._statistics.items() if kind == Statistics.MOMENTS]
            if not slots:
                return
            words, slot = self._even(MOST_WORDS), self._one_of(*slots)
            source, _ = self._anywhere(words)
        for _ in range(20):
            write8 = self._integer(0, 1)
            write16 = 1 if not write8 else self._integer(0, 1)
            command = self._vector(
                Opcode.LAYERNORM,
                source,
                words,
                write8,
                slot=slot,
                write8=write8,
                write16=write16,
                gamma_shift=self._integer(0, self._one_of(20, 63)),
                epsilon=int(self._numbers(1, 32, signed=False)[0]),
            )
            if write16:
                command.fields["dst16_addr"] = source if self._chance(0.4) else self._place(words)[0]
                work = self._areas["work"]
                if not work.first <= command.get("dst16_addr") <= work.end - words:
                    continue  # in place of something that isn't to be written
            if self._disjoint(command):
                self._commands.append(command)
                return

    def _quantize(self):
        words = self._even(self._one_of(4, MOST_WORDS))
        for _ in range(20):
            source, _ = self._anywhere(words)
            command = self._vector(Opcode.QUANTIZE, source, words, 1)
            if self._disjoint(command):
                self._commands.append(command)
                return

    def _vector(self, opcode, source, words, narrow, **fields):
        """A LAYERNORM or QUANTIZE with its records and its 8-bit results."""
        residue = int(narrow and self._chance(0.5))
        wide = int(narrow and self._chance(0.4))
        command = Command(
            opcode=opcode,
            fields={
                "src_addr": source,
                "words": words,
                "param_addr": self._place(-(-8 * words // self._line), "norms")[0],
                "mult_shift": self._integer(0, self._one_of(20, 63)),
                "residue": residue,
                "wide": wide,
                **fields,
            },
            name=opcode.name.lower(),
        )
        if narrow:
            command.fields["dst8_addr"] = self._place(words // 2)[0]
        if residue or wide:
            command.fields["residue_addr"] = self._place(words // 2)[0]
        if residue:
            command.residue_words = (words,)
        return command

    # Order and results.

    def _order(self):
        """The commands with the semaphores or barriers that keep them apart."""
        if self._chance(0.6):
            start, end = self._window
            return synchronise(self._commands, self._config, dram_base=start, dram_end=end)
        return self._between_barriers()

    def _accesses(self, command):
        """What each tile touches: a list of lists."""
        return [
            accesses(command, tile, self._config, dram_base=self._window[0]) for tile in range(command.tiles)
        ]

    def _between_barriers(self):
        """The commands with barriers where one is needed."""
        result, since = [], []
        for command in self._commands:
            own = sum(self._accesses(command), [])
            if _meet(since, own):
                result.append(_barrier())
                since = []
            result.append(command)
            since += own
        return result

    def _interpret(self, case):
        machine = Interpreter(self._config, window=case.window)
        start, end = case.window[0] - case.base, case.window[1] - case.base
        machine.write(case.window[0], case.before[start:end].tobytes())
        machine.run(case.address, case.length)
        after = case.before.copy()
        after[start:end] = np.frombuffer(machine.read(case.window[0], end - start), np.uint8)
        return after


def _barrier():
    return Command(opcode=Opcode.BARRIER, fields={}, name="barrier")


def _meet(ones, others):
    """Whether accesses of two commands conflict."""
    return any(
        (one.write or other.write)
        and one.space == other.space
        and one.first < other.end
        and other.first < one.end
        for one in ones
        for other in others
    )


class _Decoration:
    """Adds posts that nobody needs, and waits that find them, to fields that are free."""

    def __init__(self, generator, config, commands):
        self._random = generator
        self._commands = commands
        used = {
            command.get(name) >> 8 & 31
            for command in commands
            for name in ("wait0", "wait1", "post0", "post1")
            if command.get(name)
        }
        free = [number for number in range(config.semaphores) if number not in used]
        generator.shuffle(free)
        self._semaphores = []
        for number in free[: int(generator.integers(1, 7))]:
            engines = list(WAIT_ONLY)
            poster, waiter = (engines[int(i)] for i in generator.integers(0, len(engines), 2))
            moment = ("post0", "post1")[int(generator.integers(2))]
            self._semaphores.append({"number": number, "poster": poster, "waiter": waiter, "moment": moment})

    def run(self):
        result = []
        units = {one["number"]: 0 for one in self._semaphores}
        posted = dict(units)
        for command in self._commands:
            for one in self._semaphores:
                wait = self._wait(one, units[one["number"]], command)
                if wait is None:
                    continue
                where, name, amount, each = wait
                units[one["number"]] -= amount * each
                where.fields[name] = semaphore(one["number"], amount)
                if where is not command:
                    result.append(where)
            result.append(command)
            for one in self._semaphores:
                number = one["number"]
                amount = self._post(one, command, MOST_UNITS - posted[number])
                units[number] += amount
                posted[number] += amount
        return result

    def _wait(self, one, available, command):
        """Which command takes how much, in which field and how many times; None if none does."""
        if not available or self._random.random() < 0.5:
            return None
        if self._random.random() < 0.3:
            own = Command(opcode=WAIT_ONLY[one["waiter"]], fields={}, name="wait")
            return own, ("wait0", "wait1")[int(self._random.integers(2))], self._amount(available), 1
        if command.engine != one["waiter"]:
            return None
        free = [name for name in ("wait0", "wait1") if not command.get(name)]
        if not free:
            return None
        name = free[int(self._random.integers(len(free)))]
        if command.opcode == Opcode.GEMM and name == "wait1" and available >= command.tiles:
            if self._random.random() < 0.7:
                command.fields["wait1_each"] = 1
                return command, name, self._amount(available // command.tiles), command.tiles
        return command, name, self._amount(available), 1

    def _post(self, one, command, room):
        """Posts with a command; the units that come of it."""
        if command.engine != one["poster"] or command.opcode in WAIT_ONLY.values():
            return 0
        names = [one["moment"]] if command.opcode == Opcode.GEMM else ["post0", "post1"]
        free = [name for name in names if not command.get(name)]
        if not free or room <= 0 or self._random.random() < 0.2:
            return 0
        name = free[int(self._random.integers(len(free)))]
        times = 1
        if command.opcode == Opcode.GEMM and self._random.random() < 0.5 and room >= command.tiles:
            command.fields[f"{name}_each"] = 1
            times = command.tiles
        amount = self._amount(room // times)
        command.fields[name] = semaphore(one["number"], amount)
        return amount * times

    def _amount(self, most):
        return int(self._random.integers(1, (most, min(most, 3))[int(self._random.random() < 0.8)] + 1))
