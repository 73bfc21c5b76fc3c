"""Models of a shape, without values: all that their programs and cycles depend on."""

from dataclasses import replace

import numpy as np

from bertha.golden.layer import QuantizedLayer, QuantizedLinear, QuantizedNorm
from bertha.golden.model import QuantizedModel
from bertha.quantize.splitting import most_copies

__all__ = ["OPERANDS", "RECIPES", "operand_plan", "placeholder_model"]

RECIPES = ("w8a8", "w8a8-split", "mixed", "a16")
"""As `bertha.quantize.recipes`, which imports PyTorch."""

OPERANDS = ("projections", "output", "intermediate", "down")

_SHARE = 1 / 17  # of an operand's channels that are duplicated
_SMALL_SHARE = 1 / 64


def operand_plan(shape, recipe) -> dict[str, int | str]:
    """What each operand gets where no calibration says it: a number of duplicated channels, or "wide".

    `w8a8` spends nothing, `a16` makes all operands wide, and V (`value`) is wide in all others too. `w8a8-split`
    duplicates a 17th of every operand's channels, which costs as much of the linear layers' cycles; `mixed` makes the
    operand of `down` wide, which is a third of them in a usual model, and duplicates a 64th of the others': about what the
    quantiser may spend (`bertha.quantize.recipes.BUDGETS`) on the operands that need it most, wherever these are.
    Where `down` isn't wide, its neurons have as many copies as the quantiser makes at most.
    """
    channels = dict.fromkeys(OPERANDS, shape.hidden) | {"down": shape.ffn}
    if recipe == "w8a8":
        return dict.fromkeys((*OPERANDS, "value"), 0)
    if recipe == "a16":
        return dict.fromkeys((*OPERANDS, "value"), "wide")
    if recipe == "w8a8-split":
        return {name: int(_SHARE * count) for name, count in channels.items()} | {"value": "wide"}
    if recipe == "mixed":
        plan = {name: int(_SMALL_SHARE * count) for name, count in channels.items()}
        return plan | {"down": "wide", "value": "wide"}
    raise ValueError(f"no plan for the recipe {recipe!r}")


def placeholder_model(shape, plan, *, layers=None, hard_attention=None, copies=True) -> QuantizedModel:
    """A model of zeros.

    Parameters
    ----------
    shape : bertha.models.shapes.ModelShape
    plan : dict
        Of each operand, see `operand_plan`.
    layers : int, optional
        Only so many of its layers.
    hard_attention : bertha.models.hard_attention.HardAttention, optional
    copies : bool
        Whether neurons have copies.
    """
    made = {}
    heads = shape.heads[:layers]
    for count in heads:
        if count not in made:
            made[count] = _layer(shape, count, plan, copies)
    first = made[heads[0]].input_quantize
    found = [made[count] for count in heads]
    if hard_attention is not None:
        found = [
            replace(layer, attention_keys=keys, attention_renormalised=hard_attention.renormalised)
            for layer, keys in zip(found, hard_attention.keys)
        ]
    return QuantizedModel(embedding_scale=1.0, embedding_norm=first, layers=tuple(found))


def _layer(shape, heads, plan, has_copies):
    hidden, ffn, width = shape.hidden, shape.ffn, heads * shape.head_dim
    copies = most_copies(ffn) if has_copies and plan["down"] != "wide" else 0
    ffn += copies
    channels = {"projections": hidden, "output": width, "intermediate": hidden, "down": ffn}
    flags = {name: _flags(size, plan[name]) for name, size in channels.items()}
    wide = {name: plan[name] == "wide" for name in OPERANDS}
    norms = {name: _norm(hidden, flags[name], wide[name]) for name in ("projections", "intermediate")}
    projection = _linear(width, flags["projections"])
    return QuantizedLayer(
        hidden=hidden,
        heads=heads,
        head_dim=shape.head_dim,
        ffn=ffn,
        ffn_copies=copies,
        input_quantize=norms["projections"],
        query=projection,
        key=projection,
        value=projection,
        value_wide=plan["value"] == "wide",
        score_mult=np.zeros(heads, np.uint16),
        score_shift=np.zeros(heads, np.uint8),
        context_gain=np.zeros(heads, np.uint8),
        context_residue=flags["output"],
        context_wide=wide["output"],
        output=_linear(hidden, flags["output"]),
        attention_norm=norms["intermediate"],
        intermediate=_linear(ffn, flags["intermediate"]),
        gelu_base=np.zeros(256, np.int16),
        gelu_slope=np.zeros(256, np.int16),
        hidden_residue=flags["down"],
        hidden_wide=wide["down"],
        down=_linear(hidden, flags["down"]),
        output_norm=norms["projections"],
        input_scale=1.0,
        middle_scale=1.0,
        output_scale=1.0,
    )


def _flags(size, plan):
    """Which channels are duplicated: some, evenly apart."""
    flags = np.zeros(size, dtype=bool)
    if plan != "wide" and plan:
        flags[np.arange(plan) * size // plan] = True
    return flags


def _linear(out, flags):
    found = np.flatnonzero(flags)
    return QuantizedLinear(
        weight=np.zeros((out, len(flags) + len(found)), np.int8),
        duplicates=found,
        bias=np.zeros(out, np.int32),
        mult=np.zeros(out, np.uint16),
        shift=np.zeros(out, np.uint8),
        post_shift=np.zeros(out, np.uint8),
    )


def _norm(hidden, flags, wide):
    return QuantizedNorm(
        gamma=np.zeros(hidden, np.int16),
        beta=np.zeros(hidden, np.int16),
        mult=np.zeros(hidden, np.uint16),
        gamma_shift=0,
        mult_shift=0,
        epsilon=1,
        residue=flags,
        wide=wide,
    )
