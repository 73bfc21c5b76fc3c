"""What a plan keeps in the scratchpad: the size and the lifetime of every buffer, and a place for each."""

from bertha.compiler.layout.panels import even, panel_count

__all__ = ["STAGE_SETS", "START_PANELS", "buffers_of", "first_fit", "tiles_of_head"]

PHASES = 4
STAGE_SETS = 2  # of a head's context on its way to DRAM
START_PANELS = 3  # weight panels that meet the activations one by one at the start


def tiles_of_head(layout) -> int:
    """Most panels of dimensions that a head has."""
    return max(len(head) for head in layout.value)


def buffers_of(
    layout, config, *, attention_panels, residual_panels, block_panels, ring, sharing, spill
) -> dict[str, tuple[int, int, int]]:
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
    split = block_panels < panels
    if spill:
        stage = STAGE_SETS * attention_panels * layout.stage_lines
        context = {
            "context": (stage, 0, attention_end),
            "context_block": (block_panels * layout.context.k // 2, 1, PHASES if split else context_end),
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
        "value": (tiles_of_head(layout) * panels * n // 2, 0, attention_end),
        "scores": (attention_panels * panels * n, 0, attention_end),
        "probabilities": (attention_panels * keys // 2, 0, attention_end),
        "mask": (layout.mask_lines, 0, attention_end),
        "context_records": (layout.context_records.lines, 0, attention_end),
        "exp2": (layout.exp2.lines, 0, attention_end),
        "piecewise": (layout.piecewise.lines, 0, attention_end),
        "residual": (residual_panels * hidden_words, residual_from, PHASES),
        "attention_norm": (layout.attention_norm.lines, residual_from, PHASES),
        "output_norm": (layout.output_norm.lines, residual_from, PHASES),
        "middle": (block_panels * layout.middle.k // 2, min(middle_from, 1), PHASES if split else middle_end),
        "hidden": (block_panels * layout.hidden.k // 2, 1 if split and sharing else hidden_from, PHASES),
    }


def first_fit(wanted) -> tuple[dict[str, tuple[int, int]], int]:
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
