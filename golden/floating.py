"""The float tier: Hugging Face's BertModel, and what its layers compute on the way."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import numpy as np
import torch

__all__ = [
    "LayerTrace",
    "LayerWeights",
    "LivingParts",
    "embedded",
    "first",
    "layer_reference",
    "layer_weights",
    "living_parts",
    "trace_layer",
    "trace_layers",
]

BATCH = 16


@dataclass(frozen=True, eq=False, kw_only=True)
class LayerWeights:
    """One encoder layer's parameters in float64; weights are [out, in]. Without heads and neurons that add nothing.

    `attention_keys`, `attention_renormalised`: see `bertha.golden.layer.QuantizedLayer`.
    """

    heads: int
    head_dim: int
    epsilon: float
    query: np.ndarray
    query_bias: np.ndarray
    key: np.ndarray
    key_bias: np.ndarray
    value: np.ndarray
    value_bias: np.ndarray
    output: np.ndarray
    output_bias: np.ndarray
    attention_gamma: np.ndarray
    attention_beta: np.ndarray
    intermediate: np.ndarray
    intermediate_bias: np.ndarray
    down: np.ndarray
    down_bias: np.ndarray
    output_gamma: np.ndarray
    output_beta: np.ndarray
    attention_keys: int = 0
    attention_renormalised: bool = True


@dataclass(frozen=True, eq=False, kw_only=True)
class LayerTrace:
    """What a layer computed for some sentences: real tokens only, one sentence after the other.

    Attributes
    ----------
    lengths : list of int
        Real tokens of each sentence.
    inputs, attention_sum, attention_out, ffn_sum, outputs : [tokens, hidden]
        float32. The sums are the inputs of the two LayerNorms.
    query, key, value, context : [tokens, heads * head_dim]
        Projections with their biases; of the heads that `layer_weights` has.
    pre_activation, activated : [tokens, ffn]
        Of the neurons that `layer_weights` has.
    """

    lengths: list
    inputs: np.ndarray
    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    context: np.ndarray
    attention_sum: np.ndarray
    attention_out: np.ndarray
    pre_activation: np.ndarray
    activated: np.ndarray
    ffn_sum: np.ndarray
    outputs: np.ndarray


def layer_reference(encoder, sentence, index) -> tuple[np.ndarray, np.ndarray]:
    """Input and output of layer `index` for one sentence, float32 [S, hidden] each, padding included.

    BertModel runs with the sentence's attention mask; these are two of its hidden states.
    """
    _check_layer(encoder, index)
    with torch.inference_mode():
        states = encoder.bert(
            input_ids=torch.from_numpy(sentence.ids)[None],
            attention_mask=torch.from_numpy(sentence.mask)[None].long(),
            output_hidden_states=True,
        ).hidden_states
    return states[index][0].numpy(), states[index + 1][0].numpy()


def trace_layer(encoder, sentences, index) -> LayerTrace:
    """What layer `index` computes for the sentences, as a `LayerTrace`."""
    _check_layer(encoder, index)
    order = sorted(range(len(sentences)), key=lambda i: sentences[i].tokens)
    parts = {}
    lengths = []
    living = living_parts(encoder, index)
    with _first_layers(encoder.bert, index + 1) as bert, torch.inference_mode():
        for start in range(0, len(order), BATCH):
            batch = [sentences[i] for i in order[start : start + BATCH]]
            ids, mask, segments = _padded(batch)
            with _captured(bert.encoder.layer[index]) as captured:
                bert(input_ids=ids, attention_mask=mask, token_type_ids=segments)
            lengths += [sentence.tokens for sentence in batch]
            for name, value in captured.items():
                parts.setdefault(name, []).append(living.of(name, value[mask.bool()].numpy()))
    return LayerTrace(lengths=lengths, **{name: np.concatenate(part) for name, part in parts.items()})


def trace_layers(encoder, sentences) -> Iterator[LayerTrace]:
    """What each layer in turn computes for the sentences: `trace_layer` of all, in one pass.

    Only one layer's tensors are held at a time. The sentences come in ascending order of their lengths.
    """
    ordered = sorted(sentences, key=lambda sentence: sentence.tokens)
    batches = [embedded(encoder, ordered[start : start + BATCH]) for start in range(0, len(ordered), BATCH)]
    lengths = [sentence.tokens for sentence in ordered]
    for index, layer in enumerate(encoder.bert.encoder.layer):
        parts, living = {}, living_parts(encoder, index)
        for batch in batches:
            states, hidden_keys, real = batch
            with torch.inference_mode(), _captured(layer) as captured:
                layer(states, hidden_keys)
            batch[0] = captured["outputs"]
            for name, value in captured.items():
                parts.setdefault(name, []).append(living.of(name, value[real].numpy()))
        yield LayerTrace(lengths=lengths, **{name: np.concatenate(parts.pop(name)) for name in list(parts)})


def layer_weights(encoder, index) -> LayerWeights:
    """Parameters of layer `index`.

    Heads and neurons whose weights in the next linear layer are all zero add nothing, whatever they compute: they aren't
    there. Of a block with a bias one is left at least.
    """
    _check_layer(encoder, index)
    layer, living = encoder.bert.encoder.layer[index], living_parts(encoder, index)

    def array(parameter):
        return parameter.detach().numpy().astype(np.float64)

    linears = {
        "query": layer.attention.self.query,
        "key": layer.attention.self.key,
        "value": layer.attention.self.value,
        "output": layer.attention.output.dense,
        "intermediate": layer.intermediate.dense,
        "down": layer.output.dense,
    }
    return LayerWeights(
        heads=living.heads,
        head_dim=encoder.config.hidden_size // encoder.config.num_attention_heads,
        epsilon=encoder.config.layer_norm_eps,
        attention_keys=getattr(layer.attention.self, "attention_keys", 0),
        attention_renormalised=getattr(layer.attention.self, "attention_renormalised", True),
        attention_gamma=array(layer.attention.output.LayerNorm.weight),
        attention_beta=array(layer.attention.output.LayerNorm.bias),
        output_gamma=array(layer.output.LayerNorm.weight),
        output_beta=array(layer.output.LayerNorm.bias),
        **{
            name: living.of(_OPERANDS.get(name), living.of(name, array(linear.weight), axis=0))
            for name, linear in linears.items()
        },
        **{f"{name}_bias": living.of(name, array(linear.bias)) for name, linear in linears.items()},
    )


_OPERANDS = {"output": "context", "down": "activated"}
"""Inputs of linear layers that a pruned layer has fewer of."""


@dataclass(frozen=True, eq=False)
class LivingParts:
    """Heads and neurons that the next linear layer listens to: their number, and the places of what they compute."""

    heads: int
    features: np.ndarray
    neurons: np.ndarray

    def of(self, name, values, axis=-1) -> np.ndarray:
        """What is left of a layer's inner values or weights along an axis, by the name of what there is one of in it."""
        if name in ("query", "key", "value", "context"):
            kept = self.features
        elif name in ("intermediate", "pre_activation", "activated"):
            kept = self.neurons
        else:
            return values
        return values if len(kept) == values.shape[axis] else np.take(values, kept, axis=axis)


