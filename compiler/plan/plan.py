"""Where everything lies in the scratchpad: lifetimes, first fit, and what is done in blocks when it is small.

One plan serves all layers of a program. Plans are tried in the order of the cycles that they are estimated to lose.
"""

from dataclasses import dataclass
from itertools import product

from bertha.compiler.plan.buffers import Sizes, buffers_of, first_fit, least_lines, tiles_of_head
from bertha.rtl.isa import COMMAND_BYTES

__all__ = ["Choice", "Plan", "make_plan"]

RING_PANELS = (4, 3, 2, 1)  # rings to try, in panels of the largest size
TOGETHER_BYTES = 1 << 15  # of weight panels that one command loads, where each serves one tile


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What a plan decides.

    Attributes
    ----------
    x_parts, attention_parts, parts : int
        Blocks of row panels that are projected, whose scores are computed, and whose output projection and FFN
        are computed together.
    residual_sets : int
        Copies of the residual buffer, 2 where the next block's is loaded ahead.
    ring : int
        Weight panels of the largest size that the ring holds, or as many times `together_lines`.
    together_lines : int
        Lines of neighbouring weight panels that are loaded by one command; 0 where each has its own.
    sharing : int
        0: no two buffers share lines. 1: those that are never alive together may. 2: and the residual stream and
        the norm records are loaded after attention.
    spill : bool
        Context goes to DRAM head by head, and comes back block by block.
    keeps_operand, keeps_stream : bool
        The int8 operand, and the int16 stream, of the next layer stay in the scratchpad.
    """

    x_parts: int = 1
    attention_parts: int = 1
    parts: int = 1
    residual_sets: int = 1
    ring: int = 1
    together_lines: int = 0
    sharing: int = 1
    spill: bool = False
    keeps_operand: bool = False
    keeps_stream: bool = False

    @property
    def score_sets(self) -> int:
        """Copies of the score and probability buffers."""
        return 2 if self.attention_parts > 1 else 1

    @property
    def x_sets(self) -> int:
        """Copies of the buffer of operands that are projected."""
        return 2 if self.x_parts > 1 else 1

    @property
    def late_residual(self) -> bool:
        """Whether the residual stream and the norm records are loaded after attention."""
        return self.sharing == 2

    def block_panels(self, panels) -> int:
        """Row panels of a block."""
        return -(-panels // self.parts)

    def attention_panels(self, panels) -> int:
        """Row panels whose scores are computed together."""
        return -(-panels // self.attention_parts)

    def x_panels(self, panels) -> int:
        """Row panels that are projected together."""
        return -(-panels // self.x_parts)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One way to fit a program into a configuration.

    Attributes
    ----------
    choice : Choice
    buffers : dict
        (first line, lines) by name.
    x_blocks, attention_blocks, blocks : list of range
        Row panels that are projected, whose scores, and whose output projection and FFN, are done together.
    factor_sets : int
        Copies of the slots of a head's row factors.
    own_slots : bool
        Every row panel has a row slot of its own, so its range is loaded once.
    """

    choice: Choice
    buffers: dict
    x_blocks: list
    attention_blocks: list
    blocks: list
    factor_sets: int
    own_slots: bool

    def line(self, name) -> int:
        """First line of a buffer."""
        return self.buffers[name][0]

    @property
    def score_slots(self) -> int:
        """Row slots that scores take, from 0 on."""
        if self.own_slots:
            return self.attention_blocks[-1].stop
        return self.choice.score_sets * len(self.attention_blocks[0])


def make_plan(layout, config, *, name="model", preset="") -> Plan:
    """The plan that loses the fewest cycles, of those that fit.

    Raises
    ------
    ValueError
        If none does: the message says how many bytes the smallest one takes.
    """
    panels = layout.panels
    sizes = Sizes(layout, config.array_n)
    least = [
        Choice(x_parts=panels, attention_parts=panels, parts=panels, sharing=2, spill=spill)
        for spill in (False, True)
    ]
    smallest = [_try(layout, sizes, config, choice) for choice in least]
    ends = [end for end, _ in smallest if end is not None]
    where = f" on {preset}" if preset else ""
    layer = layout.layers[0].layer
    shape = f"hidden {layer.hidden}, FFN {layer.ffn}, {layout.seq} tokens"
    if not ends:
        raise ValueError(
            f"{name} ({shape}) must have {tiles_of_head(layout) + 1} row slots at least, there are "
            f"{config.row_slots}{where}"
        )
    if min(ends) > config.lines:
        raise ValueError(
            f"{name} ({shape}) must fit the scratchpad{where}: its smallest plan takes "
            f"{min(ends) * config.line_bytes} bytes, there are {config.scratchpad_bytes}"
        )
    lost = _Lost(layout, config)
    for choice in sorted(_choices(layout, sizes, config), key=lost):
        _, plan = _try(layout, sizes, config, choice)
        if plan:
            return plan
    for choice, (_, plan) in zip(least, smallest, strict=True):
        if plan and _is_wanted(choice, layout):
            return plan
    raise ValueError(f"{name} ({shape}) must have more scratchpad{where} for {layout.ablations}")


def _is_wanted(choice, layout):
    """Whether a choice has operands and weights read as often as the ablations say."""
    if layout.ablations.weights == "panel":
        return choice.parts == choice.x_parts == layout.panels
    return layout.ablations.operand == "kept" or choice.x_parts == 1 and not choice.keeps_operand


