"""What the emitters of the operations share: the growing command list and where things are."""

from bertha.compiler.emit.weights import WeightStream
from bertha.compiler.layout.panels import panel_count
from bertha.compiler.program import Command, Work
from bertha.rtl.isa import Opcode

__all__ = ["Emitter"]


class Emitter:
    """Collects the commands of one layer, without semaphores.

    Parameters
    ----------
    config : Config
    layout : LayerLayout
    plan : Plan
    name : str
        First part of every operation's name.
    context_address : int, optional
        First byte of DRAM for the context panels, if they don't stay in the scratchpad.
    """

    def __init__(self, config, layout, plan, name, context_address=None):
        self.config, self.layout, self.plan = config, layout, plan
        self.layer, self.seq = layout.layer, layout.seq
        self.n = config.array_n
        self.panels = panel_count(self.seq, self.n)
        self.context_address = context_address
        self.commands = []
        self._name = name
        first, lines = plan.buffers["ring"]
        self.weights = WeightStream(self._weight_order(), first=first, lines=lines, load=self._load_weights)

    def _weight_order(self):
        layout = self.layout
        order = []
        for head in range(self.layer.heads):
            order += [*layout.query[head], *layout.key[head], *layout.value[head]]
        for _ in self.plan.blocks:
            order += [*layout.output, *layout.intermediate, *layout.down]
        return order

    def add(self, opcode, operation, *, work=(), residue_words=(), **fields) -> None:
        """Add a command of the operation."""
        fields = {name: int(value) for name, value in fields.items()}
        self.commands.append(
            Command(
                opcode=opcode,
                fields=fields,
                name=f"{self._name}.{operation}",
                work=tuple(work),
                residue_words=tuple(residue_words),
            )
        )

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

    def tokens(self, panel) -> range:
        """Tokens of a row panel, as a range."""
        return range(panel * self.n, min((panel + 1) * self.n, self.seq))

    def work(self, panels, each, keys=None) -> list[Work]:
        """`Work` of tiles that have a row panel each, from `panels`."""
        return [Work(int(each), self.tokens(panel), keys) for panel in panels]

    def load_residual(self, number) -> None:
        """Load the int16 layer input of block `number`, panel by panel."""
        lines = self.layer.hidden
        for place, panel in enumerate(self.plan.blocks[number]):
            self.load(
                f"residual.panel{panel}",
                self.layout.x16.address + panel * lines * self.config.line_bytes,
                self.residual_line(number) + place * lines,
                lines,
            )

    def load_context(self, number) -> None:
        """Load the context panels of block `number`, which were stored head by head."""
        lines = self.layout.context.k // 2
        for place, panel in enumerate(self.plan.blocks[number]):
            self.load(
                f"context.panel{panel}",
                self.context_address + panel * lines * self.config.line_bytes,
                self.plan.line("context_block") + place * lines,
                lines,
            )

    def residual_line(self, number) -> int:
        """First line of the int16 panels of block `number`."""
        size = len(self.plan.blocks[0]) * self.layer.hidden
        return self.plan.line("residual") + (number % self.plan.residual_sets) * size

    def load_norms(self) -> None:
        """Load the norm records of both LayerNorms."""
        self.load_region("attention_norm.records", self.layout.attention_norm, "attention_norm")
        self.load_region("output_norm.records", self.layout.output_norm, "output_norm")

    def _load_weights(self, panel, line):
        self.load(f"weights.{panel.name}", panel.address, line, panel.lines)
