"""Output projection, FFN, and both LayerNorms, block of row panels by block.

Every linear layer has its weight panels outside and its row panels inside, one command a weight panel. The
last weight panel's tiles complete one row panel each, whose LayerNorm runs under the tiles that follow. Where
a LayerNorm takes longer than such a tile, the last few weight panels are used together, row panel by row panel,
so that row panels aren't completed faster than the vector engine follows.

Where a pass of its own stands for what the drain does (`bertha.compiler.ablations`), it comes a GEMM command later than what
it takes, or two where that goes through DRAM.
"""

import itertools

from bertha.compiler.emit.estimate import vector_cycles
from bertha.compiler.emit.lag import Lag
from bertha.compiler.emit.passes import add_moments
from bertha.compiler.hazards.accesses import RECORD_LINES, norm_lines
from bertha.compiler.layout.image import REQUANTISE_SHIFT
from bertha.compiler.plan.buffers import HIDDEN_TILES, PASS_SETS
from bertha.rtl.isa import Opcode, Statistics

_LAG = {"drain": 0, "pass": 1, "dram": 2}  # GEMM commands between what a pass takes and the pass

__all__ = ["emit_feedforward"]


def emit_feedforward(emitter) -> None:
    """From the context panels to the layer's output: the next layer's operand and int16 stream, or DRAM."""
    plan = emitter.plan
    if plan.choice.late_residual:
        emitter.load_residual(0)
        emitter.load_norms()
    if plan.choice.spill:
        emitter.load_context(0)
    for number in range(len(plan.blocks)):
        _Block(emitter, number).run()


