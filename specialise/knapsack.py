"""Which blocks shrink by how much, so that a model takes so many cycles at the least estimated cost."""

import numpy as np

from bertha.specialise.ablation import ATTENTION

__all__ = ["cycles_of", "kept_of", "levels_for"]


def cycles_of(curves, levels, costs) -> float:
    """Estimated cycles of a model whose blocks are at these levels (steps that went)."""
    saved = 0.0
    for key, level in levels.items():
        units = sum(len(step) for step in curves[key].steps[:level])
        saved += units * (costs.head if key[1] == ATTENTION else costs.neuron)
    return costs.whole - saved


def kept_of(curves, levels) -> dict[tuple[int, str], tuple]:
    """Heads or neurons that are left in each block."""
    return {key: curves[key].kept(level) for key, level in levels.items()}


def levels_for(curves, costs, cycles) -> dict[tuple[int, str], int]:
    """The level of each block for which the model takes at most `cycles`, if it can.

    All blocks shrink until a further cycle costs as much in each (a Lagrange multiplier, found by bisection), which is
    the order by cycles saved for what is lost.
    """
    low, high = 0.0, 1.0
    while cycles_of(curves, _at(curves, costs, high), costs) > cycles and high < 1e30:
        high *= 4
    for _ in range(60):
        middle = (low + high) / 2
        if cycles_of(curves, _at(curves, costs, middle), costs) > cycles:
            low = middle
        else:
            high = middle
    return _at(curves, costs, high)


def _at(curves, costs, price):
    """What is best if a cycle costs as much as `price` in error."""
    levels = {}
    for key, curve in curves.items():
        unit = costs.head if key[1] == ATTENTION else costs.neuron
        left = np.cumsum([0, *(len(step) for step in curve.steps)])
        levels[key] = int(np.argmin(curve.errors + price * unit * (left[-1] - left)))
    return levels