def living_parts(encoder, index) -> LivingParts:
    """What the quantiser and the integer model have of layer `index`."""
    layer, heads = encoder.bert.encoder.layer[index], encoder.config.num_attention_heads
    heard = layer.attention.output.dense.weight.detach().numpy().any(axis=0).reshape(heads, -1)
    living = _some(heard.any(axis=1), layer.attention.output.dense)
    size = heard.shape[1]
    return LivingParts(
        heads=len(living),
        features=(living[:, None] * size + np.arange(size)).reshape(-1),
        neurons=_some(layer.output.dense.weight.detach().numpy().any(axis=0), layer.output.dense),
    )


def _some(flags, linear):
    """Places of the flags that are set; if none is, the first one where the linear layer behind has a bias to add."""
    return np.flatnonzero(flags) if flags.any() else np.zeros(int(linear.bias.any()), int)


def embedded(encoder, sentences) -> list[torch.Tensor]:
    """Layer 0's input for a batch of sentences [B, S, hidden], what is added to its scores, and the mask [B, S]."""
    ids, mask, segments = _padded(sentences)
    with torch.inference_mode():
        states = encoder.bert.embeddings(input_ids=ids, token_type_ids=segments)
        hidden_keys = torch.zeros(mask.shape).masked_fill(mask == 0, torch.finfo(torch.float32).min)
    return [states, hidden_keys[:, None, None, :], mask.bool()]


def first(result) -> torch.Tensor:
    """A layer's output, which some versions of transformers give as a tuple."""
    return result[0] if isinstance(result, tuple) else result


def _padded(sentences):
    """Ids, mask and segments [B, S] of sentences, without their own padding."""
    width = max(sentence.tokens for sentence in sentences)
    ids, mask, segments = (torch.zeros(len(sentences), width, dtype=torch.long) for _ in range(3))
    for row, sentence in enumerate(sentences):
        ids[row, : sentence.tokens] = torch.from_numpy(sentence.ids[sentence.mask])
        mask[row, : sentence.tokens] = 1
        segments[row, : sentence.tokens] = torch.from_numpy(sentence.segments[sentence.mask])
    return ids, mask, segments


def _check_layer(encoder, index):
    if not 0 <= index < encoder.layers:
        raise ValueError(f"layer must be from 0 to {encoder.layers - 1}, not {index}")


@contextmanager
def _first_layers(bert, count):
    """The model with only its first `count` layers, so that nothing runs that isn't looked at.

    It must not be asked for hidden states meanwhile: transformers hooks the layers it finds for good.
    """
    whole = bert.encoder.layer
    bert.encoder.layer = whole[:count]
    try:
        yield bert
    finally:
        bert.encoder.layer = whole


@contextmanager
def _captured(layer):
    """A dict that fills with the layer's inner tensors when it runs."""
    captured = {}

    def keep(name, which):
        def hook(module, inputs, output):
            captured[name] = inputs[0] if which == "input" else output

        return hook

    points = (
        ("inputs", layer.attention.self.query, "input"),
        ("query", layer.attention.self.query, "output"),
        ("key", layer.attention.self.key, "output"),
        ("value", layer.attention.self.value, "output"),
        ("context", layer.attention.output.dense, "input"),
        ("attention_sum", layer.attention.output.LayerNorm, "input"),
        ("attention_out", layer.attention.output.LayerNorm, "output"),
        ("pre_activation", layer.intermediate.dense, "output"),
        ("activated", layer.output.dense, "input"),
        ("ffn_sum", layer.output.LayerNorm, "input"),
        ("outputs", layer.output.LayerNorm, "output"),
    )
    with ExitStack() as stack:
        for name, module, which in points:
            stack.callback(module.register_forward_hook(keep(name, which)).remove)
        yield captured
