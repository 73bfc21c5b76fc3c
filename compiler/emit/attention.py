"""Attention: projections, scores, softmax and P·V, head by head.

Order of a head: Q, K, then P·V of the head before, scores, Vᵀ, softmax. So softmax runs under Vᵀ and the next
head's projections, and nothing waits for what was just issued. Vᵀ has the operands swapped: its rows are
dimensions, which is why its scales are row factors. A wide V is written as two planes and P·V takes two passes
over them. Where heads are so narrow that scores come as fast as they can be written, tiles of Vᵀ stand between them
instead of behind them. When the scores of all row panels don't fit, they come in
blocks with two sets of buffers; when the operand doesn't fit, it is loaded block by block for every head, and
Vᵀ of a block follows its Q and K.
"""

from itertools import groupby

from bertha.compiler.emit.start import emit_start
from bertha.compiler.hazards.accesses import RECORD_LINES
from bertha.compiler.layout.model import IDENTITY
from bertha.compiler.layout.panels import even
from bertha.compiler.plan.buffers import STAGE_SETS, value_plane_lines
from bertha.rtl.isa import Opcode, Statistics, Table, Wide

__all__ = ["NORMALISED_BITS", "emit_attention"]

SCORES_TOGETHER = 4
"""Tiles of scores in a row, where their words are written nearly as slowly as they come: the drain holds two tiles' words."""

NORMALISED_BITS = 7
"""Fraction bits of P that is divided by its sum before P·V: an int8 operand's."""


def emit_attention(emitter) -> None:
    """All heads of a layer: from the operand of the projections to the context panels."""
    _Attention(emitter).run()


