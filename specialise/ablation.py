"""Which heads and neurons a layer can spare: orders in which they go, and what each step is estimated to cost.

Steps are heads, and groups of neurons. All methods give the same, a `Curve` for each block, so that one knapsack serves
them all:

- `reconstruct`: what the block's sum still lacks after the best linear repair by what is left (optimal brain surgeon,
  Hassibi and Stork, 1993, for whole columns), each token and channel weighted by how much the task's scores depend on it.
- `fisher`: squared gradients of the loss in a mask on each head and neuron (Kwon et al., "A fast post-training pruning
  framework for transformers", 2022).
- `magnitude`: squared weights that read the head or the neuron. `random`: any.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional

from bertha.golden import floating
from bertha.specialise.rows import logits_of

__all__ = ["ATTENTION", "FFN", "METHODS", "Curve", "Statistics", "curves", "linear_of", "measure"]

METHODS = ("reconstruct", "fisher", "magnitude", "random")
ATTENTION, FFN = "attention", "ffn"
STEPS = 48
"""Of a feed-forward block."""

RIDGE = 0.03
"""Added to the diagonal of second moments, as a part of its mean."""


@dataclass(frozen=True, eq=False)
class Curve:
    """How a block may shrink.

    Attributes
    ----------
    steps : list of list of int
        Heads or neurons that go, step by step.
    errors : float [steps + 1]
        Estimated cost of the first so many steps, in a unit that all of a method's curves share.
    """

    steps: list
    errors: np.ndarray

    def kept(self, level) -> tuple:
        """Heads or neurons that are left after so many steps, ascending."""
        return tuple(sorted(unit for step in self.steps[level:] for unit in step))


@dataclass(frozen=True, eq=False)
class Statistics:
    """What is known of a block's linear layer behind its heads or neurons.

    Attributes
    ----------
    weight : float64 [hidden, columns]
        A head is several columns, a neuron one.
    moments : float64 [columns, columns]
        Weighted covariance of what it reads.
    channels : float64 [hidden]
        How much the scores depend on each output, 1 on average.
    tokens : list of float32 [B, S]
        By batch, how much they depend on each token.
    masks : float64 [columns]
        Mean squared gradient of the loss in a mask on each head (the same for all its columns) or neuron.
    """

    weight: np.ndarray
    moments: np.ndarray
    channels: np.ndarray
    tokens: list
    masks: np.ndarray


def linear_of(layer, kind) -> torch.nn.Linear:
    """The linear layer behind a block's heads or neurons."""
    return layer.attention.output.dense if kind == ATTENTION else layer.output.dense


def measure(
    encoder, batches, *, seed=0, advance=lambda done, total: None
) -> dict[tuple[int, str], Statistics]:
    """Statistics of all blocks on some rows, by layer and kind.

    Two backward passes a batch: of a random direction in the scores, whose squared gradients are on average those of all
    scores together, and of the loss.
    """
    generator = torch.Generator().manual_seed(seed)
    layers = encoder.bert.encoder.layer
    keys = [(index, kind) for index in range(len(layers)) for kind in (ATTENTION, FFN)]
    sums = {key: _Sums() for key in keys}
    for number, batch in enumerate(batches):
        seen, hooks = {}, []
        for key in keys:
            linear = linear_of(layers[key[0]], key[1])
            hooks.append(linear.register_forward_hook(_keep(seen, key)))
        states = batch.states.clone().requires_grad_()
        try:
            with torch.enable_grad():
                for layer in layers:
                    states = floating.first(layer(states, batch.hidden_keys))
                logits = logits_of(encoder.classifier, states)
                signs = torch.randint(0, 2, logits.shape, generator=generator) * 2.0 - 1
                direction = (logits * (signs - signs.mean(dim=1, keepdim=True))).sum()
                loss = functional.cross_entropy(logits, batch.labels, reduction="sum")
        finally:
            for hook in hooks:
                hook.remove()
        outputs = [seen[key][1] for key in keys]
        by_scores = torch.autograd.grad(direction, outputs, retain_graph=True)
        by_loss = torch.autograd.grad(loss, outputs)
        for key, scores, losses in zip(keys, by_scores, by_loss):
            heads = encoder.config.num_attention_heads if key[1] == ATTENTION else None
            weight = linear_of(layers[key[0]], key[1]).weight.detach()
            sums[key].add(seen[key][0].detach(), scores, losses, weight, batch.real, heads)
        advance(number + 1, len(batches))
    return {key: sums[key].statistics(linear_of(layers[key[0]], key[1]).weight.detach()) for key in keys}


def _keep(seen, key):
    def hook(module, inputs, output):
        seen[key] = inputs[0], output

    return hook