class _Block:
    def __init__(self, emitter, number):
        self.e, self.number = emitter, number
        self.block = emitter.plan.blocks[number]
        self.residual = emitter.residual_line(number)
        self.lag = Lag()
        self.turns = (
            itertools.count()
        )  # of what is on its way to a pass: it takes its copies of a buffer in turn

    def run(self):
        e, layout = self.e, self.e.layout
        context_lines = layout.context.lines
        if e.plan.choice.spill:
            context = e.plan.line("context_block")
        else:
            context = e.plan.line("context") + self.block.start * context_lines
        width = e.layer.heads * e.layer.head_dim
        self._accumulate("output", layout.output, context, layout.context, width, self._attention_norm)
        following = self.number + 1 < len(e.plan.blocks)
        if following and e.plan.choice.residual_sets > 1:
            e.load_residual(self.number + 1)
        if following and e.plan.choice.spill:
            e.load_context(self.number + 1)
        self._intermediate()
        hidden = e.plan.line("hidden")
        self._accumulate("down", layout.down, hidden, layout.hidden, self._own_neurons(), self._output_norm)
        if following and e.plan.choice.residual_sets == 1:
            e.load_residual(self.number + 1)

    def _accumulate(self, operation, panels, operand, order, features, norm):
        """A linear layer added to the int16 panels in place, with their moments; then `norm` of each panel."""
        e, rows = self.e, len(self.block)
        if not panels:  # no heads, or no neurons: the norm of the bare residual
            for row in range(rows):
                line = self.residual + row * e.layer.hidden
                add_moments(e, operation, e.plan.line("zeros"), line, e.layer.hidden, slot=row)
                norm(row)
            return

        def tiles(first, taken, row, count):
            panel, line = taken
            place = self.residual + row * e.layer.hidden + panel.tile.first
            start = self.block.start + row
            product = {
                "work": e.work(range(start, start + count), panel.tile.columns * features),
                "a_addr": operand + row * order.lines,
                "a_stride": order.lines,
                "b_addr": line,
                "k": panel.k,
                "params": 1,
                "param_addr": line + panel.records,
                **e.wide_operand(order),
            }
            added = {
                "out16": 1,
                "residual": 1,
                "residual_addr": place,
                "residual_stride": e.layer.hidden,
                "c_addr": place,
                "c_stride": e.layer.hidden,
            }
            if e.ablations.moments == "drain":
                added |= {
                    "statistics": Statistics.MOMENTS,
                    "statistics_init": first,
                    "slot": row,
                    "slot_step": 1,
                }
            if e.ablations.residual == "drain":
                e.add(Opcode.GEMM, operation, count=count, columns=panel.tile.columns, **product, **added)
                self.lag.step()
            else:
                where = e.ablations.residual, "sums", f"{operation}.residual"
                self._in_two_passes(operation, where, panel.tile.columns, count, product, added)

        together = self._together(panels, 2 if order.wide else 1)
        alone = len(panels) - together
        for number in range(alone):
            tiles(number == 0, e.weights.take(), 0, rows)
            e.weights.release()
        in_drain = e.ablations.residual == e.ablations.moments == "drain"
        if together == 1 and in_drain:
            tiles(alone == 0, e.weights.take(), 0, rows)
            for row in range(rows):
                self._put_off_norm(norm, row)
        else:
            held = [e.weights.take() for _ in range(together)]
            for row in range(rows):
                for number, taken in enumerate(held):
                    tiles(alone + number == 0, taken, row, 1)
                self._put_off_norm(norm, row)
        self.lag.flush()  # before the next weights' loads, which may keep the dispatcher waiting
        for _ in range(together):
            e.weights.release()

    def _in_two_passes(self, operation, where, columns, count, product, fields):
        """A GEMM whose int16 results go as planes to a buffer, maybe to DRAM and back, and then through the epilogue's `fields`.

        `where`: the ablation's value, the buffer, and the name of the pass.
        """
        e = self.e
        mode, buffer, name = where
        size = len(self.block) * e.n
        place = e.plan.line(buffer) + next(self.turns) % PASS_SETS[mode] * size
        e.add(
            Opcode.GEMM, operation, count=count, columns=columns, **product, **e.passes.planes(place, columns)
        )
        self.lag.step()
        if mode == "dram":
            self._put_off_round_trip(name, place, count * columns)
        self.lag.after(_LAG[mode], lambda: e.passes.add_element_wise(name, place, columns, count, **fields))

    def _put_off_round_trip(self, name, line, lines, start=0):
        """Lines to DRAM `start` GEMM commands later, and back one after that."""
        store, load = self.e.passes.round_trip(name, line, lines)
        self.lag.after(start, store)
        self.lag.after(start + 1, load)

    def _put_off_norm(self, norm, row):
        """`norm` of a row panel, when it is complete and its moments are there."""
        e = self.e
        complete, moments = _LAG[e.ablations.residual], e.ablations.moments
        line, lines = self.residual + row * e.layer.hidden, e.layer.hidden
        name = f"{norm.__name__.strip('_')}.moments"
        if moments == "dram":
            self._put_off_round_trip(name, line, lines, complete)

        def emit():
            if moments != "drain":
                e.passes.add_moments(name, line, lines, row)
            norm(row)

        self.lag.after(complete + _LAG[moments], emit)

    def _together(self, panels, passes):
        """Last weight panels to use together: their tiles of one row panel take as long as its LayerNorm."""
        e = self.e
        if len(self.block) == 1:
            return 1
        wanted = -(-vector_cycles(Opcode.LAYERNORM, e.layer.hidden) // (passes * max(panels[0].k, e.n)))
        room = e.plan.buffers["ring"][1] // panels[0].lines - 1  # one panel of what follows
        return max(1, min(wanted, room, len(panels)))

    def _own_neurons(self):
        """The model's own: copies are no work of its."""
        return self.e.layer.ffn - self.e.layer.ffn_copies

    def _intermediate(self):
        """Hidden values of all row panels of the block."""
        e, rows = self.e, len(self.block)
        for number in range(len(e.layout.intermediate)):
            panel, line = e.weights.take()
            tile = panel.tile
            own = ((tile.features >= 0) & (tile.features < self._own_neurons())).sum()
            product = {
                "work": e.work(self.block, own * e.layer.hidden),
                "a_addr": e.plan.line("middle"),
                "a_stride": e.layout.middle.lines,
                "b_addr": line,
                "k": panel.k,
                "params": 1,
                "param_addr": line + panel.records,
                **e.wide_operand(e.layout.middle),
            }
            activated = {"piecewise": 1, **self._written_hidden(number, tile)}
            if e.ablations.gelu == "drain":
                e.add(Opcode.GEMM, "intermediate", count=rows, columns=tile.columns, **product, **activated)
                self.lag.step()
            else:
                where = e.ablations.gelu, "preactivation", "intermediate.gelu"
                records = e.plan.line("gelu_records") + number * RECORD_LINES
                activated |= {"params": 1, "param_addr": records}
                self._in_two_passes("intermediate", where, tile.columns, rows, product, activated)
            e.weights.release()
            self._requantise_behind(number)
        self.lag.flush()

    def _written_hidden(self, number, tile):
        """Fields of the GEMM that writes the hidden words of this tile, in all row panels of the block."""
        e, order = self.e, self.e.layout.hidden
        if e.ablations.requantisation != "drain":
            first, words, place = self._hidden16(number)
            return {"out16": 1, "c_addr": place + tile.first - first, "c_stride": words}
        hidden = e.plan.line("hidden")
        low = hidden + tile.residue_first // 2
        return {
            "c_addr": hidden + tile.first // 2,
            "c_stride": order.lines,
            **e.written_beside(order, tile, low, order.lines, len(self.block)),
        }

    def _group(self, number):
        """Tiles that are requantised together with this one."""
        start = number // HIDDEN_TILES * HIDDEN_TILES
        return self.e.layout.hidden.tiles[start : start + HIDDEN_TILES]

    def _hidden16(self, number):
        """Of a tile's group: its first word, its words, and the first line of the copy that has them in 16 bits."""
        group = self._group(number)
        turn = number // HIDDEN_TILES % PASS_SETS[self.e.ablations.requantisation]
        size = len(self.block) * HIDDEN_TILES * self.e.n
        words = group[-1].first + group[-1].columns - group[0].first
        return group[0].first, words, self.e.plan.line("hidden16") + turn * size

    def _requantise_behind(self, number):
        """Behind the last tile of a group: passes that make the hidden operand of its int16 words."""
        e, where = self.e, self.e.ablations.requantisation
        last = number + 1 == len(e.layout.hidden.tiles)
        if where == "drain" or (number + 1) % HIDDEN_TILES and not last:
            return
        _, words, place = self._hidden16(number)
        there = _LAG[e.ablations.gelu]
        if where == "dram":
            self._put_off_round_trip("intermediate.requantise", place, len(self.block) * words, there)

        def emit():
            for row in range(len(self.block)):
                self._requantise(number, row)

        self.lag.after(there + (_LAG[where] if where == "dram" else 0), emit)

    def _requantise(self, number, row):
        """A row panel's words of a tile's group: int8 and residues, or planes."""
        e, order = self.e, self.e.layout.hidden
        first, words, place = self._hidden16(number)
        group, hidden = self._group(number), e.plan.line("hidden") + row * order.lines
        flagged = [tile.first - first + word for tile in group for word in range(tile.residues)]
        e.add(
            Opcode.QUANTIZE,
            "intermediate.requantise",
            src_addr=place + row * words,
            dst8_addr=hidden + first // 2,
            words=words,
            mult_shift=REQUANTISE_SHIFT,
            param_addr=e.plan.line("hidden_records") + norm_lines(first, e.config),
            wide=order.wide,
            residue=bool(flagged),
            residue_addr=hidden + group[0].residue_first // 2 if order.wide or flagged else 0,
            residue_words=(len(flagged),),
            flagged=flagged,
        )

    def _attention_norm(self, row):
        """In place for the residual stream; the operand of the FFN."""
        e = self.e
        if not e.layer.ffn:
            self._norm("attention_norm", e.layer.attention_norm, row)
            return
        target = e.plan.line("middle") + row * e.layout.middle.lines
        self._norm("attention_norm", e.layer.attention_norm, row, target, e.layout.middle)

    def _output_norm(self, row):
        """In place for the residual stream, and the operand of the next layer; to DRAM what doesn't stay."""
        e, choice = self.e, self.e.plan.choice
        lines, panel = e.layer.hidden, self.block.start + row
        source = self.residual + row * lines
        if e.is_last:
            self._norm("output_norm", e.layer.output_norm, row)
            address = e.model.output16.address + panel * lines * e.config.line_bytes
            e.store(f"output.panel{panel}", address, source, lines)
            return
        following = e.model.layers[e.number + 1]
        order, wanted = following.x, following.layer.heads > 0
        if not wanted:
            target = None
        elif choice.keeps_operand:
            target = e.plan.line("x8") + panel * order.lines
        else:
            target = e.plan.line("middle") + row * order.lines
        self._norm("output_norm", e.layer.output_norm, row, target, order)
        if wanted and not choice.keeps_operand:
            address = e.scratch["x8"] + panel * order.lines * e.config.line_bytes
            e.store(f"x8.panel{panel}", address, target, order.lines)
        if not choice.keeps_stream:
            address = e.scratch["x16"] + panel * lines * e.config.line_bytes
            e.store(f"output.panel{panel}", address, source, lines)

    def _norm(self, name, norm, row, target=None, order=None):
        """LayerNorm of an int16 panel in place; with `target`, also the operand of this order."""
        e = self.e
        source = self.residual + row * e.layer.hidden
        operand = {}
        if target is not None:
            operand = {"write8": 1, **e.operand_of_norm(norm, order, target)}
        e.add(
            Opcode.LAYERNORM,
            name,
            write16=1,
            src_addr=source,
            slot=row,
            dst16_addr=source,
            words=e.layer.hidden,
            gamma_shift=norm.gamma_shift,
            param_addr=e.plan.line(name),
            epsilon=norm.epsilon,
            **operand,
        )
