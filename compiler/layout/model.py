"""The DRAM image of a whole model: its layers, and what the host fills or reads for every run."""

from enum import Enum

import numpy as np

from bertha.compiler.ablations import Ablations
from bertha.compiler.hazards.accesses import RANGE_LINES, RECORD_LINES
from bertha.compiler.layout.image import LayerLayout
from bertha.compiler.layout.panels import pack, panel_count
from bertha.compiler.layout.records import exp2_table, norm_records
from bertha.compiler.program import Operand

__all__ = ["IDENTITY", "ModelLayout", "Source"]

IDENTITY = 16
"""The diagonal of the identity that passes use: the product of a wide operand is divided by this."""


class Source(Enum):
    """Where the first layer's input comes from.

    EMBEDDINGS: the host's int16 sums of embeddings go through the embedding LayerNorm. STREAM: the host's
    int16 values are the layer's input; its int8 operand is made of them. OPERANDS: the host gives both.
    """

    EMBEDDINGS = "embeddings"
    STREAM = "stream"
    OPERANDS = "operands"


class ModelLayout:
    """Layers in DRAM, one after another, with inputs before them and the output behind.

    Attributes
    ----------
    layers : list of LayerLayout
    seq, panels : int
        Tokens, and row panels that they make.
    source : Source
    x16 : Operand
        int16 input [S, hidden].
    x8 : Operand or None
        int8 operand of the first layer, of Source.OPERANDS alone.
    first_norm : QuantizedNorm or None
        What makes the first layer's operand of `x16`; its records are `first_records`.
    ranges_address, mask_address : int or None
        Range records of the rows, and column records of the key mask, if the program has one.
    range_lines, mask_lines : int
    zeros : Region
        A line of zeros.
    attends : bool
        Whether a layer has heads.
    bare : bool
        Whether a layer has no heads or no neurons, so that a LayerNorm is that of the bare residual.
    exp2 : Region
    ablations : Ablations
    constants : Region or None
        A line of zeros and the identity's panel, for passes.
    output16 : Operand
        int16 output [S, hidden] of the last layer.
    """

    def __init__(
        self, layers, config, *, seq, image, source, first_norm=None, key_mask=False, ablations=None
    ):
        n = config.array_n
        self.ablations = ablations or Ablations()
        self.seq, self.panels, self.source, self.first_norm = seq, panel_count(seq, n), source, first_norm
        self._image, self._n = image, n
        hidden = layers[0].hidden
        self.x16 = self._operand(hidden, "int16")
        self.range_lines = RANGE_LINES * self.panels
        self.ranges_address = image.reserve(self.range_lines * config.line_bytes)
        self.mask_lines = RECORD_LINES * self.panels if key_mask else 0
        self.mask_address = image.reserve(self.mask_lines * config.line_bytes) if key_mask else None
        self.zeros = image.place(bytes(config.line_bytes))
        self.exp2 = image.place(exp2_table())
        self.first_records = None if first_norm is None else image.place(norm_records(first_norm))
        self.attends = any(layer.heads for layer in layers)
        self.bare = any(not (layer.heads and layer.ffn) for layer in layers)
        self.layers = [LayerLayout(layer, config, image=image, ablations=self.ablations) for layer in layers]
        self.constants = None
        if self.ablations.needs_constants:
            identity = pack(np.eye(n, dtype=np.int8) * IDENTITY, n).tobytes()
            self.constants = image.place(bytes(config.line_bytes) + identity)
        self.x8 = None
        if source == Source.OPERANDS:
            first = layers[0].input_quantize
            residues = hidden if first.wide else int(first.residue.sum())
            self.x8 = self._operand(hidden + residues, "int8")
        self.output16 = self._operand(hidden, "int16")

    def _operand(self, words, dtype):
        operand = Operand(address=0, rows=self.seq, words=words, dtype=dtype)
        address = self._image.reserve(operand.nbytes(self._n))
        return Operand(address=address, rows=self.seq, words=words, dtype=dtype)
