"""Output projection, FFN, and both LayerNorms, block of row panels by block.

Every linear layer has its weight panels outside and its row panels inside, one command a weight panel. The
last weight panel's tiles complete one row panel each, whose LayerNorm runs under the tiles that follow. Where
a LayerNorm takes longer than such a tile, the last few weight panels are used together, row panel by row panel,
so that row panels aren't completed faster than the vector engine follows.
"""

from bertha.compiler.predict import vector_cycles
from bertha.rtl.isa import Opcode, Statistics

__all__ = ["emit_feedforward"]


def emit_feedforward(emitter) -> None:
    """From the int8 context panels to the int16 layer output in DRAM."""
    plan = emitter.plan
    if not plan.early_residual:
        emitter.load_residual(0)
        emitter.load_norms()
    if plan.spill:
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
        context_lines = layout.context.k // 2
        if e.plan.spill:
            context = e.plan.line("context_block")
        else:
            context = e.plan.line("context") + self.block.start * context_lines
        self._accumulate(
            "output", layout.output, context, context_lines, e.layer.hidden, self._attention_norm
        )
        following = self.number + 1 < len(e.plan.blocks)
        if following and e.plan.residual_sets > 1:
            e.load_residual(self.number + 1)
        if following and e.plan.spill:
            e.load_context(self.number + 1)
        self._intermediate()
        hidden = e.plan.line("hidden")
        self._accumulate("down", layout.down, hidden, layout.hidden.k // 2, e.layer.ffn, self._output_norm)
        if following and e.plan.residual_sets == 1:
            e.load_residual(self.number + 1)

    def _accumulate(self, operation, panels, operand, operand_lines, features, norm):
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
                a_addr=operand + row * operand_lines,
                a_stride=operand_lines,
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
            )

        together = self._together(panels)
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

    def _together(self, panels):
        """Last weight panels to use together: their tiles of one row panel take as long as its LayerNorm."""
        e = self.e
        if len(self.block) == 1:
            return 1
        wanted = -(-vector_cycles(Opcode.LAYERNORM, e.layer.hidden) // max(panels[0].k, e.n))
        room = e.plan.buffers["ring"][1] // panels[0].lines - 1  # one panel of what follows
        return max(1, min(wanted, room, len(panels)))

    def _intermediate(self):
        e = self.e
        order = e.layout.hidden
        middle_lines, hidden_lines = e.layout.middle.k // 2, order.k // 2
        hidden = e.plan.line("hidden")
        for _ in e.layout.intermediate:
            panel, line = e.weights.take()
            tile = panel.tile
            residue = {}
            if tile.residues:
                residue = {
                    "residue": 1,
                    "residue_addr": hidden + tile.residue_first // 2,
                    "residue_stride": hidden_lines,
                    "residue_words": (tile.residues,) * len(self.block),
                }
            e.add(
                Opcode.GEMM,
                "intermediate",
                work=e.work(self.block, (tile.features >= 0).sum() * e.layer.hidden),
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
                **residue,
            )
            e.weights.release()

    def _attention_norm(self, row):
        """In place for the residual stream; int8 and residues for the FFN."""
        e, norm = self.e, self.e.layer.attention_norm
        order = e.layout.middle
        residues = int(norm.residue.sum())
        source = self.residual + row * e.layer.hidden
        target = e.plan.line("middle") + row * order.k // 2
        e.add(
            Opcode.LAYERNORM,
            "attention_norm",
            residue_words=(residues,),
            write16=1,
            write8=1,
            residue=residues > 0,
            src_addr=source,
            slot=row,
            dst16_addr=source,
            dst8_addr=target,
            residue_addr=target + order.words // 2 if residues else 0,
            words=e.layer.hidden,
            gamma_shift=norm.gamma_shift,
            mult_shift=norm.mult_shift,
            param_addr=e.plan.line("attention_norm"),
            epsilon=norm.epsilon,
        )

    def _output_norm(self, row):
        """In place, then to DRAM."""
        e, norm = self.e, self.e.layer.output_norm
        lines = e.layer.hidden
        panel = self.block.start + row
        source = self.residual + row * lines
        e.add(
            Opcode.LAYERNORM,
            "output_norm",
            write16=1,
            src_addr=source,
            slot=row,
            dst16_addr=source,
            words=lines,
            gamma_shift=norm.gamma_shift,
            param_addr=e.plan.line("output_norm"),
            epsilon=norm.epsilon,
        )
        e.store(
            f"output.panel{panel}",
            e.layout.output16.address + panel * lines * e.config.line_bytes,
            source,
            lines,
        )
