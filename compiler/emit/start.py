"""The start of a layer, when neither activations nor weights are in the scratchpad yet.

Loading one panel takes about as long as two tiles. So the first row panels and the first weight panels come in
turn, and the tiles between them run in the order in which their operands arrive: with p row panels and w weight
panels there, p · w tiles can run. Later weight panels each serve all row panels.
"""

from bertha.compiler.plan.buffers import START_PANELS

__all__ = ["emit_start", "start_panels"]

LOADS_AHEAD = 4  # commands; fewer than an engine's queue holds, so that tiles are dispatched in time


def start_panels(emitter) -> int:
    """How many of the first head's query and key panels are used tile by tile."""
    available = len(emitter.layout.query[0]) + len(emitter.layout.key[0])
    ring = emitter.plan.buffers["ring"][1]
    room = ring // emitter.layout.query[0][0].lines
    return max(0, min(START_PANELS, available, room)) if emitter.panels > 1 else 0


def emit_start(emitter, projection_tile) -> int:
    """Load the activations and run the tiles of the first weight panels.

    Parameters
    ----------
    emitter : Emitter
    projection_tile : callable
        Called with a weight panel's position in the first head, (panel, line), first row panel and count.

    Returns
    -------
    int
        Weight panels that are done with.
    """
    lines = emitter.layout.x.k // 2
    x8 = emitter.plan.line("x8")

    def load_rows(panel):
        emitter.load(
            f"x8.panel{panel}",
            emitter.layout.x8.address + panel * lines * emitter.config.line_bytes,
            x8 + panel * lines,
            lines,
        )

    count = start_panels(emitter)
    loads = []
    for number in range(max(emitter.panels, count)):
        if number < emitter.panels:
            loads.append(("rows", number))
        if number < count:
            loads.append(("weights", number))
    loads += [("tables", None)] + [("weights", number) for number in range(count, count + LOADS_AHEAD)]
    arrival = {what: position for position, what in enumerate(loads)}
    tiles = sorted(
        (max(arrival["rows", row], arrival["weights", weight]), weight, row)
        for row in range(emitter.panels)
        for weight in range(count)
    )
    issued = 0

    def issue(upto):
        nonlocal issued
        for kind, number in loads[issued:upto]:
            if kind == "rows":
                load_rows(number)
            elif kind == "tables":
                _load_tables(emitter)
            else:
                emitter.weights.load_next()
        issued = max(issued, upto)

    taken = []
    for rank, weight, row in tiles:
        issue(rank + 1 + LOADS_AHEAD)
        while len(taken) <= weight:
            taken.append(emitter.weights.take())
        projection_tile(weight, taken[weight], row, 1)
    issue(len(loads))
    for _ in taken:
        emitter.weights.release()
    return count


def _load_tables(emitter):
    layout = emitter.layout
    emitter.load_region("softmax.table", layout.exp2, "exp2")
    emitter.load("mask", layout.mask_address, emitter.plan.line("mask"), layout.mask_lines)
    if layout.context_records.lines:
        emitter.load_region("context.records", layout.context_records, "context_records")
    emitter.load_region("gelu.table", layout.piecewise, "piecewise")