def _choices(layout, sizes, config):
    """Choices whose buffers could fit."""
    panels = layout.panels
    fine, coarse = _block_numbers(panels, 4), _block_numbers(panels, 1)
    several = len(layout.layers) > 1
    together = (TOGETHER_BYTES // config.line_bytes, 0) if panels == 1 else (0,)
    kept = several or layout.first_norm is not None
    options = product(
        coarse, (False, True), fine, (0, 1, 2), (2, 1), RING_PANELS, together, (False, True), coarse
    )
    for option in options:
        (
            x_parts,
            spill,
            parts,
            sharing,
            residual_sets,
            ring,
            together_lines,
            keeps_operand,
            attention_parts,
        ) = option
        if parts == 1 and residual_sets > 1 or keeps_operand and not (several and x_parts == 1):
            continue
        choice = Choice(
            x_parts=x_parts,
            attention_parts=attention_parts,
            parts=parts,
            residual_sets=residual_sets,
            ring=ring,
            together_lines=together_lines,
            sharing=sharing,
            spill=spill,
            keeps_operand=keeps_operand,
            keeps_stream=kept and parts == 1 and sharing < 2,
        )
        if _is_wanted(choice, layout) and least_lines(buffers_of(sizes, choice)) <= config.lines:
            yield choice


def _try(layout, sizes, config, choice):
    """Lines that a choice takes, None if there aren't enough row slots, and its plan if it fits."""
    panels = layout.panels
    x_blocks, attention_blocks, blocks = (
        _cut(panels, parts) for parts in (choice.x_parts, choice.attention_parts, choice.parts)
    )
    tiles = tiles_of_head(layout)
    own_slots = panels + tiles <= config.row_slots
    slots = panels if own_slots else choice.score_sets * len(attention_blocks[0])
    factor_sets = min(2, (config.row_slots - slots) // max(1, tiles))
    if factor_sets < 1 or len(blocks[0]) > config.row_slots:
        return None, None
    buffers, end = first_fit(buffers_of(sizes, choice))
    plan = Plan(
        choice=choice,
        buffers=buffers,
        x_blocks=x_blocks,
        attention_blocks=attention_blocks,
        blocks=blocks,
        factor_sets=factor_sets,
        own_slots=own_slots,
    )
    return end, plan if end <= config.lines else None


class _Lost:
    """Estimates the cycles in which the array waits because of a plan's choices, in a layer of average size."""

    LATENCY = 150  # of memory, and of one engine waiting for another

    def __init__(self, layout, config):
        line_cycles = config.beats_per_line
        layers = layout.layers
        self._panels = layout.panels
        self._heads = max(layer.layer.heads for layer in layers)
        attention = [
            panel
            for layer in layers
            for by_head in (layer.query, layer.key, layer.value)
            for head in by_head
            for panel in head
        ]
        rest = [p for layer in layers for p in (*layer.output, *layer.intermediate, *layer.down)]
        groups = (("first", attention), ("rest", rest))
        self._words = {name: sum(p.k for p in panels) / len(layers) for name, panels in groups}
        self._load = {
            name: line_cycles * sum(p.lines for p in panels) / len(layers) for name, panels in groups
        }
        # Cycles in which the bus brings commands, two a panel.
        commands = 2 * COMMAND_BYTES / config.axi_data_bytes
        self._commands = commands * (len(attention) + len(rest)) / len(layers)
        self._residual = line_cycles * layers[0].layer.hidden
        # Where the first operand is made here, all of it goes to DRAM and back before anything else.
        self._first = 2 * self._residual if layout.first_norm is not None else 0
        self._context = line_cycles * max(layer.context.lines for layer in layers)
        self._operand = line_cycles * max(layer.x.lines for layer in layers)

    def __call__(self, choice):
        operands = self._heads * self._panels * self._operand * (choice.x_parts > 1)
        loads = {
            "first": choice.x_parts * self._load["first"] + operands,
            "rest": choice.parts * self._load["rest"]
            + self._panels * self._residual * (0 if choice.keeps_stream else 1),
        }
        if choice.ring == 1:  # nothing is loaded ahead
            lost = sum(loads.values())
        else:
            lost = max(0, loads["first"] - self._panels * self._words["first"])
            # Every block has to bring in all weights while it computes; the smallest has the least time.
            fewest = self._panels // choice.parts
            lost += choice.parts * max(0, loads["rest"] / choice.parts - fewest * self._words["rest"])
        parts = choice.parts
        rows = -(-self._panels // parts)
        if choice.attention_parts > 1:
            lost += choice.attention_parts * self._heads * self.LATENCY
        lost += (parts - 1) * (self.LATENCY + (choice.residual_sets == 1) * 3 * self._residual)
        lost += choice.spill * (self.LATENCY * parts + rows * self._context)
        lost += (0, self.LATENCY, self.LATENCY + rows * self._residual)[choice.sharing]
        lost += self._commands * (not choice.together_lines)
        lost += 0 if choice.keeps_operand else 2 * (self.LATENCY + self._operand)
        if choice.x_parts > 1:
            lost += choice.x_parts * self._heads * self.LATENCY + self._panels * self._first
        return lost, -choice.ring, choice.attention_parts, parts


def _block_numbers(panels, steps):
    """Numbers of blocks to try: from 1 to one a panel, each of another size of block, in steps of a `steps`-th."""
    chosen, parts = [], 1
    while parts < panels:
        size = -(-panels // parts)
        chosen.append(-(-panels // size))
        parts = max(parts + 1, parts * (steps + 1) // steps)
    return sorted({*chosen, panels})


def _cut(panels, parts):
    """Blocks of nearly the same size, the larger ones first."""
    size, larger = divmod(panels, parts)
    starts = [number * size + min(number, larger) for number in range(parts + 1)]
    return [range(start, end) for start, end in zip(starts, starts[1:], strict=False)]