class _Attention:
    def __init__(self, emitter):
        self.e = emitter
        self.keys = even(emitter.seq)
        self.score_lines = emitter.panels * emitter.n  # of one row panel
        self.value_wide = emitter.layer.value_wide
        self.value_plane = value_plane_lines(emitter.panels, emitter.n)
        self.value_lines = self.value_plane * (2 if self.value_wide else 1)  # of one panel of dimensions
        self.factor_slots = max((len(head) for head in emitter.layout.value), default=0)
        self.sets = emitter.plan.choice.score_sets
        self.unit = 0  # counts (head, block of scores) pairs
        self.with_factors = set()  # panels of dimensions, as (head, number, block of the operand)
        self.stored = 0  # of them, those whose context went to DRAM

    def run(self):
        e = self.e
        e.later_loads(self._loads_for_later)
        done = self._start()
        if not e.layer.heads:
            self._tables()
            e.emit_later()
            return
        waiting = None
        for head in range(e.layer.heads):
            self._projections(head, done, waiting)
            for block in e.plan.attention_blocks:
                place = self.unit % self.sets
                self.unit += 1
                if not e.plan.own_slots:
                    e.load_ranges(block, block, place)
                is_first = block is e.plan.attention_blocks[0]
                if is_first and self._drain_is_short():
                    self._scores_among_values(head, block, place, done)
                else:
                    self._scores(head, block, place)
                    if not is_first:
                        self._context(*waiting)
                    elif len(e.plan.x_blocks) == 1:
                        self._values(head, range(e.panels), done=done)
                if head == 0 and is_first:
                    self._tables()
                self._maxima(head, block, place)
                self._softmax(head, block, place)
                waiting = (head, block, place)
            done = 0
            if head or e.layer.heads == 1:
                e.emit_later(-(-len(e.later) // (e.layer.heads - head)))
        e.emit_later()
        self._context(*waiting)

    def _loads_for_later(self):
        """Loads that nothing in attention waits for; spread over the heads."""
        e = self.e
        if e.plan.choice.late_residual:
            return
        if e.number == 0 and e.model.first_norm is None or not e.plan.choice.keeps_stream:
            e.load_residual(0)
        e.load_norms()

    def _start(self):
        """Weight panels of the first head that are done with when all operands have come."""
        e = self.e
        if e.number == 0:
            return emit_start(e, self._prepare_first, self._first_head)
        e.load_tables()
        if e.layer.heads and not e.plan.choice.keeps_operand and len(e.plan.x_blocks) == 1:
            self._load_all()
        return 0

    def _prepare_first(self, number, taken):
        """What the first head's weight panel of this number needs beside itself: V's row factors."""
        layout = self.e.layout
        position = number - len(layout.query[0]) - len(layout.key[0])
        if position >= 0:
            self._factors(0, position, taken, 0)

    def _first_head(self, number, taken, row):
        """The tile of a row panel and the first head's weight panel of this number."""
        rows = range(row, row + 1)
        queries, keys = len(self.e.layout.query[0]), len(self.e.layout.key[0])
        if number < queries + keys:
            self._project(0, "query" if number < queries else "key", taken, rows)
        else:
            self._value(0, number - queries - keys, taken, rows)

    def _projections(self, head, done, waiting):
        """Q and K, and Vᵀ if the operand comes in blocks; P·V of what waits in between."""
        e, layout = self.e, self.e.layout
        panels = [("query", p) for p in layout.query[head]] + [("key", p) for p in layout.key[head]]
        blocks = e.plan.x_blocks
        for number, block in enumerate(blocks):
            unit = head * len(blocks) + number
            if len(blocks) > 1:
                self._load_blocks(unit)
            for position, (buffer, _) in enumerate(panels[done:], done):
                if self._is_read_again(head, buffer, position in (0, len(layout.query[head]))):
                    self._load_all()
                self._project(head, buffer, e.weights.take(), block, unit)
                e.weights.release()
            if waiting is not None:
                self._context(*waiting)
                waiting = None
            if len(blocks) > 1:
                self._values(head, block, unit)

    def _is_read_again(self, head, buffer, is_first):
        """Whether the operand is loaded before the first weight panel of a head's Q, K or V; it is there for the first head's Q."""
        wanted = {"kept": (), "head": ("query",), "matrix": ("query", "key", "value")}
        return is_first and (head or buffer != "query") and buffer in wanted[self.e.ablations.operand]

    def _load_all(self):
        for panel in range(self.e.panels):
            self.e.load_operand(panel)

    def _load_blocks(self, unit):
        """Load the operand's block that is `unit`-th in turn, if it is the first, and the one after it."""
        e, blocks = self.e, self.e.plan.x_blocks
        for wanted in (0, 1) if unit == 0 else (unit + 1,):
            if wanted < e.layer.heads * len(blocks):
                e.load_operand_block(blocks[wanted % len(blocks)], wanted)

    def _tables(self):
        e = self.e
        if e.number == 0 and e.model.attends:
            e.add(Opcode.TABLE, "softmax.table", table=Table.EXP2, src_addr=e.plan.line("exp2"))
        if e.layer.ffn:
            e.add(Opcode.TABLE, "gelu.table", table=Table.PIECEWISE, src_addr=e.plan.line("piecewise"))

    def _project(self, head, buffer, taken, rows, unit=0):
        """Query or key words of one weight panel, for row panels `rows` of the `unit`-th block of the operand."""
        e = self.e
        panel, line = taken
        head_lines = e.layer.head_dim // 2
        first = panel.tile.first - head * e.layer.head_dim
        e.add(
            Opcode.GEMM,
            f"{buffer}.head{head}",
            work=e.work(rows, panel.tile.columns * e.layer.hidden),
            a_addr=e.x_line(rows.start, unit),
            a_stride=e.layout.x.lines,
            b_addr=line,
            k=panel.k,
            count=len(rows),
            columns=panel.tile.columns,
            params=1,
            param_addr=line + panel.records,
            c_addr=e.plan.line(buffer) + rows.start * head_lines + first // 2,
            c_stride=head_lines,
            **e.wide_operand(e.layout.x),
        )

    def _values(self, head, rows, unit=0, done=0):
        """Vᵀ of row panels `rows`: dimensions by tokens. Of the head's weight panels, `done` are done with."""
        for _ in self._value_commands(head, rows, unit, done, together=len(rows)):
            pass

    def _value_panels(self, head, done):
        """How many weight panels of the head's V are to be used yet, if `done` of all its panels are done with."""
        before = len(self.e.layout.query[head]) + len(self.e.layout.key[head])
        return len(self.e.layout.value[head]) - max(0, done - before)

    def _value_commands(self, head, rows, unit=0, done=0, *, together):
        """As `_values`, `together` row panels a command; each `next` emits one."""
        panels = len(self.e.layout.value[head])
        for position in range(panels - self._value_panels(head, done), panels):
            if self._is_read_again(head, "value", position == 0):
                self._load_all()
            taken = self.e.weights.take()
            for start in range(rows.start, rows.stop, together):
                self._value(head, position, taken, range(start, min(start + together, rows.stop)), unit)
                yield
            self.e.weights.release()

    def _factor_slot(self, head, position):
        return self.e.plan.score_slots + (head % self.e.plan.factor_sets) * self.factor_slots + position

    def _factors(self, head, position, taken, unit):
        """Row factors of a panel of dimensions into their slot, once a block of the operand."""
        if (head, position, unit) in self.with_factors:
            return
        self.with_factors.add((head, position, unit))
        panel, line = taken
        self.e.add(
            Opcode.FACTORS,
            f"value.head{head}",
            src_addr=line + panel.records,
            slot=self._factor_slot(head, position),
        )

    def _value(self, head, position, taken, rows, unit=0):
        e = self.e
        panel, line = taken
        self._factors(head, position, taken, unit)
        place = e.plan.line("value") + position * self.value_lines + rows.start * e.n // 2
        planes = {}
        if self.value_wide:
            planes = {"out_wide": 1, "residue_addr": place + self.value_plane, "residue_stride": e.n // 2}
        e.add(
            Opcode.GEMM,
            f"value.head{head}",
            work=e.work(rows, panel.tile.columns * e.layer.hidden),
            a_addr=line,
            b_addr=e.x_line(rows.start, unit),
            b_stride=e.layout.x.lines,
            k=panel.k,
            count=len(rows),
            columns=e.n,
            row_factor=1,
            slot=self._factor_slot(head, position),
            c_addr=place,
            c_stride=e.n // 2,
            **planes,
            **e.wide_operand(e.layout.x, Wide.B),
        )

    def _score_line(self, place, row):
        block = len(self.e.plan.attention_blocks[0])
        return self.e.plan.line("scores") + (place * block + row) * self.score_lines

    def _probability_line(self, place, row):
        block = len(self.e.plan.attention_blocks[0])
        return self.e.plan.line("probabilities") + (place * block + row) * self.keys // 2

    def _groups(self, block):
        """Neighbouring row panels of a block that meet the same key panels: pairs of two ranges."""
        for keys, rows in groupby(block, key=lambda panel: self.e.keys[panel]):
            rows = list(rows)
            yield range(rows[0], rows[-1] + 1), keys

    def _words(self, keys):
        """Words of P of these key panels."""
        return min(keys.stop * self.e.n, self.keys) - keys.start * self.e.n

    def _real_keys(self, keys):
        """Of these key panels, without what pads the last one."""
        return min(keys.stop * self.e.n, self.e.seq) - keys.start * self.e.n

    def _scores(self, head, block, place):
        """int16 scores and row maxima: one command a key panel, a tile a row panel."""
        for rows, keys in self._groups(block):
            for number, panel in enumerate(keys):
                self._score(head, block, place, rows, panel, number)
        if self.e.ablations.maximum == "dram":
            self._scores_through_dram(head, block, place)

    def _drain_is_short(self):
        """Whether tiles of scores come nearly as fast as their 16-bit words can be written, a line each."""
        e = self.e
        plain = e.ablations.operand == "kept" and e.ablations.maximum == "drain"
        return plain and len(e.plan.x_blocks) == 1 and e.layer.head_dim < 2 * e.n

    def _scores_among_values(self, head, block, place, done):
        """Scores a few tiles at a time, with tiles of Vᵀ in between, in whose time the words are written."""
        e = self.e
        scores = [
            (head, block, place, range(start, min(start + SCORES_TOGETHER, rows.stop)), panel, number)
            for rows, keys in self._groups(block)
            for number, panel in enumerate(keys)
            for start in range(rows.start, rows.stop, SCORES_TOGETHER)
        ]
        values = self._value_commands(head, range(e.panels), done=done, together=1)
        emitted, wanted = 0, e.panels * self._value_panels(head, done)
        for number, score in enumerate(scores, 1):
            self._score(*score)
            while emitted * len(scores) < number * wanted:
                next(values)
                emitted += 1
        for _ in values:  # gives the last weight panel back
            pass

    def _score(self, head, block, place, rows, panel, number):
        e = self.e
        head_lines = e.layer.head_dim // 2
        mask = {}
        if e.model.mask_lines:
            mask = {"params": 1, "param_addr": e.plan.line("mask") + RECORD_LINES * panel, "uniform": 1}
        maxima = {}
        if e.ablations.maximum == "drain":
            maxima = {"statistics": Statistics.MAX, "statistics_init": number == 0}
        e.add(
            Opcode.GEMM,
            f"scores.head{head}",
            work=e.work(rows, e.layer.head_dim, e.tokens(panel)),
            a_addr=e.plan.line("query") + rows.start * head_lines,
            a_stride=head_lines,
            b_addr=e.plan.line("key") + panel * head_lines,
            k=e.layer.head_dim,
            count=len(rows),
            columns=e.n,
            mult=e.layer.score_mult[head],
            shift=e.layer.score_shift[head],
            ranges=1,
            first_key=panel * e.n,
            out16=1,
            c_addr=self._score_line(place, rows.start - block.start) + number * e.n,
            c_stride=self.score_lines,
            slot=e.slot(rows.start, block, place),
            slot_step=1,
            **maxima,
            **mask,
        )

    def _scores_through_dram(self, head, block, place):
        e = self.e
        for rows, keys in self._groups(block):
            for panel in rows:
                line = self._score_line(place, panel - block.start)
                e.passes.add_round_trip(f"softmax.head{head}.maximum", line, len(keys) * e.n)

    def _maxima(self, head, block, place):
        """Row maxima of scores, where their drain doesn't find them."""
        e = self.e
        if e.ablations.maximum == "drain":
            return
        for rows, keys in self._groups(block):
            for number, panel in enumerate(keys):
                line = self._score_line(place, rows.start - block.start) + number * e.n
                mask = {}
                if e.model.mask_lines:
                    mask = {"params": 1, "param_addr": e.plan.line("mask") + RECORD_LINES * panel}
                e.add(
                    Opcode.GEMM,
                    f"softmax.head{head}.maximum",
                    **e.passes.statistics(
                        line, Statistics.MAX, first=number == 0, slot=e.slot(rows.start, block, place)
                    ),
                    residual_stride=self.score_lines,
                    c_stride=self.score_lines,
                    slot_step=1,
                    count=len(rows),
                    columns=e.n,
                    ranges=1,
                    first_key=panel * e.n,
                    **mask,
                )

    def _softmax(self, head, block, place):
        e = self.e
        for rows, keys in self._groups(block):
            hard = {}
            if 0 < e.layer.attention_keys < self._real_keys(keys):
                hard = {"kept": e.layer.attention_keys, "whole_sum": not e.layer.attention_renormalised}
            for panel in rows:
                row = panel - block.start
                e.add(
                    Opcode.SOFTMAX,
                    f"softmax.head{head}",
                    src_addr=self._score_line(place, row),
                    slot=e.slot(panel, block, place),
                    dst8_addr=self._probability_line(place, row),
                    words=self._words(keys),
                    **hard,
                )
                if e.ablations.probabilities == "dram":
                    line, lines = self._probability_line(place, row), self._words(keys) // 2
                    e.passes.add_round_trip(f"softmax.head{head}", line, lines)

    def _divide(self, head, block, place):
        """P of 8 bits without a sign becomes P divided by its sum, as 7 bits, in place."""
        e = self.e
        for rows, keys in self._groups(block):
            for panel in rows:
                line, words = self._probability_line(place, panel - block.start), self._words(keys)
                full, left = divmod(words, e.n)
                for first, count, columns in ((0, full, e.n), (full, 1, left)):
                    if count and columns:
                        e.add(
                            Opcode.GEMM,
                            f"softmax.head{head}.division",
                            a_unsigned=1,
                            a_addr=line + first * e.n // 2,
                            a_stride=e.n // 2,
                            b_addr=e.passes.identity,
                            k=columns,
                            count=count,
                            columns=columns,
                            row_factor=1,
                            slot=e.slot(panel, block, place),
                            gain=NORMALISED_BITS - (IDENTITY.bit_length() - 1),
                            c_addr=line + first * e.n // 2,
                            c_stride=e.n // 2,
                        )

    def _context(self, head, block, place):
        """P·V, divided by the sums of P in the drain: context words, their residues or their low plane."""
        e = self.e
        if e.ablations.division == "pass":
            self._divide(head, block, place)
        order = e.layout.context
        if e.plan.choice.spill:
            panel_lines = e.layout.stage_lines
            sets = self.sets * len(e.plan.attention_blocks[0]) * panel_lines
            base = e.plan.line("context") + (self.stored % STAGE_SETS) * sets
            first = head * e.layer.head_dim
            first_residue = e.layout.head_context(head)[0] - e.layer.head_dim
        else:
            panel_lines = order.lines
            base = e.plan.line("context") + block.start * panel_lines
            first = first_residue = 0
        tiles = [(number, tile) for number, tile in enumerate(order.tiles) if tile.group == head]
        planes = {"wide": Wide.B, "low_offset": self.value_plane} if self.value_wide else {}
        for rows, keys in self._groups(block):
            row = rows.start - block.start
            for position, (number, tile) in enumerate(tiles):
                low = base + row * panel_lines + (tile.residue_first - first_residue) // 2
                e.add(
                    Opcode.GEMM,
                    f"context.head{head}",
                    work=e.work(rows, tile.columns, range(keys.start * e.n, min(keys.stop * e.n, e.seq))),
                    a_addr=self._probability_line(place, row),
                    a_stride=self.keys // 2,
                    b_addr=e.plan.line("value") + position * self.value_lines + keys.start * e.n // 2,
                    k=self._words(keys),
                    count=len(rows),
                    columns=tile.columns,
                    **self._scaled(head, e.slot(rows.start, block, place)),
                    c_addr=base + row * panel_lines + (tile.first - first) // 2,
                    c_stride=panel_lines,
                    **planes,
                    **self._narrowing(order, number, tile, low, panel_lines, len(rows)),
                )
        if e.plan.choice.spill:
            self._spill(head, block, base, panel_lines)

    def _scaled(self, head, slot):
        """Fields that say what P is, and how P·V becomes context."""
        gain = int(self.e.layer.context_gain[head])
        if self.e.ablations.division == "drain":
            return {"a_unsigned": 1, "row_factor": 1, "slot": slot, "slot_step": 1, "gain": gain}
        shift = NORMALISED_BITS - gain
        return {"mult": 1 << max(0, -shift), "shift": max(0, shift), "uniform": 1}

    def _narrowing(self, order, number, tile, low, panel_lines, rows):
        """Fields that say what of a context word is written beside its int8 value."""
        fields = self.e.written_beside(order, tile, low, panel_lines, rows)
        if fields.get("residue"):
            line = self.e.plan.line("context_records") + self.e.layout.context_record[number]
            fields |= {"params": 1, "param_addr": line}
        return fields

    def _spill(self, head, block, base, panel_lines):
        """A head's context to its place in the context panels in DRAM."""
        e = self.e
        line_bytes, head_lines = e.config.line_bytes, e.layer.head_dim // 2
        first_residue, lines = e.layout.head_context(head)
        stride = e.layout.context.lines * line_bytes
        target = e.scratch["context"] + block.start * stride
        strides = {"rows": len(block), "dram_stride": stride, "scratchpad_stride": panel_lines}
        name = f"context.head{head}"
        e.store(name, target + head * head_lines * line_bytes, base, head_lines, **strides)
        if lines > head_lines:
            address = target + first_residue // 2 * line_bytes
            e.store(name, address, base + head_lines, lines - head_lines, **strides)
        self.stored += 1
