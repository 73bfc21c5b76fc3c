"""The DRAM image of a layer: where weights and parameters lie."""

from dataclasses import dataclass, replace

import numpy as np

from bertha.compiler.hazards.accesses import FACTOR_LINES, RECORD_LINES
from bertha.compiler.layout.order import expand, pass_order, tiled_order
from bertha.compiler.layout.panels import even, pack
from bertha.compiler.layout.records import (
    column_records,
    factor_records,
    norm_records,
    pack_records,
    piecewise_table,
)
from bertha.rtl.isa import MAXIMUM_WORDS, NormRecord

__all__ = ["REQUANTISE_SHIFT", "Image", "LayerLayout", "Region", "WeightPanel"]

REQUANTISE_SHIFT = 15
"""Right shift of a requantisation that is a pass: the most that a column record's post_shift can be."""


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
    """Hands out DRAM from `base` on, in multiples of `alignment` bytes, and collects what lies there.

    Without `contents`, only places are handed out: for predictions.
    """

    def __init__(self, config, base, *, contents=True):
        self.alignment = max(config.burst_beats * config.axi_data_bytes, config.line_bytes, 64)
        if base % self.alignment:
            raise ValueError(f"the DRAM base must be a multiple of {self.alignment}, not {base}")
        self.base = self.end = base
        self.pieces = []
        self._contents = contents
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
        return self.place_lines(lines, lambda: content + bytes(lines * self._line_bytes - len(content)))

    def place_lines(self, lines, make) -> Region:
        """Region of the `lines` lines that `make()` returns."""
        address = self.reserve(lines * self._line_bytes)
        if self._contents:
            self.pieces.append((address, make()))
        return Region(address, lines)

    @property
    def has_contents(self) -> bool:
        """Whether it collects what lies there."""
        return self._contents


