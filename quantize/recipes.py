"""Recipes: what a whole model spends on its operands, by name.

`w8a8`: nothing. `w8a8-split`: V is wide, which gains more a cycle than anything else; channels of int8 operands are
duplicated, or a whole operand is wide, where an extra cycle gains most, up to a tenth more of the linear layers'
cycles in all. `mixed`: the same up to two fifths. `a16`: all operands are wide.
"""

import numpy as np

from bertha.errors import UserError
from bertha.golden import floating
from bertha.quantize.quantizer import Duplicates, Operands
from bertha.quantize.sensitivity import OPERANDS, operand_errors

__all__ = ["DEFAULT_RECIPE", "RECIPES", "check_recipe", "plan_operands"]

RECIPES = ("w8a8", "w8a8-split", "mixed", "a16")
DEFAULT_RECIPE = "w8a8-split"

BUDGETS = {"w8a8-split": 0.06, "mixed": 0.35}
"""Extra cycles of the linear layers, below what the recipes promise by what a wide V costs and plans' edges."""

SHARES = (0, 1 / 32, 1 / 12)
"""Shares of an operand's channels that may be duplicated."""

TOKENS = 300
"""About as many calibration tokens are what an operand's rounding is judged on."""

OUTLIER = 6.0
"""An operand is wide, whatever that costs, if a channel is that much louder than all others together: int8 would
round it as coarsely as the others are loud (see `sensitivity.operand_errors`)."""


STREAMED = np.array([name in ("projections", "intermediate") for name in OPERANDS])
"""Operands that a LayerNorm makes: a loud neuron is loud for few tokens, a loud channel for all."""


def check_recipe(recipe) -> None:
    """UserError unless there is such a recipe."""
    if recipe not in RECIPES:
        raise UserError(f"recipe must be one of {', '.join(RECIPES)}, not {recipe!r}")


def plan_operands(encoder, recipe, sentences) -> list[Operands]:
    """What each layer's operands get.

    Parameters
    ----------
    encoder : Encoder
    recipe : str
        One of `RECIPES`.
    sentences : list of Sentence
        Calibration text, of which a part is used.

    Raises
    ------
    UserError
        If there is no such recipe.
    """
    check_recipe(recipe)
    if recipe == "w8a8":
        return [Operands()] * encoder.layers
    if recipe == "a16":
        return [Operands(wide=frozenset((*OPERANDS, "value")))] * encoder.layers
    errors, outliers = operand_errors(encoder, _some(sentences), SHARES)
    return choose(errors, (outliers > OUTLIER) & STREAMED, *_sizes(encoder), BUDGETS[recipe])


def choose(errors, needed, costs, channels, budget) -> list[Operands]:
    """The plan with the smallest sum of errors that a greedy search finds.

    Parameters
    ----------
    errors : float [layers, operands, shares]
        Error of each operand by the share of its channels that is duplicated (`SHARES`); wide ones have none.
    needed : bool [layers, operands]
        Operands that are wide outside of the budget.
    costs : float [layers, operands]
        Extra cycles of all linear layers that a wide operand costs, as a part of the whole.
    channels : int [layers, operands]
    budget : float
    """
    layers, operands, _ = errors.shape
    levels = np.array([*SHARES, 1.0])  # a wide operand costs its cycles once more
    errors = np.concatenate([errors, np.zeros((layers, operands, 1))], axis=2)
    chosen = np.zeros((layers, operands), dtype=int)
    chosen[needed] = len(SHARES)
    spent = 0.0
    while True:
        best = (0.0, None)
        for index, place in np.ndindex(layers, operands):
            if not costs[index, place]:
                continue  # pruned
            now = chosen[index, place]
            for level in range(now + 1, len(levels)):
                cost = (levels[level] - levels[now]) * costs[index, place]
                gain = (errors[index, place, now] - errors[index, place, level]) / cost
                if spent + cost <= budget and gain > best[0]:
                    best = (gain, (index, place, level, cost))
        if best[1] is None:
            return [_operands(*row) for row in zip(chosen, channels, strict=True)]
        index, place, level, cost = best[1]
        chosen[index, place] = level
        spent += cost


def _operands(levels, channels):
    counts = {
        name: int(SHARES[level] * size)
        for name, level, size in zip(OPERANDS, levels, channels, strict=True)
        if level < len(SHARES)
    }
    wide = (name for name, level in zip(OPERANDS, levels, strict=True) if level == len(SHARES))
    return Operands(duplicates=Duplicates(**counts), wide=frozenset((*wide, "value")))


def _some(sentences):
    """Short and middling sentences, every so many of them: `TOKENS` tokens in all."""
    short = [sentence for sentence in sentences if sentence.tokens <= LONGEST] or sentences[:4]
    step = max(1, round(sum(sentence.tokens for sentence in short) / TOKENS))
    return short[::step]


LONGEST = 40


def _sizes(encoder) -> tuple[np.ndarray, np.ndarray]:
    """Of each layer's operands: what a wide one costs (see `choose`), and how many channels it has."""
    hidden, costs, channels = encoder.config.hidden_size, [], []
    for index in range(encoder.layers):
        living = floating.living_parts(encoder, index)
        width, ffn = len(living.features), len(living.neurons)
        costs.append([3 * hidden * width, width * hidden, hidden * ffn, ffn * hidden])
        channels.append([hidden, width, hidden, ffn])
    return np.array(costs) / np.sum(costs), np.array(channels)
