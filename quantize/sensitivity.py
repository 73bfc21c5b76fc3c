"""How much each operand's rounding costs a model: the float model runs with one operand rounded at a time."""

from contextlib import contextmanager

import numpy as np
import torch

from bertha.golden import floating
from bertha.quantize import scaling
from bertha.quantize.quantizer import Duplicates, Operands, operand_scales

__all__ = ["OPERANDS", "operand_errors"]

OPERANDS = ("projections", "output", "intermediate", "down")


def operand_errors(encoder, sentences, shares) -> np.ndarray:
    """1 minus the mean cosine of embeddings (means over tokens) with one operand in int8 and all else in float.

    Parameters
    ----------
    encoder : Encoder
    sentences : list of Sentence
        A few hundred tokens are enough.
    shares : list of float
        Shares of an operand's channels that are duplicated.

    Returns
    -------
    float64 [layers, operands, shares], in the order of `OPERANDS`
    """
    ordered = sorted(sentences, key=lambda sentence: sentence.tokens)
    batches = [floating.embedded(encoder, ordered[at : at + BATCH]) for at in range(0, len(ordered), BATCH)]
    layers = encoder.bert.encoder.layer
    traces = list(floating.trace_layers(encoder, ordered))
    reference = None
    errors = np.zeros((len(layers), len(OPERANDS), len(shares)))
    for index, (layer, trace) in enumerate(zip(layers, traces, strict=True)):
        weights = floating.layer_weights(encoder, index)
        if reference is None:
            reference = _embeddings(layers, batches)
        for place, name in enumerate(OPERANDS):
            for column, share in enumerate(shares):
                with _rounded(layer, name, _rounding(weights, trace, name, share)):
                    found = _embeddings(layers[index:], batches)
                errors[index, place, column] = 1 - np.mean(np.sum(found * reference, axis=1))
        for batch in batches:
            with torch.inference_mode():
                batch[0] = floating.first(layer(batch[0], batch[1]))
    return np.maximum(errors, 0)


BATCH = 16


def _embeddings(layers, batches):
    """Normalised means of the last layer's output over each sentence's tokens."""
    results = []
    with torch.inference_mode():
        for states, hidden_keys, real in batches:
            for layer in layers:
                states = floating.first(layer(states, hidden_keys))
            mean = (states * real[..., None]).sum(dim=1).double()
            results.append((mean / mean.norm(dim=1, keepdim=True).clamp_min(1e-30)).numpy())
    return np.concatenate(results)


def _rounding(weights, trace, name, share):
    """Scale, zero and reach of each channel of the int8 operand, as torch tensors."""
    width = len(weights.down[0]) if name == "down" else len(weights.output)
    operands = Operands(duplicates=Duplicates(**{name: int(share * width)}))
    scales, zero = operand_scales(weights, trace, name, operands)
    reach = np.where(scales.residue, scaling.REACH, 127)
    return tuple(
        torch.from_numpy(np.broadcast_to(np.asarray(part, np.float32), scales.scale.shape).copy())
        for part in (scales.scale, zero, reach)
    )


@contextmanager
def _rounded(layer, name, rounding):
    """The layer with one operand rounded."""
    scale, zero, reach = rounding
    modules = {
        "projections": [layer.attention.self.query, layer.attention.self.key, layer.attention.self.value],
        "output": [layer.attention.output.dense],
        "intermediate": [layer.intermediate.dense],
        "down": [layer.output.dense],
    }[name]

    def round_input(module, inputs):
        steps = torch.round((inputs[0] - zero) / scale)
        return (torch.minimum(torch.maximum(steps, -reach), reach) * scale + zero,)

    handles = [module.register_forward_pre_hook(round_input) for module in modules]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
