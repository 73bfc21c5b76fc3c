"""Commands with random operands for the vector bench, and the check of what they leave behind."""

from bertha.rtl.isa import Opcode, Table, semaphore
from tests.rtl.vector import model

__all__ = ["Scenario", "random_panel", "random_records"]


def random_panel(rng, words, lanes, low=-32768, high=32767):
    """An int16 panel."""
    return [[rng.randint(low, high) for _ in range(lanes)] for _ in range(words)]


def random_records(rng, words, *, residue=0.3):
    """Norm records; about every `residue`-th word is flagged."""
    return [
        {
            "gamma": rng.randint(-32768, 32767),
            "beta": rng.randint(-32768, 32767),
            "mult": rng.randint(0, 65535),
            "residue": int(rng.random() < residue),
        }
        for _ in range(words)
    ]


class Scenario:
    """Adds commands to a bench, each with its own operands and places, and remembers what to expect."""

    def __init__(self, bench):
        self.bench = bench
        self.lanes = bench.config.array_n
        self.expected_lines = {}
        self.expected_factors = {}
        self.expected_ranges = {}
        self.expected_segments = {}
        self.slot = 0
        self.table = None

    def _expect(self, addr, lines):
        self.expected_lines.update(enumerate(lines, addr))

    def _next_slot(self):
        self.slot = (self.slot + 5) % self.bench.config.row_slots
        return self.slot

    def exp2(self, table=None, **fields):
        """Loads the EXP2 table, the architecture's unless given."""
        self.table = table or model.exp2_table()
        src = self.bench.allocate(model.table_lines(self.table, 2, self.lanes))
        self.bench.command(Opcode.TABLE, table=Table.EXP2, src_addr=src, **fields)

    def piecewise(self, entries, **fields):
        """Loads the piecewise table."""
        src = self.bench.allocate(model.table_lines(entries, 4, self.lanes))
        self.bench.command(Opcode.TABLE, table=Table.PIECEWISE, src_addr=src, **fields)
        self.expected_segments.update(enumerate(entries))

    def factor_records(self, factors, **fields):
        """Copies factors into a slot."""
        slot = self._next_slot()
        src = self.bench.allocate(model.factor_lines(factors))
        self.bench.command(Opcode.FACTORS, slot=slot, src_addr=src, **fields)
        self.expected_factors[slot] = factors

    def range_records(self, ranges, **fields):
        """Copies ranges of keys into a slot."""
        slot = self._next_slot()
        src = self.bench.allocate(model.factor_lines(ranges))
        self.bench.command(Opcode.RANGES, slot=slot, src_addr=src, **fields)
        self.expected_ranges[slot] = ranges

    def softmax(self, panel, *, maxima=None, kept=0, whole_sum=0, **fields):
        """SOFTMAX of a panel of scores."""
        slot = self._next_slot()
        maxima = maxima or [max(word[lane] for word in panel) for lane in range(self.lanes)]
        self.bench.statistics[slot] = [(m, 0) for m in maxima]
        src = self.bench.allocate(model.panel16(panel))
        dst = self.bench.allocate(len(panel) // 2)
        self.bench.command(
            Opcode.SOFTMAX,
            words=len(panel),
            slot=slot,
            src_addr=src,
            dst8_addr=dst,
            kept=kept,
            whole_sum=whole_sum,
            **fields,
        )
        words, factors = model.softmax(panel, maxima, self.table, kept, whole_sum)
        self._expect(dst, model.pack8(words, self.lanes))
        self.expected_factors[slot] = factors

    def layernorm(
        self,
        panel,
        records,
        *,
        epsilon=0,
        gamma_shift=12,
        mult_shift=12,
        in_place=False,
        write16=1,
        write8=1,
        residue=1,
        wide=0,
        **fields,
    ):
        """LAYERNORM of a panel."""
        slot = self._next_slot()
        moments = model.moments(panel)
        self.bench.statistics[slot] = moments
        src = self.bench.allocate(model.panel16(panel))
        params = self.bench.allocate(model.norm_lines(records, self.lanes))
        dst16 = src if in_place else self.bench.allocate(len(panel))
        word16, word8, residues = model.layernorm(
            panel,
            moments,
            records,
            epsilon=epsilon,
            gamma_shift=gamma_shift,
            mult_shift=mult_shift,
            wide=wide,
        )
        dst8 = self.bench.allocate(len(panel) // 2)
        residue_lines = model.pack8(residues, self.lanes)
        residue_addr = self.bench.allocate(len(residue_lines))
        self.bench.command(
            Opcode.LAYERNORM,
            words=len(panel),
            slot=slot,
            src_addr=src,
            param_addr=params,
            dst16_addr=dst16,
            dst8_addr=dst8,
            residue_addr=residue_addr,
            epsilon=epsilon,
            gamma_shift=gamma_shift,
            mult_shift=mult_shift,
            write16=write16,
            write8=write8,
            residue=residue,
            wide=wide,
            **fields,
        )
        if write16:
            self._expect(dst16, model.panel16(word16))
        if write8:
            self._expect(dst8, model.pack8(word8, self.lanes))
        if residue or wide:
            self._expect(residue_addr, residue_lines)

    def quantize(self, panel, records, *, mult_shift=12, residue=1, wide=0, **fields):
        """QUANTIZE of a panel."""
        src = self.bench.allocate(model.panel16(panel))
        params = self.bench.allocate(model.norm_lines(records, self.lanes))
        word8, residues = model.quantize(panel, records, mult_shift, wide)
        dst8 = self.bench.allocate(len(panel) // 2)
        residue_lines = model.pack8(residues, self.lanes)
        residue_addr = self.bench.allocate(len(residue_lines))
        self.bench.command(
            Opcode.QUANTIZE,
            words=len(panel),
            src_addr=src,
            param_addr=params,
            dst8_addr=dst8,
            residue_addr=residue_addr,
            mult_shift=mult_shift,
            residue=residue,
            wide=wide,
            **fields,
        )
        self._expect(dst8, model.pack8(word8, self.lanes))
        if residue or wide:
            self._expect(residue_addr, residue_lines)

    def run(self, **options):
        """Runs the bench; every line, factor, segment and post is as expected, nothing else written."""
        bench = self.bench
        before = dict(bench.memory)
        bench.run(**options)
        for addr, line in self.expected_lines.items():
            assert bench.memory.get(addr) == line, (addr, bench.memory.get(addr), line)
        changed = {a for a, line in bench.memory.items() if before.get(a) != line}
        assert changed <= set(self.expected_lines)
        assert bench.writes == len(self.expected_lines)
        assert bench.factors == self.expected_factors
        assert bench.ranges == self.expected_ranges
        assert bench.segments == self.expected_segments

    @staticmethod
    def posts(number, amount=1):
        """Fields of a command that posts to `number`, through `post0` too."""
        return {"post0": semaphore(number, amount), "post1": semaphore(number + 1, amount)}
