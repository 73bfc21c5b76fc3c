"""How much each operand's rounding costs a model's embeddings, to first order.

An error d of an operand moves a sentence's embedding by J d. What that costs, 1 minus the cosine, is half the
squared length, which is the mean of (v . J d)**2 / 2 over random v with unit covariance. One backward pass gives
v . J for every operand of every layer at once (Hutchinson, "A stochastic estimator of the trace of the influence
matrix", 1989).
"""

from contextlib import ExitStack

import numpy as np
import torch

from bertha.golden import floating
from bertha.quantize import scaling
from bertha.quantize.balancing import Channels, rounded_share
from bertha.quantize.quantizer import Duplicates, Operands, layer_copies, operand_scales
from bertha.quantize.splitting import neurons_of_copies, split_neurons

__all__ = ["OPERANDS", "operand_errors"]

OPERANDS = ("projections", "output", "intermediate", "down")
BATCH = 16
PROBES = 6


def operand_errors(encoder, sentences, shares, seed=0) -> tuple[np.ndarray, np.ndarray]:
    """1 minus the mean cosine of embeddings (means over tokens) that int8 in one operand alone costs.

    Parameters
    ----------
    encoder : Encoder
    sentences : list of Sentence
        A few hundred tokens are enough.
    shares : list of float
        Shares of an operand's channels that are duplicated.
    seed : int
        Of the random directions.

    Returns
    -------
    errors : float64 [layers, operands, shares], in the order of `OPERANDS`
    outliers : float64 [layers, operands]
        What the operand's loudest channel contributes to the linear layer at its peak, over what all others do
        together (root mean square).
    """
    ordered = sorted(sentences, key=lambda sentence: sentence.tokens)
    gradients = _gradients(encoder, ordered, np.random.default_rng(seed))
    result = np.zeros((encoder.layers, len(OPERANDS), len(shares)))
    outliers = np.zeros(result.shape[:2])
    for index, trace in enumerate(floating.trace_layers(encoder, ordered)):
        weights, living = floating.layer_weights(encoder, index), floating.living_parts(encoder, index)
        starts = np.cumsum([0, *trace.lengths[:-1]])
        for place, name in enumerate(OPERANDS):
            if not _reach(weights, name).size:
                continue  # nobody reads it
            felt = living.of(_INNER.get(name), gradients[index, name])
            outliers[index, place] = _outlier(weights, _values(trace, name), name)
            for column, share in enumerate(shares):
                error, weights_too = _rounding_error(weights, trace, name, share)
                moved = np.einsum("ptc,tc->tp", felt, error)
                lost = np.mean(np.square(np.add.reduceat(moved, starts))) / 2
                result[index, place, column] = lost * (1 + weights_too)
    return result, outliers


_INNER = {"output": "context", "down": "activated"}
"""Operands of which a pruned layer has fewer channels, by their name in a trace."""


def _values(trace, name):
    """What an operand is in float, [tokens, channels]."""
    return {
        "projections": trace.inputs,
        "output": trace.context,
        "intermediate": trace.attention_out,
        "down": trace.activated,
    }[name]


def _reach(weights, name):
    """Weights [out, channels] that an operand meets."""
    if name == "projections":
        return np.concatenate([weights.query, weights.key, weights.value])
    return getattr(weights, name)


def _outlier(weights, values, name):
    """See `operand_errors`. A constant contributes nothing: a bias takes it up."""
    reach = np.square(_reach(weights, name)).sum(axis=0)
    power = values.var(axis=0, dtype=np.float64) * reach
    peak = np.square(values).max(axis=0).astype(np.float64) * reach
    loudest = np.argmax(peak)
    rest = power.sum() - power[loudest]
    return float(np.sqrt(peak[loudest] / rest)) if rest > 0 else 0.0


def _rounding_error(weights, trace, name, share):
    """What int8 does to an operand, and what it costs to round weights in proportion.

    The first is float32 [tokens, channels], without the mean, which a bias takes up. Copies of a neuron share it.
    """
    operands = Operands(duplicates=Duplicates(**{name: int(share * _values(trace, name).shape[1])}))
    which, dither = None, 0.0
    if name == "down":
        copies = layer_copies(weights, trace)
        which = neurons_of_copies(copies)
        weights, trace, dither = split_neurons(weights, trace, copies)
    values = _values(trace, name)
    scales, zero = operand_scales(weights, trace, name, operands)
    reach = np.where(scales.residue, scaling.REACH, 127)
    steps = np.clip(np.round((values - zero) / scales.scale + dither), -reach, reach) - dither
    error = steps * scales.scale + zero - values
    error -= error.mean(axis=0)
    living = (np.ptp(values, axis=0) > 0) & _reach(weights, name).any(axis=0)
    ratio = 0.0
    if living.any():
        channels = Channels.of(values[:, living])
        ratio = rounded_share(channels, _reach(weights, name)[:, living], scales.scale[living])
    if which is not None:
        together = np.zeros((len(error), len(copies)))
        np.add.at(together.T, which, (error / copies[which]).T)
        error = together
    return error.astype(np.float32), ratio


def _gradients(encoder, sentences, generator):
    """Gradients [probes, tokens, channels] of random directions of the embedding, by layer and operand."""
    parts = {}
    for start in range(0, len(sentences), BATCH):
        states, hidden_keys, real = (
            part.clone() for part in floating.embedded(encoder, sentences[start : start + BATCH])
        )
        states.requires_grad_()
        with ExitStack() as stack, torch.enable_grad():
            copies = [_copies(stack, layer) for layer in encoder.bert.encoder.layer]
            for layer in encoder.bert.encoder.layer:
                states = floating.first(layer(states, hidden_keys))
            embedding = torch.nn.functional.normalize((states * real[..., None]).sum(dim=1), dim=1)
        wanted = [copy for by_name in copies for found in by_name.values() for copy in found]
        for _ in range(PROBES):
            direction = torch.from_numpy(generator.standard_normal(embedding.shape)).float()
            found = torch.autograd.grad((embedding * direction).sum(), wanted, retain_graph=True)
            found = iter(found)
            for index, by_name in enumerate(copies):
                for name, used in by_name.items():
                    total = sum(next(found) for _ in used)
                    parts.setdefault((index, name), []).append(total[real].numpy())
    return {
        key: np.stack([np.concatenate(values[probe::PROBES]) for probe in range(PROBES)])
        for key, values in parts.items()
    }


def _copies(stack, layer):
    """Makes each linear layer read a copy of its operand; the copies of the next run, by operand."""
    modules = {
        "projections": [layer.attention.self.query, layer.attention.self.key, layer.attention.self.value],
        "output": [layer.attention.output.dense],
        "intermediate": [layer.intermediate.dense],
        "down": [layer.output.dense],
    }
    copies = {name: [] for name in OPERANDS}

    def hook(name):
        def copy(module, inputs):
            copies[name].append(inputs[0].clone())
            return (copies[name][-1],)

        return copy

    for name, found in modules.items():
        for module in found:
            stack.callback(module.register_forward_pre_hook(hook(name)).remove)
    return copies
