"""The start of a program, when neither activations nor weights are in the scratchpad yet.

Loading one panel takes about as long as one or two tiles. So row panels and the first head's weight panels come in
turn, and the tiles between them run in the order in which their operands are there: with p row panels and w weight
panels, p · w tiles can run. Later weight panels each serve all row panels.

Where the int8 operand is made here, a row panel's way is: the int16 values arrive, the GEMM engine gathers their
moments (a product of zeros, plus the values, written back where they came from), and the vector engine normalises
and quantises them (`bertha.compiler.layout.model.Source`).
"""

import math

from bertha.compiler.emit.estimate import vector_cycles
from bertha.compiler.emit.passes import add_moments
from bertha.compiler.layout.model import Source
from bertha.compiler.plan.buffers import EMBEDDING_PANELS, start_panels
from bertha.rtl.isa import Opcode

__all__ = ["emit_start"]

LOADS_AHEAD = 4  # commands; fewer than an engine's queue holds, so that tiles are dispatched in time
PREFERENCES = (0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0, 3.0)
MOMENTS_LATENCY = 40  # cycles from the last tile of a row panel's moments to its pass


def emit_start(emitter, prepare, projection_tile) -> int:
    """Bring in the activations and run the tiles of the first weight panels.

    Parameters
    ----------
    emitter : Emitter
    prepare, projection_tile : callable
        Called with a weight panel's position in the first head and (panel, line): once before the vector engine
        is busy with what comes later, and for every row panel, which is the third argument.

    Returns
    -------
    int
        Weight panels that are done with.
    """
    start = _Start(emitter)
    count = 0
    if len(emitter.plan.x_blocks) > 1:
        start.through_dram()
    else:
        count = start.run(prepare, projection_tile)
    if emitter.plan.own_slots and emitter.model.attends:
        emitter.load_ranges(range(emitter.panels), range(emitter.panels), 0)
    return count


