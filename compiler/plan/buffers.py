"""What a plan keeps in the scratchpad: the size and the lifetime of every buffer, and a place for each."""

from bertha.compiler.layout.panels import even

__all__ = [
    "ALL",
    "EMBEDDING_PANELS",
    "HIDDEN_TILES",
    "STAGE_SETS",
    "Sizes",
    "START_PANELS",
    "buffers_of",
    "first_fit",
    "least_lines",
    "start_panels",
    "tiles_of_head",
    "value_plane_lines",
]

START, ATTENTION, OUTPUT, FFN1, FFN2 = (1 << phase for phase in range(5))
"""Phases: the start, when the input arrives; then, in every layer, attention, the output projection, and the two
halves of the FFN. A lifetime is a sum of phases."""
ALL = START + ATTENTION + OUTPUT + FFN1 + FFN2

STAGE_SETS = 2  # of a head's context on its way to DRAM
START_PANELS = 8  # weight panels, at most, that meet the activations one by one at the start
EMBEDDING_PANELS = 3  # row panels of the input on their way through the first LayerNorm
HIDDEN_TILES = 8  # tiles of hidden words that a requantisation pass takes together
PASS_SETS = {"pass": 2, "dram": 3}  # copies of what is on its way to a pass, by where it goes


def tiles_of_head(layout) -> int:
    """Most panels of dimensions that a head of a `ModelLayout` has."""
    return max((len(head) for layer in layout.layers for head in layer.value), default=0)


def value_plane_lines(panels, n) -> int:
    """Lines of V of a panel of dimensions and `panels` row panels; of a wide V, of its high or its low plane.

    A panel's low plane lies right behind its high one, so that the way to it fits a command's `low_offset`.
    """
    return panels * n // 2


def start_panels(layer) -> list:
    """Weight panels of a `LayerLayout` that may meet the activations one by one at the start."""
    if not layer.query:
        return []
    return [*layer.query[0], *layer.key[0], *layer.value[0]][:START_PANELS]


class Sizes:
    """Lines of what a plan may keep, of the layer that needs the most.

    Parameters
    ----------
    layout : ModelLayout
    n : int
        Lanes.
    """

    def __init__(self, layout, n):
        layers = self._layers = layout.layers
        self.panels, self.several = layout.panels, len(layers) > 1
        self.hidden = layers[0].layer.hidden
        self.head = self._most(lambda layer: layer.layer.head_dim) // 2
        self.x = self._most(lambda layer: layer.x.lines)
        self.middle = self._most(lambda layer: layer.middle.lines)
        self.hidden_operand = self._most(lambda layer: layer.hidden.lines)
        self.context = self._most(lambda layer: layer.context.lines)
        self.stage = self._most(lambda layer: layer.stage_lines)
        self.weights = self._most(_largest_weights)
        self.start = sum(panel.lines for panel in start_panels(layers[0]))
        self.scores, self.probabilities = layout.panels * n, even(layout.seq) // 2
        planes = self._most(_value_planes_of_head)
        self.value = planes * value_plane_lines(layout.panels, n)
        self.ranges, self.mask, self.exp2 = layout.range_lines, layout.mask_lines, layout.exp2.lines
        self.context_records = self._most(lambda layer: layer.context_records.lines)
        self.piecewise = self._most(lambda layer: layer.piecewise.lines)
        self.norm = layers[0].attention_norm.lines
        self.first_records = None if layout.first_norm is None else layout.first_records.lines
        self.zeros, self.bare = layout.zeros.lines, layout.bare
        self.ablations, self.n = layout.ablations, n
        self.constants = layout.constants.lines if layout.constants else 0
        self.gelu_records = self._most(lambda layer: layer.gelu_records.lines if layer.gelu_records else 0)
        self.hidden_records = self._most(
            lambda layer: layer.hidden_records.lines if layer.hidden_records else 0
        )

    def _most(self, size):
        return max(size(layer) for layer in self._layers)


def _value_planes_of_head(layer):
    """Most panels of dimensions that a head of a `LayerLayout` has, each plane for itself."""
    return max((len(head) for head in layer.value), default=0) * (2 if layer.layer.value_wide else 1)


def _largest_weights(layer):
    heads = [*layer.query[:1], *layer.value[:1]]
    panels = [*layer.output, *layer.intermediate, *layer.down, *(panel for head in heads for panel in head)]
    return max((panel.lines for panel in panels), default=0)


