"""Attention: projections, scores, softmax and P·V, head by head.

Order of a head: Q, K, then P·V of the head before, scores, Vᵀ, softmax. So softmax runs under Vᵀ and the next
head's projections, and nothing waits for what was just issued. Vᵀ has the operands swapped: its rows are
dimensions, which is why its scales are row factors. When the scores of all row panels don't fit, they come in
blocks with two sets of buffers.
"""

from bertha.compiler.emit.start import emit_start
from bertha.compiler.layout.panels import even
from bertha.compiler.plan.buffers import STAGE_SETS
from bertha.rtl.isa import Opcode, Statistics, Table

__all__ = ["emit_attention"]


def emit_attention(emitter) -> None:
    """All heads: from the int8 layer input to the int8 context panels."""
    _Attention(emitter).run()


class _Attention:
    def __init__(self, emitter):
        self.e = emitter
        self.keys = even(emitter.seq)
        self.score_lines = emitter.panels * emitter.n  # of one row panel
        self.value_lines = emitter.panels * emitter.n // 2  # of one panel of dimensions
        self.slots = emitter.plan.score_sets * len(emitter.plan.attention_blocks[0])
        self.factor_slots = max(len(head) for head in emitter.layout.value)
        self.unit = 0  # counts (head, block) pairs
        self.stored = 0  # of them, those whose context went to DRAM

    def run(self):
        e, layout = self.e, self.e.layout
        loads_left = self._side_loads()
        done = emit_start(e, lambda place, taken, row, count: self._first_head(place, taken, row, count))
        waiting = None
        blocks = e.plan.attention_blocks
        for head in range(e.layer.heads):
            panels = [("query", p) for p in layout.query[head]] + [("key", p) for p in layout.key[head]]
            for buffer, _ in panels[done:]:
                self._project(head, buffer, e.weights.take(), 0, e.panels)
                e.weights.release()
            done = 0
            if waiting is not None:
                self._context(*waiting)
            for block in blocks:
                place = self.unit % e.plan.score_sets
                self.unit += 1
                self._scores(head, block, place)
                if block is blocks[0]:
                    self._values(head)
                else:
                    self._context(*waiting)
                if head == 0 and block is blocks[0]:
                    e.add(Opcode.TABLE, "softmax.table", table=Table.EXP2, src_addr=e.plan.line("exp2"))
                    e.add(
                        Opcode.TABLE, "gelu.table", table=Table.PIECEWISE, src_addr=e.plan.line("piecewise")
                    )
                self._softmax(head, block, place)
                waiting = (head, block, place)
            share = -(-len(loads_left) // (e.layer.heads - head))
            for load in loads_left[:share] if head else []:
                load()
            loads_left = loads_left[share:] if head else loads_left
        for load in loads_left:
            load()
        self._context(*waiting)

    def _side_loads(self):
        """Loads that nothing in attention waits for; spread over the heads."""
        e = self.e
        if not e.plan.early_residual:
            return []
        before = len(e.commands)
        e.load_residual(0)
        e.load_norms()
        commands = e.commands[before:]
        del e.commands[before:]
        return [lambda command=command: e.commands.append(command) for command in commands]

    def _first_head(self, place, taken, row, count):
        queries = len(self.e.layout.query[0])
        self._project(0, "query" if place < queries else "key", taken, row, count)

    def _project(self, head, buffer, taken, row, count):
        """Query or key words of one weight panel, for `count` row panels from `row` on."""
        e = self.e
        panel, line = taken
        x_lines, head_lines = e.layout.x.k // 2, e.layer.head_dim // 2
        first = panel.tile.first - head * e.layer.head_dim
        e.add(
            Opcode.GEMM,
            f"{buffer}.head{head}",
            work=e.work(range(row, row + count), panel.tile.columns * e.layer.hidden),
            a_addr=e.plan.line("x8") + row * x_lines,
            a_stride=x_lines,
            b_addr=line,
            k=panel.k,
            count=count,
            columns=panel.tile.columns,
            params=1,
            param_addr=line + panel.records,
            c_addr=e.plan.line(buffer) + row * head_lines + first // 2,
            c_stride=head_lines,
        )

    def _values(self, head):
        """Vᵀ: dimensions by tokens."""
        e = self.e
        x_lines = e.layout.x.k // 2
        base = self.slots + (head % e.plan.factor_sets) * self.factor_slots
        for number, _ in enumerate(e.layout.value[head]):
            panel, line = e.weights.take()
            e.add(Opcode.FACTORS, f"value.head{head}", src_addr=line + panel.records, slot=base + number)
            e.add(
                Opcode.GEMM,
                f"value.head{head}",
                work=e.work(range(e.panels), panel.tile.columns * e.layer.hidden),
                a_addr=line,
                b_addr=e.plan.line("x8"),
                b_stride=x_lines,
                k=panel.k,
                count=e.panels,
                columns=e.n,
                row_factor=1,
                slot=base + number,
                c_addr=e.plan.line("value") + number * self.value_lines,
                c_stride=e.n // 2,
            )
            e.weights.release()

    def _score_line(self, place):
        block = len(self.e.plan.attention_blocks[0])
        return self.e.plan.line("scores") + place * block * self.score_lines

    def _probability_line(self, place):
        block = len(self.e.plan.attention_blocks[0])
        return self.e.plan.line("probabilities") + place * block * self.keys // 2

    def _slot(self, place):
        return place * len(self.e.plan.attention_blocks[0])

    def _scores(self, head, block, place):
        """int16 scores and row maxima: one command a key panel, a tile a row panel."""
        e = self.e
        head_lines = e.layer.head_dim // 2
        for keys in range(e.panels):
            e.add(
                Opcode.GEMM,
                f"scores.head{head}",
                work=e.work(block, e.layer.head_dim, e.tokens(keys)),
                a_addr=e.plan.line("query") + block.start * head_lines,
                a_stride=head_lines,
                b_addr=e.plan.line("key") + keys * head_lines,
                k=e.layer.head_dim,
                count=len(block),
                columns=e.n,
                params=1,
                param_addr=e.plan.line("mask") + 4 * keys,
                uniform=1,
                mult=e.layer.score_mult[head],
                shift=e.layer.score_shift[head],
                out16=1,
                c_addr=self._score_line(place) + keys * e.n,
                c_stride=self.score_lines,
                statistics=Statistics.MAX,
                statistics_init=keys == 0,
                slot=self._slot(place),
                slot_step=1,
            )

    def _softmax(self, head, block, place):
        e = self.e
        for number in range(len(block)):
            e.add(
                Opcode.SOFTMAX,
                f"softmax.head{head}",
                src_addr=self._score_line(place) + number * self.score_lines,
                slot=self._slot(place) + number,
                dst8_addr=self._probability_line(place) + number * self.keys // 2,
                words=self.keys,
            )

    def _context(self, head, block, place):
        """P·V, divided by the sums of P in the drain: int8 context words and their residues."""
        e = self.e
        order = e.layout.context
        if e.plan.spill:
            panel_lines = e.layout.stage_lines
            sets = e.plan.score_sets * len(e.plan.attention_blocks[0]) * panel_lines
            base = e.plan.line("context") + (self.stored % STAGE_SETS) * sets
            first = head * e.layer.head_dim
            first_residue = e.layout.head_context(head)[0] - e.layer.head_dim
        else:
            panel_lines = order.k // 2
            base = e.plan.line("context") + block.start * panel_lines
            first = first_residue = 0
        tiles = [(number, tile) for number, tile in enumerate(order.tiles) if tile.group == head]
        for place_in_head, (number, tile) in enumerate(tiles):
            residue = {}
            if tile.residues:
                residue = {
                    "params": 1,
                    "param_addr": e.plan.line("context_records") + e.layout.context_record[number],
                    "residue": 1,
                    "residue_addr": base + (tile.residue_first - first_residue) // 2,
                    "residue_stride": panel_lines,
                    "residue_words": (tile.residues,) * len(block),
                }
            e.add(
                Opcode.GEMM,
                f"context.head{head}",
                work=e.work(block, tile.columns, range(e.seq)),
                a_addr=self._probability_line(place),
                a_stride=self.keys // 2,
                a_unsigned=1,
                b_addr=e.plan.line("value") + place_in_head * self.value_lines,
                k=self.keys,
                count=len(block),
                columns=tile.columns,
                row_factor=1,
                slot=self._slot(place),
                slot_step=1,
                gain=e.layer.context_gain[head],
                c_addr=base + (tile.first - first) // 2,
                c_stride=panel_lines,
                **residue,
            )
        if e.plan.spill:
            self._spill(head, block, base, panel_lines)

    def _spill(self, head, block, base, panel_lines):
        """A head's context to its place in the context panels in DRAM."""
        e = self.e
        line_bytes, head_lines = e.config.line_bytes, e.layer.head_dim // 2
        first_residue, lines = e.layout.head_context(head)
        stride = e.layout.context.k // 2 * line_bytes
        target = e.context_address + block.start * stride
        strides = {"rows": len(block), "dram_stride": stride, "scratchpad_stride": panel_lines}
        name = f"context.head{head}"
        e.store(name, target + head * head_lines * line_bytes, base, head_lines, **strides)
        if lines > head_lines:
            address = target + first_residue // 2 * line_bytes
            e.store(name, address, base + head_lines, lines - head_lines, **strides)
        self.stored += 1
