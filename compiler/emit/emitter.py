"""What the emitters of the operations share: the growing command list and where things are."""

from collections import deque

import numpy as np

from bertha.compiler.emit.fuse import fuse_gemm
from bertha.compiler.emit.passes import Passes
from bertha.compiler.emit.weights import WeightStream
from bertha.compiler.hazards.accesses import RANGE_LINES
from bertha.compiler.layout.model import Source
from bertha.compiler.program import Command, Work
from bertha.rtl.isa import Opcode, Wide

__all__ = ["Emitter"]


class Emitter:
    """Collects the commands of a program, without semaphores.

    Parameters
    ----------
    config : Config
    layout : ModelLayout
    plan : Plan
    names : list of str
        First part of the operations' names, by layer.
    keys : list of range
        Key panels that each row panel meets.
    scratch : dict of str to (int, int)
        First byte of DRAM, and bytes, of "context", "x8" and "x16", where the plan has them there, and of "passes", where
        values go through DRAM.
    ablations : Ablations

    Attributes
    ----------
    number : int
        The layer whose commands are written.
    layout, layer : LayerLayout, QuantizedLayer
        Of that layer.
    """

    def __init__(self, config, layout, plan, names, *, keys, scratch, ablations):
        self.config, self.model, self.plan = config, layout, plan
        self.seq, self.panels = layout.seq, layout.panels
        self.n = config.array_n
        self.keys, self.ablations = keys, ablations
        self.scratch = {use: address for use, (address, _) in scratch.items()}
        self.scratch_bytes = {use: size for use, (_, size) in scratch.items()}
        self.commands = []
        self.later = deque()  # loads that nothing waits for soon, as functions
        self._names = names
        first, lines = plan.buffers["ring"]
        self.weights = WeightStream(
            self._weight_order(),
            first=first,
            lines=lines,
            load=self._load_weights,
            together=plan.choice.together_lines,
        )
        self.passes = Passes(self)
        self.begin(0)

    def begin(self, number) -> None:
        """What follows belongs to layer `number`."""
        self.number = number
        self.layout = self.model.layers[number]
        self.layer = self.layout.layer
        self._name = self._names[number]

    @property
    def is_last(self) -> bool:
        """Whether no layer follows."""
        return self.number + 1 == len(self.model.layers)

    def _weight_order(self):
        order = []
        for layout in self.model.layers:
            for head in range(layout.layer.heads):
                for _ in self.plan.x_blocks:
                    order += [*layout.query[head], *layout.key[head], *layout.value[head]]
            for _ in self.plan.blocks:
                order += [*layout.output, *layout.intermediate, *layout.down]
        return order

    def add(self, opcode, operation, *, work=(), residue_words=(), flagged=(), **fields) -> None:
        """Add a command of the operation."""
        command = Command(
            opcode=opcode,
            fields={name: int(value) for name, value in fields.items()},
            name=f"{self._name}.{operation}",
            work=tuple(work),
            residue_words=tuple(residue_words),
            flagged=tuple(flagged),
        )
        fusing = self.plan.choice.together_lines and self.commands
        if not (fusing and fuse_gemm(self.commands[-1], command)):
            self.commands.append(command)

    def load(self, operation, address, line, lines) -> None:
        """Load `lines` consecutive lines from DRAM byte `address`."""
        self.add(Opcode.LOAD, operation, dram_addr=address, scratchpad_addr=line, lines=lines, rows=1)
        self.commands[-1].dram_bytes = lines * self.config.line_bytes

    def load_region(self, operation, region, buffer) -> None:
        """Load a region into its buffer."""
        self.load(operation, region.address, self.plan.line(buffer), region.lines)

    def store(self, operation, address, line, lines, *, rows=1, dram_stride=0, scratchpad_stride=0) -> None:
        """Store `rows` rows of `lines` consecutive lines from DRAM byte `address` on."""
        self.add(
            Opcode.STORE,
            operation,
            dram_addr=address,
            scratchpad_addr=line,
            lines=lines,
            rows=rows,
            dram_stride=dram_stride,
            scratchpad_stride=scratchpad_stride,
        )
        self.commands[-1].dram_bytes = rows * lines * self.config.line_bytes

    def later_loads(self, emit) -> None:
        """Keep what `emit` adds for `emit_later`, command by command."""
        before = len(self.commands)
        emit()
        commands = self.commands[before:]
        del self.commands[before:]
        self.later.extend(commands)

    def emit_later(self, count=None) -> None:
        """Add the next `count` commands that were kept, or all."""
        for _ in range(len(self.later) if count is None else min(count, len(self.later))):
            self.commands.append(self.later.popleft())

    def tokens(self, panel) -> range:
        """Tokens of a row panel, as a range."""
        return range(panel * self.n, min((panel + 1) * self.n, self.seq))

    def work(self, panels, each, keys=None) -> list[Work]:
        """`Work` of tiles that have a row panel each, from `panels`."""
        return [Work(int(each), self.tokens(panel), keys) for panel in panels]

    def wide_operand(self, order, which=Wide.A) -> dict:
        """Fields of a GEMM that reads an operand of this order as A or B."""
        return {"wide": which, "low_offset": order.extra_lines} if order.wide else {}

    def written_beside(self, order, tile, line, stride, tiles) -> dict:
        """Fields of a GEMM that writes residues, or a low plane, beside a tile of an operand of this order.

        They begin at `line` and are `stride` lines apart in the command's `tiles` tiles.
        """
        if not (order.wide or tile.residues):
            return {}
        place = {"residue_addr": line, "residue_stride": stride}
        if order.wide:
            return {"out_wide": 1, **place}
        return {"residue": 1, "residue_words": (tile.residues,) * tiles, **place}

    @staticmethod
    def operand_of_norm(norm, order, line) -> dict:
        """Fields of a LAYERNORM or QUANTIZE that writes an operand of this order from a line on."""
        residues = 0 if norm.wide else int(norm.residue.sum())
        return {
            "dst8_addr": line,
            "residue": residues > 0,
            "wide": norm.wide,
            "residue_addr": line + order.extra_lines if residues or norm.wide else 0,
            "mult_shift": norm.mult_shift,
            "residue_words": (residues,),
            "flagged": np.flatnonzero(norm.residue).tolist() if residues else (),
        }

    def load_residual(self, number) -> None:
        """Load the int16 layer input of block `number`, panel by panel."""
        given = self.number == 0 and self.model.source != Source.EMBEDDINGS
        source = self.model.x16.address if given else self.scratch["x16"]
        lines = self.layer.hidden
        for place, panel in enumerate(self.plan.blocks[number]):
            self.load(
                f"residual.panel{panel}",
                source + panel * lines * self.config.line_bytes,
                self.residual_line(number) + place * lines,
                lines,
            )

    def load_context(self, number) -> None:
        """Load the context panels of block `number`, which were stored head by head."""
        lines = self.layout.context.lines
        if not lines:
            return
        for place, panel in enumerate(self.plan.blocks[number]):
            self.load(
                f"context.panel{panel}",
                self.scratch["context"] + panel * lines * self.config.line_bytes,
                self.plan.line("context_block") + place * lines,
                lines,
            )

    def residual_line(self, number) -> int:
        """First line of the int16 panels of block `number`."""
        size = len(self.plan.blocks[0]) * self.layer.hidden
        return self.plan.line("residual") + (number % self.plan.choice.residual_sets) * size

    def load_norms(self) -> None:
        """Load the norm records of both LayerNorms, and the records of passes."""
        self.load_region("attention_norm.records", self.layout.attention_norm, "attention_norm")
        self.load_region("output_norm.records", self.layout.output_norm, "output_norm")
        if self.ablations.gelu != "drain":
            self.load_region("gelu.records", self.layout.gelu_records, "gelu_records")
        if self.ablations.requantisation != "drain":
            self.load_region("intermediate.records", self.layout.hidden_records, "hidden_records")

    def load_tables(self) -> None:
        """Load what the layer has in tables and few records."""
        if self.layout.context_records.lines:
            self.load_region("context.records", self.layout.context_records, "context_records")
        if self.layout.piecewise.lines:
            self.load_region("gelu.table", self.layout.piecewise, "piecewise")

    def x_line(self, panel, unit=0) -> int:
        """First line of a row panel of the projections' operand, in the `unit`-th block that is loaded."""
        blocks = self.plan.x_blocks
        place = (unit % self.plan.choice.x_sets) * len(blocks[0]) + panel - blocks[unit % len(blocks)].start
        return self.plan.line("x8") + place * self.layout.x.lines

    def operand_address(self, panel) -> int:
        """First byte in DRAM of a row panel of the projections' operand."""
        given = self.number == 0 and self.model.source == Source.OPERANDS
        source = self.model.x8.address if given else self.scratch["x8"]
        return source + panel * self.layout.x.lines * self.config.line_bytes

    def load_operand(self, panel) -> None:
        """Load a row panel of the projections' operand."""
        line = self.x_line(panel)
        self.load(f"x8.panel{panel}", self.operand_address(panel), line, self.layout.x.lines)

    def load_operand_block(self, panels, unit) -> None:
        """Load row panels (a range) of the projections' operand, the `unit`-th block that is loaded, at once."""
        first = panels.start
        lines = len(panels) * self.layout.x.lines
        self.load(f"x8.panel{first}", self.operand_address(first), self.x_line(first, unit), lines)

    def slot(self, panel, block, place) -> int:
        """Row slot of a row panel of `block` of `Plan.attention_blocks`, in set `place` of its buffers."""
        if self.plan.own_slots:
            return panel
        return place * len(self.plan.attention_blocks[0]) + panel - block.start

    def load_ranges(self, panels, block, place) -> None:
        """The ranges of row panels into their slots."""
        for panel in panels:
            self.add(
                Opcode.RANGES,
                "ranges",
                src_addr=self.plan.line("ranges") + RANGE_LINES * panel,
                slot=self.slot(panel, block, place),
            )

    def _load_weights(self, panels, line):
        first = panels[0]
        stride = panels[1].address - first.address if len(panels) > 1 else 0
        self.add(
            Opcode.LOAD,
            f"weights.{first.name}",
            dram_addr=first.address,
            scratchpad_addr=line,
            lines=first.lines,
            rows=len(panels),
            dram_stride=stride,
            scratchpad_stride=first.lines if stride else 0,
        )
        self.commands[-1].dram_bytes = len(panels) * first.lines * self.config.line_bytes