class _Sums:
    """What `Statistics` are made of, batch by batch."""

    def __init__(self):
        self.tokens, self.rows, self.total = [], 0, 0.0
        self.products = self.first = self.channels = self.masks = 0.0
        self.middle = None  # about the mean: a covariance is what little is left of large moments

    def add(self, inputs, by_scores, by_loss, weight, real, heads):
        share = by_scores.square().mean(dim=2) * real
        self.tokens.append(share)
        self.channels = self.channels + by_scores.square().sum(dim=(0, 1)).double()
        flat, weights = inputs[real], share[real]
        self.middle = flat.mean(dim=0) if self.middle is None else self.middle
        flat = flat - self.middle
        self.products = self.products + ((flat * weights[:, None]).T @ flat).double()
        self.first = self.first + (weights @ flat).double()
        self.total += float(weights.sum())
        masks = (inputs * (by_loss @ weight) * real[..., None]).sum(dim=1)
        if heads:  # one mask a head
            masks = masks.unflatten(1, (heads, -1)).sum(dim=2, keepdim=True)
            masks = masks.expand(-1, -1, inputs.shape[2] // heads).flatten(1)
        self.masks = self.masks + masks.square().sum(dim=0).double()
        self.rows += len(inputs)

    def statistics(self, weight):
        mean = self.first / self.total if self.total else self.first
        return Statistics(
            weight=weight.double().numpy(),
            moments=(self.products - self.total * torch.outer(mean, mean)).numpy(),
            channels=(self.channels / self.channels.mean().clamp(min=1e-30)).numpy(),
            tokens=self.tokens,
            masks=(self.masks / self.rows).numpy(),
        )


def curves(statistics, method, *, heads, seed=0) -> dict[tuple[int, str], Curve]:
    """How each block may shrink, by layer and kind.

    Parameters
    ----------
    statistics : dict
        See `measure`.
    method : str
        One of `METHODS`.
    heads : int
        Of a layer.
    seed : int
        Of `random`.
    """
    generator = np.random.default_rng(seed)
    found = {}
    for key, one in statistics.items():
        columns = one.weight.shape[1]
        count = heads if key[1] == ATTENTION else columns
        units = [list(part) for part in np.arange(columns).reshape(count, -1)]
        steps = count if key[1] == ATTENTION else min(STEPS, count)
        if method == "reconstruct":
            found[key] = _surgeon(one, units, steps)
            continue
        if method == "fisher":
            worth = np.array([one.masks[unit[0]] for unit in units])
        elif method == "magnitude":
            worth = np.array([np.square(one.weight[:, unit]).sum() for unit in units])
            worth /= worth.sum() or 1.0
        else:
            worth = generator.permutation(np.linspace(0.9, 1.1, count)) / count
        parts = np.array_split(np.argsort(worth, kind="stable"), steps)
        errors = np.cumsum([0.0, *(worth[part].sum() for part in parts)])
        found[key] = Curve([part.tolist() for part in parts], errors)
    return found


def _surgeon(one, units, steps):
    """Step by step the cheapest units go, and what is left makes up for them as well as it can."""
    left = list(range(len(units)))
    columns = np.concatenate(units)
    moments = one.moments + RIDGE * max(np.trace(one.moments) / len(one.moments), 1e-30) * np.eye(
        len(columns)
    )
    inverse = np.linalg.inv(moments)
    weight = one.weight * np.sqrt(one.channels)[:, None]
    size, order, errors = len(units[0]), [], [0.0]
    for part in np.array_split(np.arange(len(units)), steps):
        costs = _costs(weight, inverse, size)
        chosen = np.sort(np.argsort(costs, kind="stable")[: len(part)])
        gone = (chosen[:, None] * size + np.arange(size)).reshape(-1)
        rest = np.setdiff1d(np.arange(weight.shape[1]), gone)
        block = np.linalg.inv(inverse[np.ix_(gone, gone)])
        errors.append(errors[-1] + float(np.einsum("oi,ij,oj->", weight[:, gone], block, weight[:, gone])))
        across = block @ inverse[np.ix_(gone, rest)]
        weight = weight[:, rest] - weight[:, gone] @ across
        inverse = inverse[np.ix_(rest, rest)] - inverse[np.ix_(rest, gone)] @ across
        order.append([left[place] for place in chosen])
        left = [unit for place, unit in enumerate(left) if place not in set(chosen.tolist())]
    return Curve(order, np.array(errors))


def _costs(weight, inverse, size):
    """What it costs to let one unit go, by unit."""
    if size == 1:
        return np.square(weight).sum(axis=0) / np.diag(inverse)
    costs = []
    for start in range(0, weight.shape[1], size):
        part = slice(start, start + size)
        block = np.linalg.inv(inverse[part, part])
        costs.append(np.einsum("oi,ij,oj->", weight[:, part], block, weight[:, part]))
    return np.array(costs)
