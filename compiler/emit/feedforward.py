"""Output projection, FFN, and both LayerNorms, block of row panels by block.

Every linear layer has its weight panels outside and its row panels inside, one command a weight panel. The
last weight panel's tiles complete one row panel each, whose LayerNorm runs under the tiles that follow. Where
a LayerNorm takes longer than such a tile, the last few weight panels are used together, row panel by row panel,
so that row panels aren't completed faster than the vector engine follows.
"""

from bertha.compiler.emit.estimate import vector_cycles
from bertha.rtl.isa import Opcode, Statistics

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

        def tiles(first, taken, row, count):
            panel, line = taken
            place = self.residual + row * e.layer.hidden + panel.tile.first
            start = self.block.start + row
            e.add(
                Opcode.GEMM,
                operation,
                work=e.work(range(start, start + count), panel.tile.columns * features),
                a_addr=operand + row * order.lines,
                a_stride=order.lines,
                b_addr=line,
                k=panel.k,
                count=count,
                columns=panel.tile.columns,
                params=1,
                param_addr=line + panel.records,
                out16=1,
                residual=1,
                residual_addr=place,
                residual_stride=e.layer.hidden,
                c_addr=place,
                c_stride=e.layer.hidden,
                statistics=Statistics.MOMENTS,
                statistics_init=first,
                slot=row,
                slot_step=1,
                **e.wide_operand(order),
            )

        together = self._together(panels, 2 if order.wide else 1)
        alone = len(panels) - together
        for number in range(alone):
            tiles(number == 0, e.weights.take(), 0, rows)
            e.weights.release()
        if together == 1:
            tiles(alone == 0, e.weights.take(), 0, rows)
            for row in range(rows):
                norm(row)
        else:
            held = [e.weights.take() for _ in range(together)]
            for row in range(rows):
                for number, taken in enumerate(held):
                    tiles(alone + number == 0, taken, row, 1)
                norm(row)
        for _ in range(together):
            e.weights.release()

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
        e = self.e
        order = e.layout.hidden
        middle_lines, hidden_lines = e.layout.middle.lines, order.lines
        hidden = e.plan.line("hidden")
        for _ in e.layout.intermediate:
            panel, line = e.weights.take()
            tile = panel.tile
            own = ((tile.features >= 0) & (tile.features < self._own_neurons())).sum()
            low = hidden + tile.residue_first // 2
            e.add(
                Opcode.GEMM,
                "intermediate",
                work=e.work(self.block, own * e.layer.hidden),
                a_addr=e.plan.line("middle"),
                a_stride=middle_lines,
                b_addr=line,
                k=panel.k,
                count=len(self.block),
                columns=tile.columns,
                params=1,
                param_addr=line + panel.records,
                piecewise=1,
                c_addr=hidden + tile.first // 2,
                c_stride=hidden_lines,
                **e.written_beside(order, tile, low, hidden_lines, len(self.block)),
                **e.wide_operand(e.layout.middle),
            )
            e.weights.release()

    def _attention_norm(self, row):
        """In place for the residual stream; the operand of the FFN."""
        e = self.e
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
        order = e.model.layers[e.number + 1].x
        if choice.keeps_operand:
            target = e.plan.line("x8") + panel * order.lines
        else:
            target = e.plan.line("middle") + row * order.lines
        self._norm("output_norm", e.layer.output_norm, row, target, order)
        if not choice.keeps_operand:
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
