"""The DRAM image of a layer: where inputs, weights, parameters and the output lie."""

from dataclasses import dataclass

import numpy as np

from bertha.compiler.hazards.accesses import RECORD_LINES
from bertha.compiler.layout.order import expand, pass_order, tiled_order
from bertha.compiler.layout.panels import even, pack, panel_count
from bertha.compiler.layout.records import (
    column_records,
    exp2_table,
    factor_records,
    norm_records,
    piecewise_table,
)
from bertha.compiler.program import Operand
from bertha.rtl.isa import MAXIMUM_WORDS

__all__ = ["Image", "LayerLayout", "Region", "WeightPanel"]


@dataclass(frozen=True)
class Region:
    """`lines` scratchpad lines' worth of DRAM from byte `address` on."""

    address: int
    lines: int


@dataclass(frozen=True, kw_only=True)
class WeightPanel(Region):
    """A panel of weights of `k` words with its records right behind it.

    `tile` is the place of its rows in the result: first word and columns.
    """

    k: int
    tile: object
    name: str

    @property
    def records(self) -> int:
        """Line of the records, counted from the panel's first."""
        return self.k // 2


class Image:
    """Hands out DRAM from `base` on, in multiples of `alignment` bytes, and collects what lies there."""

    def __init__(self, config, base):
        self.alignment = max(config.burst_beats * config.axi_data_bytes, config.line_bytes, 64)
        if base % self.alignment:
            raise ValueError(f"the DRAM base must be a multiple of {self.alignment}, not {base}")
        self.base = self.end = base
        self.pieces = []
        self._line_bytes = config.line_bytes
        self._limit = 1 << config.axi_addr_bits

    def reserve(self, nbytes) -> int:
        """Address of `nbytes` bytes that something else fills."""
        address = self.end
        self.end += -(-nbytes // self.alignment) * self.alignment
        if self.end > self._limit:
            raise ValueError(
                f"the DRAM image must end at {self._limit:#x} (axi_addr_bits) at most, not at {self.end:#x}"
            )
        return address

    def place(self, content) -> Region:
        """Region of `content`, filled up to whole lines with zeros."""
        lines = -(-len(content) // self._line_bytes)
        content = content + bytes(lines * self._line_bytes - len(content))
        address = self.reserve(len(content))
        self.pieces.append((address, content))
        return Region(address, lines)


class LayerLayout:
    """A quantised layer in DRAM, and the orders that its operands come in.

    Attributes
    ----------
    x, context, middle, hidden : KOrder
        Operands of the projections, `output`, `intermediate` and `down`.
    query, key, value : lists of lists of WeightPanel
        By head.
    output, intermediate, down : lists of WeightPanel
    attention_norm, output_norm, exp2, piecewise, context_records : Region
    context_record : dict
        Line of the column records of a context tile that has flagged columns, counted from the first line of
        `context_records`, by tile number.
    stage_lines : int
        Lines of a row panel's context of one head, residues included, at most.
    x16, x8, output16 : Operand
    mask_address : int
    """

    def __init__(self, layer, config, *, seq, image):
        _check_layer(layer)
        self.layer, self.seq, self._n = layer, seq, config.array_n
        n = self._n
        # The order of DRAM follows the order of use, apart from what the host fills.
        self.x = pass_order(layer.input_quantize.residue)
        heads = np.arange(layer.hidden).reshape(layer.heads, layer.head_dim)
        plain = np.zeros(layer.hidden, dtype=bool)
        self.context = tiled_order(heads, layer.context_residue, n)
        self.stage_lines = max(self.head_context(head)[1] for head in range(layer.heads))
        self.middle = pass_order(layer.attention_norm.residue)
        self.hidden = tiled_order([np.arange(layer.ffn)], layer.hidden_residue, n)
        projected = tiled_order(heads, plain, n)
        stream = tiled_order([np.arange(layer.hidden)], plain, n)

        residues = int(np.count_nonzero(layer.input_quantize.residue))
        self.x8 = self._operand(image, layer.hidden + residues, "int8")
        self.x16 = self._operand(image, layer.hidden, "int16")
        self.mask_address = image.reserve(panel_count(seq, n) * n * 8)
        self.mask_lines = panel_count(seq, n) * 4

        by_head = {
            name: self._panels(image, name, linear, self.x, order, factors=factors)
            for name, linear, order, factors in (
                ("query", layer.query, projected, False),
                ("key", layer.key, projected, False),
                ("value", layer.value, self.context, True),
            )
        }
        self.query, self.key, self.value = (
            [[p for p in by_head[name] if p.tile.group == head] for head in range(layer.heads)]
            for name in ("query", "key", "value")
        )
        self.output = self._panels(image, "output", layer.output, self.context, stream)
        self.intermediate = self._panels(image, "intermediate", layer.intermediate, self.middle, self.hidden)
        self.down = self._panels(image, "down", layer.down, self.hidden, stream)

        self.attention_norm = image.place(norm_records(layer.attention_norm))
        self.output_norm = image.place(norm_records(layer.output_norm))
        self.exp2 = image.place(exp2_table())
        self.piecewise = image.place(piecewise_table(layer.gelu_base, layer.gelu_slope))
        flagged = [number for number, tile in enumerate(self.context.tiles) if tile.residues]
        self.context_record = {number: place * RECORD_LINES for place, number in enumerate(flagged)}
        self.context_records = image.place(
            b"".join(
                column_records(n, residue=np.arange(n) < self.context.tiles[number].residues)
                for number in flagged
            )
        )
        self.output16 = self._operand(image, layer.hidden, "int16")

    def head_context(self, head) -> tuple[int, int]:
        """First residue word of a head's context, and its lines: features, then residues."""
        tiles = [tile for tile in self.context.tiles if tile.group == head]
        residues = sum(even(tile.residues) for tile in tiles)
        return tiles[0].residue_first, (self.layer.head_dim + residues) // 2

    def _operand(self, image, words, dtype):
        operand = Operand(address=0, rows=self.seq, words=words, dtype=dtype)
        address = image.reserve(operand.nbytes(self._n))
        return Operand(address=address, rows=self.seq, words=words, dtype=dtype)

    def _panels(self, image, name, linear, source, result, *, factors=False):
        n = self._n
        weight = expand(linear, source, name)
        panels = []
        for tile in result.tiles:
            real = tile.features >= 0
            rows = np.zeros((tile.columns, source.k), dtype=np.int8)
            rows[real] = weight[tile.features[real]]
            parameters = {}
            for field in ("bias", "mult", "shift", "post_shift"):
                parameters[field] = np.zeros(tile.columns, dtype=np.int64)
                parameters[field][real] = np.broadcast_to(getattr(linear, field), len(weight))[
                    tile.features[real]
                ]
            if factors:
                records = factor_records(n, mult=parameters["mult"], shift=parameters["shift"])
            else:
                flags = np.arange(n) < tile.residues
                records = column_records(n, residue=flags, **parameters)
            region = image.place(pack(rows, n).tobytes() + records)
            panels.append(
                WeightPanel(
                    address=region.address,
                    lines=region.lines,
                    k=source.k,
                    tile=tile,
                    name=f"{name}.panel{len(panels)}",
                )
            )
        return panels


def _check_layer(layer):
    if layer.heads * layer.head_dim != layer.hidden:
        raise ValueError(
            f"hidden must be heads * head_dim = {layer.heads * layer.head_dim}, not {layer.hidden}"
        )
    if layer.head_dim % 2 or layer.head_dim < 2:
        raise ValueError(f"head_dim must be an even number, not {layer.head_dim}")
    if layer.hidden > MAXIMUM_WORDS:
        raise ValueError(f"hidden must be {MAXIMUM_WORDS} at most (LAYERNORM), not {layer.hidden}")
    value = layer.value
    if np.any(np.asarray(value.post_shift) != 0) or np.any(np.asarray(value.bias) != 0):
        raise ValueError("value must have neither bias nor post_shift: it is scaled by row factors")
    for name, order_words in (("projections", even(layer.hidden)), ("down", even(layer.ffn))):
        if order_words >= 1 << 16:
            raise ValueError(f"K of {name} must be below 65536, not {order_words}")
