"""Where everything lies in the scratchpad: lifetimes, first fit, and what is done in blocks when it is small.

Phases: 0 attention, 1 output projection, 2 and 3 the two halves of the FFN. Buffers that are never live in one
phase may share lines. Plans are tried in the order of the cycles that they are estimated to lose.
"""

from dataclasses import dataclass
from itertools import product

from compiler.panels import even, panel_count

__all__ = ["STAGE_SETS", "START_PANELS", "Plan", "make_plan"]

PHASES = 4
RING_PANELS = (4, 3, 2, 1)  # rings to try, in panels of the largest size
STAGE_SETS = 2  # of a head's context on its way to DRAM
START_PANELS = 3  # weight panels that meet the activations one by one at the start


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One way to fit a layer into a configuration.

    Attributes
    ----------
    buffers : dict
        (first line, lines) by name.
    attention_blocks, blocks : list of range
        Row panels whose scores, and whose output projection and FFN, are done together.
    score_sets, residual_sets, factor_sets : int
        Copies of the score and probability buffers, of the residual buffer, and of the slots of a head's row
        factors.
    early_residual : bool
        The residual's first block and the norm records are loaded while attention runs.
    spill : bool
        Context goes to DRAM head by head, and comes back block by block.
    """

    buffers: dict
    attention_blocks: list
    blocks: list
    score_sets: int
    residual_sets: int
    factor_sets: int
    early_residual: bool
    spill: bool

    def line(self, name):
        """First line of a buffer."""
        return self.buffers[name][0]


def make_plan(layout, config, *, name="layer", preset=""):
    """The plan that loses the fewest cycles, of those that fit.

    Raises
    ------
    ValueError
        If none does: the message says how many bytes the smallest one takes.
    """
    panels = panel_count(layout.seq, config.array_n)
    smallest = None
    halvings = _halvings(panels)
    options = product((False, True), halvings, halvings, (2, 1), RING_PANELS, (0, 1, 2))
    lost = _Lost(layout, config)
    for option in sorted(options, key=lost):
        spill, attention_parts, parts, residual_sets, ring, sharing = option
        if parts == 1 and residual_sets == 2:
            continue
        attention_blocks, blocks = _cut(panels, attention_parts), _cut(panels, parts)
        score_sets = 2 if attention_parts > 1 else 1
        factor_sets = _factor_sets(layout, config, score_sets * len(attention_blocks[0]))
        if factor_sets < 1 or len(blocks[0]) > config.row_slots:
            continue
        wanted = _buffers(
            layout,
            config,
            attention_panels=len(attention_blocks[0]) * score_sets,
            block_panels=len(blocks[0]) * (residual_sets if parts > 1 else 1),
            block_rows=len(blocks[0]),
            ring=ring,
            sharing=sharing,
            spill=spill,
        )
        buffers, end = _first_fit(wanted)
        smallest = min(end, smallest or end)
        if end <= config.lines:
            return Plan(
                buffers=buffers,
                attention_blocks=attention_blocks,
                blocks=blocks,
                score_sets=score_sets,
                residual_sets=residual_sets,
                factor_sets=factor_sets,
                early_residual=sharing < 2,
                spill=spill,
            )
    where = f" on {preset}" if preset else ""
    shape = f"hidden {layout.layer.hidden}, FFN {layout.layer.ffn}, {layout.seq} tokens"
    if smallest is None:
        raise ValueError(
            f"{name} ({shape}) must have its row panels' statistics in {config.row_slots} row slots{where}: "
            f"there are too few"
        )
    raise ValueError(
        f"{name} ({shape}) must fit the scratchpad{where}: its smallest plan takes "
        f"{smallest * config.line_bytes} bytes, there are {config.scratchpad_bytes}"
    )


class _Lost:
    """Estimates the cycles in which the array waits because of a plan's choices."""

    LATENCY = 150  # of memory, and of one engine waiting for another

    def __init__(self, layout, config):
        line_cycles = config.beats_per_line
        self._panels = panel_count(layout.seq, config.array_n)
        self._heads = layout.layer.heads
        attention = [
            panel for by_head in (layout.query, layout.key, layout.value) for head in by_head for panel in head
        ]
        rest = [*layout.output, *layout.intermediate, *layout.down]
        self._words = {name: sum(p.k for p in panels) for name, panels in (("first", attention), ("rest", rest))}
        self._load = {
            name: line_cycles * sum(p.lines for p in panels)
            for name, panels in (("first", attention), ("rest", rest))
        }
        self._residual = line_cycles * layout.layer.hidden
        self._context = line_cycles * layout.context.k // 2

    def __call__(self, option):
        spill, attention_parts, parts, residual_sets, ring, sharing = option
        load = self._load["first"] + parts * self._load["rest"]
        if ring == 1:  # nothing is loaded ahead
            lost = load
        else:
            lost = sum(
                max(0, loads - self._panels * self._words[name])
                for name, loads in (("first", self._load["first"]), ("rest", parts * self._load["rest"]))
            )
        rows = -(-self._panels // parts)
        lost += (attention_parts > 1) * attention_parts * self._heads * self.LATENCY
        lost += (parts - 1) * (self.LATENCY + (residual_sets == 1) * 3 * self._residual)
        lost += spill * (self.LATENCY * parts + rows * self._context)
        lost += (0, self.LATENCY, self.LATENCY + rows * self._residual)[sharing]
        return lost, -ring, attention_parts, parts


def _halvings(panels):
    """Numbers of blocks to try: every one that changes the size of the largest block."""
    sizes = sorted({-(-panels // parts) for parts in range(1, panels + 1)}, reverse=True)
    return [-(-panels // size) for size in sizes]


def _cut(panels, parts):
    size = -(-panels // parts)
    return [range(start, min(start + size, panels)) for start in range(0, panels, size)]


def _factor_sets(layout, config, softmax_slots):
    """Sets of slots for the row factors of a head's value projection, as far as they are useful."""
    tiles = max(len(head) for head in layout.value)
    return min(2, (config.row_slots - softmax_slots) // tiles)


def _buffers(layout, config, *, attention_panels, block_panels, block_rows, ring, sharing, spill):
    """Lines and live phases of every buffer, by name."""
    n = config.array_n
    panels = panel_count(layout.seq, n)
    keys = even(layout.seq)
    head_words = layout.layer.head_dim
    hidden_words = even(layout.layer.hidden)
    weights = [*layout.output, *layout.intermediate, *layout.down, *layout.query[0], *layout.value[0]]
    largest = max(panel.lines for panel in weights)
    first_head = [*layout.query[0], *layout.key[0]]
    start = sum(panel.lines for panel in first_head[:START_PANELS])
    ring_lines = max(ring * largest, start if ring > 1 else 0)
    ends = {0: (0, 0, 0), 1: (1, 0, 1), 2: (2, 1, 1)}[sharing]
    hidden_from, residual_from, middle_from = ends
    attention_end = PHASES if sharing == 0 else 1
    middle_end, context_end = (PHASES, PHASES) if sharing == 0 else (3, 2)
    split = block_rows < panels
    if spill:
        stage = STAGE_SETS * attention_panels * layout.stage_lines
        context = {
            "context": (stage, 0, attention_end),
            "context_block": (block_rows * layout.context.k // 2, 1, PHASES if split else context_end),
        }
    else:
        lines = panels * layout.context.k // 2
        context = {"context": (lines, 0, PHASES if split else context_end)}
    return {
        **context,
        "ring": (ring_lines, 0, PHASES),
        "x8": (panels * layout.x.k // 2, 0, attention_end),
        "query": (panels * head_words // 2, 0, attention_end),
        "key": (panels * head_words // 2, 0, attention_end),
        "value": (
            max(len(head) for head in layout.value) * panels * n // 2,
            0,
            attention_end,
        ),
        "scores": (attention_panels * panels * n, 0, attention_end),
        "probabilities": (attention_panels * keys // 2, 0, attention_end),
        "mask": (layout.mask_lines, 0, attention_end),
        "context_records": (layout.context_records.lines, 0, attention_end),
        "exp2": (layout.exp2.lines, 0, attention_end),
        "piecewise": (layout.piecewise.lines, 0, attention_end),
        "residual": (block_panels * hidden_words, residual_from, PHASES),
        "attention_norm": (layout.attention_norm.lines, residual_from, PHASES),
        "output_norm": (layout.output_norm.lines, residual_from, PHASES),
        "middle": (
            block_rows * layout.middle.k // 2,
            min(middle_from, 1),
            PHASES if split else middle_end,
        ),
        "hidden": (
            block_rows * layout.hidden.k // 2,
            1 if split and sharing else hidden_from,
            PHASES,
        ),
    }
    return wanted


def _first_fit(wanted):
    """Places buffers, the largest first, each at the lowest line where nothing of its phases lies."""
    placed = {}
    for name, (lines, start, end) in sorted(wanted.items(), key=lambda item: -item[1][0]):
        others = sorted(
            (placed[other][0], placed[other][0] + wanted[other][0])
            for other in placed
            if wanted[other][1] < end and start < wanted[other][2]
        )
        line = 0
        for low, high in others:
            if low < line + lines and line < high:
                line = high
        placed[name] = (line, lines)
    return placed, max(line + lines for line, lines in placed.values())