def buffers_of(sizes, choice) -> dict[str, tuple[int, int]]:
    """Lines and lifetime of every buffer, by name.

    Parameters
    ----------
    sizes : Sizes
    choice : bertha.compiler.plan.plan.Choice
    """
    panels = sizes.panels
    rows, split = choice.block_panels(panels), choice.parts > 1
    score_panels = choice.score_sets * choice.attention_panels(panels)
    start = sizes.start if choice.ring > 1 else 0

    def living(phases):
        return phases if choice.sharing else ALL

    attention = living(START + ATTENTION)
    rest = OUTPUT + FFN1 + FFN2
    if choice.spill:
        stage = STAGE_SETS * score_panels * sizes.stage
        context = {
            "context": (stage, attention),
            "context_block": (rows * sizes.context, living(rest if split else OUTPUT)),
        }
    else:
        lifetime = START + ATTENTION + (rest if split else OUTPUT)
        context = {"context": (panels * sizes.context, living(lifetime))}
    keeps = choice.keeps_operand
    operand = START + ATTENTION + ((rest if split else FFN2) if keeps else 0)
    # What LayerNorm writes on its way to DRAM lies where the FFN's operand was.
    staged = sizes.several and not keeps
    middle = rest if split or staged else OUTPUT + FFN1
    hidden = FFN1 + FFN2 if choice.sharing == 2 and not split else rest
    return {
        **context,
        "ring": (max(choice.ring * max(sizes.weights, choice.together_lines), start), ALL),
        "x8": (choice.x_sets * choice.x_panels(panels) * sizes.x, living(operand)),
        "query": (panels * sizes.head, attention),
        "key": (panels * sizes.head, attention),
        "value": (sizes.value, attention),
        "scores": (score_panels * sizes.scores, living(ATTENTION)),
        "probabilities": (score_panels * sizes.probabilities, living(ATTENTION)),
        "ranges": (sizes.ranges, ALL),
        "mask": (sizes.mask, ALL),
        "context_records": (sizes.context_records, attention),
        "exp2": (sizes.exp2, attention),
        "piecewise": (sizes.piecewise, attention),
        "residual": (
            rows * choice.residual_sets * sizes.hidden,
            ALL if choice.keeps_stream else living(rest + (0 if choice.late_residual else ATTENTION)),
        ),
        "attention_norm": (sizes.norm, living(rest + (0 if choice.late_residual else ATTENTION))),
        "output_norm": (sizes.norm, living(rest + (0 if choice.late_residual else ATTENTION))),
        "middle": (rows * max(sizes.middle, sizes.x if staged else 0), living(middle)),
        "hidden": (rows * sizes.hidden_operand, living(hidden)),
        **_start_buffers(sizes, choice, living(START)),
        **_pass_buffers(sizes, rows, living),
    }


def _pass_buffers(sizes, rows, living):
    """Of passes that aren't done in a drain (`bertha.compiler.ablations.Ablations`)."""
    where, found = sizes.ablations, {}
    if sizes.constants:
        found["constants"] = (sizes.constants, ALL)
    if where.gelu != "drain":
        found["preactivation"] = (PASS_SETS[where.gelu] * rows * sizes.n, living(FFN1))
        found["gelu_records"] = (sizes.gelu_records, ALL)
    if where.residual != "drain":
        found["sums"] = (PASS_SETS[where.residual] * rows * sizes.n, living(OUTPUT + FFN2))
    if where.requantisation != "drain":
        group = HIDDEN_TILES * sizes.n
        found["hidden16"] = (PASS_SETS[where.requantisation] * rows * group, living(FFN1))
        found["hidden_records"] = (sizes.hidden_records, ALL)
    return found


def _start_buffers(sizes, choice, lifetime):
    zeros = {"zeros": (sizes.zeros, ALL if sizes.bare else lifetime)}
    if sizes.first_records is None:
        return zeros if sizes.bare else {}
    stream = 0 if choice.keeps_stream else EMBEDDING_PANELS * sizes.hidden
    operand = 0 if choice.x_parts == 1 else EMBEDDING_PANELS * sizes.x
    return {
        "first_records": (sizes.first_records, lifetime),
        **zeros,
        "first_stream": (stream, lifetime),
        "first_operand": (operand, lifetime),
    }


def least_lines(wanted) -> int:
    """Lines that buffers need at least: those of the phase in which most are alive."""
    alive = dict.fromkeys((START, ATTENTION, OUTPUT, FFN1, FFN2), 0)
    for lines, lifetime in wanted.values():
        for phase in alive:
            if lifetime & phase:
                alive[phase] += lines
    return max(alive.values())


def first_fit(wanted) -> tuple[dict[str, tuple[int, int]], int]:
    """Places buffers, the largest first, each at the lowest line where nothing lies that lives with it."""
    placed = {}
    for name, (lines, lifetime) in sorted(wanted.items(), key=lambda item: -item[1][0]):
        others = sorted(
            (placed[other][0], placed[other][0] + wanted[other][0])
            for other in placed
            if wanted[other][1] & lifetime
        )
        line = 0
        for low, high in others:
            if low < line + lines and line < high:
                line = high
        placed[name] = (line, lines)
    return placed, max(line + lines for line, lines in placed.values())
