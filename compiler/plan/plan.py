"""Where everything lies in the scratchpad: lifetimes, first fit, and what is done in blocks when it is small.

Phases: 0 attention, 1 output projection, 2 and 3 the two halves of the FFN. Buffers that are never live in one
phase may share lines. Plans are tried in the order of the cycles that they are estimated to lose.
"""

from dataclasses import dataclass
from itertools import product

from bertha.compiler.layout.panels import panel_count
from bertha.compiler.plan.buffers import buffers_of, first_fit, tiles_of_head

__all__ = ["Plan", "make_plan"]

RING_PANELS = (4, 3, 2, 1)  # rings to try, in panels of the largest size


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

    def line(self, name) -> int:
        """First line of a buffer."""
        return self.buffers[name][0]


def make_plan(layout, config, *, name="layer", preset="") -> Plan:
    """The plan that loses the fewest cycles, of those that fit.

    Raises
    ------
    ValueError
        If none does: the message says how many bytes the smallest one takes.
    """
    panels = panel_count(layout.seq, config.array_n)
    least = [_try(layout, config, (spill, panels, panels, 1, 1, 2)) for spill in (False, True)]
    ends = [end for end, _ in least if end is not None]
    where = f" on {preset}" if preset else ""
    shape = f"hidden {layout.layer.hidden}, FFN {layout.layer.ffn}, {layout.seq} tokens"
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
    numbers = _block_numbers(panels)
    options = product((False, True), numbers, numbers, (2, 1), RING_PANELS, (0, 1, 2))
    for option in sorted(options, key=_Lost(layout, config)):
        _, plan = _try(layout, config, option)
        if plan:
            return plan
    return next(plan for _, plan in least if plan)


def _try(layout, config, option):
    """Lines that an option takes, None if there aren't enough row slots, and its plan if it fits."""
    spill, attention_parts, parts, residual_sets, ring, sharing = option
    panels = panel_count(layout.seq, config.array_n)
    attention_blocks, blocks = _cut(panels, attention_parts), _cut(panels, parts)
    score_sets = 2 if len(attention_blocks) > 1 else 1
    residual_sets = residual_sets if len(blocks) > 1 else 1
    factor_sets = _factor_sets(layout, config, score_sets * len(attention_blocks[0]))
    if factor_sets < 1 or len(blocks[0]) > config.row_slots:
        return None, None
    buffers, end = first_fit(
        buffers_of(
            layout,
            config,
            attention_panels=len(attention_blocks[0]) * score_sets,
            residual_panels=len(blocks[0]) * residual_sets,
            block_panels=len(blocks[0]),
            ring=ring,
            sharing=sharing,
            spill=spill,
        )
    )
    plan = Plan(
        buffers=buffers,
        attention_blocks=attention_blocks,
        blocks=blocks,
        score_sets=score_sets,
        residual_sets=residual_sets,
        factor_sets=factor_sets,
        early_residual=sharing < 2,
        spill=spill,
    )
    return end, plan if end <= config.lines else None


class _Lost:
    """Estimates the cycles in which the array waits because of a plan's choices."""

    LATENCY = 150  # of memory, and of one engine waiting for another

    def __init__(self, layout, config):
        line_cycles = config.beats_per_line
        self._panels = panel_count(layout.seq, config.array_n)
        self._heads = layout.layer.heads
        attention = [
            panel
            for by_head in (layout.query, layout.key, layout.value)
            for head in by_head
            for panel in head
        ]
        rest = [*layout.output, *layout.intermediate, *layout.down]
        self._words = {
            name: sum(p.k for p in panels) for name, panels in (("first", attention), ("rest", rest))
        }
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


def _block_numbers(panels):
    """Numbers of blocks to try: from 1 to one a panel, each of another size of block, in steps of a quarter."""
    chosen, parts = [], 1
    while parts < panels:
        size = -(-panels // parts)
        chosen.append(-(-panels // size))
        parts = max(parts + 1, parts * 5 // 4)
    return sorted({*chosen, panels})


def _cut(panels, parts):
    size = -(-panels // parts)
    return [range(start, min(start + size, panels)) for start in range(0, panels, size)]


def _factor_sets(layout, config, softmax_slots):
    """Sets of slots for the row factors of a head's value projection, as far as they are useful."""
    return min(2, (config.row_slots - softmax_slots) // tiles_of_head(layout))
