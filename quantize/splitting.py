"""Neurons of a feed-forward network in several copies, each with a part of its outgoing weights.

Trained models write a channel that is far louder than all others through one neuron or two. Its weight takes the whole
range of that output's row, where all other weights then round to nothing. Copies of the neuron share the weight
(outlier channel splitting, Zhao et al., "Improving neural network quantization without retraining using outlier channel
splitting", 2019), which costs a word of K and an output of the network's first half each.

Copies that all rounded alike would add up to a coarse step. So each copy's pre-activation is moved by another part of
a step: together they resolve what one would with as many times finer steps (dither).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:  # without PyTorch, `most_copies` is there at once
    from bertha.golden.floating import LayerTrace, LayerWeights

__all__ = ["most_copies", "neuron_copies", "neurons_of_copies", "split_neurons"]

PANEL = 32
"""Copies come in whole panels of the widest array: a part of one would take as long."""

SHARE = 48
"""Neurons per copy, at least."""

WORTH = 0.02
"""Part of the error of rounding `down`'s weights that copies must save."""


def most_copies(ffn) -> int:
    """Copies that a layer of so many neurons may have in all."""
    return ffn // SHARE // PANEL * PANEL


def neuron_copies(weight, scale) -> np.ndarray:
    """How often each neuron should be there, int [ffn]: all once, or some more often.

    Parameters
    ----------
    weight : float64 [out, ffn]
        Outgoing weights, rows weighted by how much each output matters.
    scale : float64 [ffn]
        About the scale that int8 gives each neuron.
    """
    copies = np.ones(weight.shape[1], dtype=np.int64)
    count = most_copies(weight.shape[1])
    rows = np.abs(weight) * scale
    before = np.square(rows.max(axis=1, initial=0)).sum()
    if not count or not before:
        return copies
    for _ in range(count):
        parts = rows / copies
        place = np.arange(len(parts)), parts.argmax(axis=1)
        largest = parts[place]
        parts[place] = -1.0
        below = np.maximum(parts.max(axis=1), rows[place] / (copies[place[1]] + 1))
        gain = np.bincount(place[1], np.square(largest) - np.square(below), minlength=len(copies))
        copies[gain.argmax()] += 1
    after = np.square((rows / copies).max(axis=1)).sum()
    return copies if after < (1 - WORTH) * before else np.ones_like(copies)


def neurons_of_copies(copies) -> np.ndarray:
    """Which neuron each one of a split layer is, int [neurons]: all once, then the further copies."""
    return np.concatenate([np.arange(len(copies)), np.repeat(np.arange(len(copies)), copies - 1)])


def split_neurons(weights, trace, copies) -> tuple[LayerWeights, LayerTrace, np.ndarray]:
    """A layer with several copies of some neurons, the further ones behind all first ones.

    Parameters
    ----------
    weights : LayerWeights
    trace : LayerTrace
    copies : int [ffn]

    Returns
    -------
    weights, trace
    dither : float64 [neurons]
        By how many steps of its result each neuron's pre-activation is to be moved, -1/2 to 1/2: 0 where there is one.
    """
    which = neurons_of_copies(copies)
    number = np.concatenate([np.zeros(len(copies), int), *(np.arange(1, count) for count in copies)])
    split = replace(
        weights,
        intermediate=weights.intermediate[which],
        intermediate_bias=weights.intermediate_bias[which],
        down=(weights.down / copies)[:, which],
    )
    trace = replace(trace, pre_activation=trace.pre_activation[:, which], activated=trace.activated[:, which])
    return split, trace, (number + 0.5) / copies[which] - 0.5