class LayerLayout:
    """A quantised layer in DRAM, and the orders that its operands come in.

    Attributes
    ----------
    x, context, middle, hidden : KOrder
        Operands of the projections, `output`, `intermediate` and `down`.
    query, key, value : lists of lists of WeightPanel
        By head.
    output, intermediate, down : lists of WeightPanel
    attention_norm, output_norm, piecewise, context_records : Region
    gelu_records, hidden_records : Region or None
        Of the passes that are GELU or the requantisation of hidden values, if they are no part of the drain: column
        records, N a tile, and norm records, one a word.
    context_record : dict
        Line of the column records of a context tile that has flagged columns, counted from the first line of
        `context_records`, by tile number.
    stage_lines : int
        Lines of a row panel's context of one head, residues or low plane included, at most.
    """

    def __init__(self, layer, config, *, image, ablations):
        _check_layer(layer)
        self.layer, self._n = layer, config.array_n
        n = self._n
        width = layer.heads * layer.head_dim
        # The order of DRAM follows the order of use.
        self.x = pass_order(layer.input_quantize.residue, wide=layer.input_quantize.wide)
        heads = np.arange(width).reshape(layer.heads, layer.head_dim)
        plain = np.zeros(max(width, layer.hidden), dtype=bool)
        self.context = tiled_order(heads, layer.context_residue, n, wide=layer.context_wide)
        self.stage_lines = max((self.head_context(head)[1] for head in range(layer.heads)), default=0)
        self.middle = pass_order(layer.attention_norm.residue, wide=layer.attention_norm.wide)
        self.hidden = tiled_order([np.arange(layer.ffn)], layer.hidden_residue, n, wide=layer.hidden_wide)
        projected = tiled_order(heads, plain, n)
        stream = tiled_order([np.arange(layer.hidden)], plain, n)

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
        output, intermediate, down = layer.output, layer.intermediate, layer.down
        # Planes for a pass have all of the 16 bits that the drain's own arithmetic goes on with.
        if ablations.residual != "drain":
            output, down = _without_post_shift(output), _without_post_shift(down)
        if ablations.gelu != "drain":
            intermediate = _without_post_shift(intermediate)
        self.output = self._panels(image, "output", output, self.context, stream)
        self.intermediate = self._panels(image, "intermediate", intermediate, self.middle, self.hidden)
        self.down = self._panels(image, "down", down, self.hidden, stream)

        self.attention_norm = image.place(norm_records(layer.attention_norm))
        self.output_norm = image.place(norm_records(layer.output_norm))
        table = piecewise_table(layer.gelu_base, layer.gelu_slope) if layer.ffn else b""
        self.piecewise = image.place(table)
        flagged = [number for number, tile in enumerate(self.context.tiles) if tile.residues]
        self.context_record = {number: place * RECORD_LINES for place, number in enumerate(flagged)}
        self.context_records = image.place(
            b"".join(
                column_records(n, residue=np.arange(n) < self.context.tiles[number].residues)
                for number in flagged
            )
        )
        self.gelu_records = self.hidden_records = None
        if ablations.gelu != "drain":
            self.gelu_records = image.place(self._gelu_records())
        if ablations.requantisation != "drain":
            self.hidden_records = image.place(self._hidden_records())

    def head_context(self, head) -> tuple[int, int]:
        """First residue (or low) word of a head's context, and its lines in all."""
        tiles = [tile for tile in self.context.tiles if tile.group == head]
        if self.context.wide:
            return tiles[0].residue_first, self.layer.head_dim
        residues = sum(even(tile.residues) for tile in tiles)
        return tiles[0].residue_first, (self.layer.head_dim + residues) // 2

    def _post_shifts(self, tile):
        """Of a tile's hidden words; 0 for padding."""
        shifts = np.broadcast_to(self.layer.intermediate.post_shift, self.layer.ffn).astype(np.int64)
        return np.where(tile.features >= 0, shifts[tile.features], 0)

    def _gelu_records(self):
        """Column records that leave int16 values as they are, and then do what those of `intermediate` do after GELU."""
        return b"".join(
            column_records(
                self._n,
                mult=1,
                post_shift=self._post_shifts(tile),
                residue=np.arange(self._n) < tile.residues,
            )
            for tile in self.hidden.tiles
        )

    def _hidden_records(self):
        """Norm records that shift hidden words right by post_shift: mult = 2^(mult_shift - post_shift)."""
        tiles = self.hidden.tiles
        shifts = np.concatenate([self._post_shifts(tile) for tile in tiles])
        flags = np.concatenate([np.arange(tile.columns) < tile.residues for tile in tiles])
        return pack_records(NormRecord, len(shifts), mult=1 << REQUANTISE_SHIFT - shifts, residue=flags)

    def _panels(self, image, name, linear, source, result, *, factors=False):
        if not source.k:
            return []
        weight = expand(linear, source, name) if image.has_contents else None
        lines = source.k // 2 + (FACTOR_LINES if factors else RECORD_LINES)
        panels = []
        for tile in result.tiles:
            region = image.place_lines(
                lines, lambda tile=tile: self._panel(linear, weight, tile, factors=factors)
            )
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

    def _panel(self, linear, weight, tile, *, factors):
        """A panel of weights and its records, as bytes."""
        n = self._n
        real = tile.features >= 0
        rows = np.zeros((tile.columns, weight.shape[1]), dtype=np.int8)
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
            records = column_records(n, residue=np.arange(n) < tile.residues, **parameters)
        return pack(rows, n).tobytes() + records


def _without_post_shift(linear):
    return replace(linear, post_shift=np.zeros_like(linear.post_shift))


def _check_layer(layer):
    if layer.head_dim % 2 or layer.head_dim < 2:
        raise ValueError(f"head_dim must be an even number, not {layer.head_dim}")
    if layer.hidden > MAXIMUM_WORDS or layer.hidden % 2:
        raise ValueError(
            f"hidden must be an even number up to {MAXIMUM_WORDS} (LAYERNORM), not {layer.hidden}"
        )
    width = layer.heads * layer.head_dim
    for name in ("query", "key", "value"):
        if len(getattr(layer, name).weight) != width:
            raise ValueError(
                f"{name} must have heads * head_dim = {width} output features, not "
                f"{len(getattr(layer, name).weight)}"
            )
    value = layer.value
    if np.any(np.asarray(value.post_shift) != 0) or np.any(np.asarray(value.bias) != 0):
        raise ValueError("value must have neither bias nor post_shift: it is scaled by row factors")
    for name, order_words in (("projections", even(layer.hidden)), ("down", even(layer.ffn))):
        if order_words >= 1 << 16:
            raise ValueError(f"K of {name} must be below 65536, not {order_words}")