class _Start:
    def __init__(self, emitter):
        self.e = emitter
        self.operands = emitter.model.source == Source.OPERANDS
        line_cycles = emitter.config.beats_per_line
        self.row_cycles = line_cycles * (emitter.layout.x.lines if self.operands else emitter.layer.hidden)
        self.line_cycles = line_cycles
        self.passed = 0  # row panels whose pass has been added
        self.moments_cycles = emitter.layer.hidden if emitter.model.source == Source.EMBEDDINGS else 0

    def through_dram(self):
        """Every row panel's operand to where its block is loaded from."""
        if not self.operands:
            for row in range(self.e.panels):
                self._load_row(row)
                self._moments(row)
                self._pass(row)
        self._tables()

    def run(self, prepare, projection_tile):
        e = self.e
        room = e.plan.buffers["ring"][1]
        weights, taken_lines = [], 0
        for panel in start_panels(e.layout):
            taken_lines += panel.lines
            if taken_lines <= room and e.panels > 1:
                weights.append(panel)
        loads, steps = self._schedule(weights)
        rank = {load: position for position, load in enumerate(loads)}
        issued = 0
        taken = []
        for kind, row, weight in steps:
            wanted = max(rank.get(("row", row), 0), rank.get(("weight", weight), 0))
            while issued < min(len(loads), wanted + 1 + LOADS_AHEAD) and self._has_room(*loads[issued]):
                self._issue(*loads[issued])
                issued += 1
            if kind == "moments":
                self._moments(row)
            elif kind == "pass":
                self._pass(row)
            else:
                while len(taken) <= weight:
                    taken.append(e.weights.take())
                if kind == "prepare":
                    prepare(weight, taken[weight])
                else:
                    projection_tile(weight, taken[weight], row)
        for load in loads[issued:]:
            self._issue(*load)
        for _ in taken:
            e.weights.release()
        return len(weights)

    def _schedule(self, weights):
        """Loads in order, and steps in order: of some ways to mix row and weight panels the one that ends first."""
        trials = [self._order(weights, preference) for preference in PREFERENCES]
        planned = [(*self._steps(loads, weights), loads) for loads in trials]
        _, steps, loads = min(planned, key=lambda plan: plan[0])
        return loads, steps

    def _order(self, weights, preference):
        """What is loaded, in order: at every step what makes the most tiles possible in a cycle of the bus.

        `preference`: how much more a weight panel's tiles count than a row panel's.
        """
        loads, rows, count = [("row", 0)], 1, 0
        while rows < self.e.panels or count < len(weights):
            by_row = count / self.row_cycles if rows < self.e.panels else -1
            by_weight = -1.0
            if count < len(weights):
                by_weight = preference * rows / (weights[count].lines * self.line_cycles)
            if by_weight >= by_row:
                loads.append(("weight", count))
                count += 1
            else:
                loads.append(("row", rows))
                rows += 1
        loads.append(("tables", 0))
        return loads + [("weight", number) for number in range(count, count + LOADS_AHEAD)]

    def _steps(self, loads, weights):
        """When the last tile ends, and what is done, (kind, row, weight), in an order in which the array waits little.

        What is first possible comes first, and moments before tiles, since their row's pass takes a while. What
        prepares a weight panel comes when the panel does, unless a pass is under way.
        """
        there = self._arrivals(loads, weights)
        tiles = [("tile", row, weight) for row in range(self.e.panels) for weight in range(len(weights))]
        moments = [] if self.operands else [("moments", row, -1) for row in range(self.e.panels)]
        ready = {row: there["row", row] for row in range(self.e.panels)} if self.operands else {}
        unprepared = list(range(len(weights)))
        now = passed = 0
        steps = []

        def prepare(until):
            while unprepared and there["weight", unprepared[0]] <= until:
                steps.append(("prepare", -1, unprepared.pop(0)))

        def start(step):
            kind, row, weight = step
            if kind == "moments":
                return there["row", row]
            return max(ready.get(row, math.inf), there["weight", weight])

        while moments or tiles:
            candidates = moments[:1] + tiles
            step = min(
                candidates, key=lambda step: (max(now, start(step)), step[0] == "tile", step[2], step[1])
            )
            kind, row, weight = step
            (moments if kind == "moments" else tiles).remove(step)
            now = max(now, start(step))
            if kind == "tile":
                prepare(there["weight", weight])
                steps.append(step)
                now += max(self.e.n, weights[weight].k) * (2 if self.e.layout.x.wide else 1)
            else:
                steps.append(step)
                now += self.moments_cycles
                passed = max(passed, now + MOMENTS_LATENCY)
                prepare(passed)
                steps.append(("pass", row, -1))
                passed += vector_cycles(Opcode.LAYERNORM, self.e.layer.hidden)
                ready[row] = passed
        return now, steps

    def _arrivals(self, loads, weights):
        """When each load has come."""
        time, there = 0, {}
        for kind, number in loads:
            if kind == "row":
                time += self.row_cycles
            elif kind == "weight" and number < len(weights):
                time += weights[number].lines * self.line_cycles
            there[kind, number] = time
        return there

    def _has_room(self, kind, number):
        """Whether a row panel's place is free: where they only pass through, those before it must have left."""
        if kind != "row" or self.operands or self.e.plan.choice.keeps_stream:
            return True
        return number < self.passed + EMBEDDING_PANELS

    def _issue(self, kind, number):
        if kind == "row":
            self._load_row(number)
        elif kind == "tables":
            self._tables()
        else:
            self.e.weights.load_next()

    def _tables(self):
        e, model = self.e, self.e.model
        if self.operands and model.bare:
            e.load_region("zeros", model.zeros, "zeros")
        if model.attends:
            e.load_region("softmax.table", model.exp2, "exp2")
            e.load("ranges", model.ranges_address, e.plan.line("ranges"), model.range_lines)
        if model.attends and model.mask_lines:
            e.load("mask", model.mask_address, e.plan.line("mask"), model.mask_lines)
        e.load_tables()

    # The int16 input of one row panel, and its first pass.

    def _stream_line(self, row):
        if self.e.plan.choice.keeps_stream:
            return self.e.residual_line(0) + row * self.e.layer.hidden
        return self.e.plan.line("first_stream") + row % EMBEDDING_PANELS * self.e.layer.hidden

    def _operand_line(self, row):
        if len(self.e.plan.x_blocks) == 1:
            return self.e.x_line(row)
        return self.e.plan.line("first_operand") + row % EMBEDDING_PANELS * self.e.layout.x.lines

    def _slot(self, row):
        return row % self.e.config.row_slots

    def _load_row(self, row):
        e = self.e
        if self.operands:
            e.load_operand(row)
            return
        if row == 0:
            e.load_region("zeros", e.model.zeros, "zeros")
        address = e.model.x16.address + row * e.layer.hidden * e.config.line_bytes
        e.load(f"embedding.panel{row}", address, self._stream_line(row), e.layer.hidden)
        if row == 0:
            e.load_region("embedding_norm.records", e.model.first_records, "first_records")

    def _moments(self, row):
        """Sums and sums of squares of a row panel."""
        e = self.e
        if e.model.source != Source.EMBEDDINGS:
            return
        line = self._stream_line(row)
        add_moments(e, "embedding_moments", e.plan.line("zeros"), line, e.layer.hidden, slot=self._slot(row))

    def _pass(self, row):
        """LAYERNORM, or QUANTIZE, of a row panel."""
        e, norm, order = self.e, self.e.model.first_norm, self.e.layout.x
        self.passed += 1
        line, target = self._stream_line(row), self._operand_line(row)
        fields = {
            "src_addr": line,
            "words": e.layer.hidden,
            "param_addr": e.plan.line("first_records"),
            **e.operand_of_norm(norm, order, target),
        }
        if e.model.source == Source.EMBEDDINGS:
            normed = {"gamma_shift": norm.gamma_shift, "epsilon": norm.epsilon, "slot": self._slot(row)}
            e.add(
                Opcode.LAYERNORM, "embedding_norm", write16=1, write8=1, dst16_addr=line, **normed, **fields
            )
        else:
            e.add(Opcode.QUANTIZE, "input_quantize", **fields)
        if e.model.source == Source.EMBEDDINGS and not e.plan.choice.keeps_stream:
            address = e.scratch["x16"] + row * e.layer.hidden * e.config.line_bytes
            e.store(f"embedding.panel{row}", address, line, e.layer.hidden)
        if len(e.plan.x_blocks) > 1 or e.ablations.operand != "kept":
            e.store(f"x8.panel{row}", e.operand_address(row), target, order.lines)
