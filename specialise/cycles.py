"""What a pruned model takes on an accelerator, predicted from what is left of its layers."""

from dataclasses import dataclass, replace

from bertha.compiler.compile import compile_model
from bertha.compiler.placeholder import operand_plan, placeholder_model
from bertha.compiler.predict import Prediction, default_timing, predict
from bertha.models.shapes import ModelShape
from bertha.rtl.config import preset

__all__ = ["Costs", "measure_costs", "predict_sizes"]

ARRAY = 16
"""Neurons are counted in whole panels of this many."""


@dataclass(frozen=True)
class Costs:
    """Predicted cycles of a whole model, and what it takes less without a head or a neuron (of a whole panel)."""

    whole: float
    head: float
    neuron: float


def predict_sizes(sizes, *, hidden, head_dim, tokens, name="edge16", recipe="w8a8") -> Prediction:
    """The prediction of a model whose layers have so many heads and neurons.

    Parameters
    ----------
    sizes : sequence of (int, int)
        Heads and neurons by layer.
    hidden, head_dim, tokens : int
    name, recipe : str
        Of the preset, and what is spent on operands.
    """
    config = preset(name)
    layers = []
    for heads, neurons in sizes:
        shape = ModelShape(hidden=hidden, head_dim=(head_dim + 1) // 2 * 2, ffn=neurons, heads=(heads,))
        model = placeholder_model(shape, operand_plan(shape, recipe))
        layers.append(model.layers[0])
    program = compile_model(
        replace(model, layers=tuple(layers)), config, tokens=tokens, name="specialised", to_run=False
    )
    return predict(program, default_timing(config))


def measure_costs(config, tokens, **where) -> Costs:
    """What a model (its BertConfig) takes with `tokens` tokens a run, from three predictions of three of its layers."""
    hidden, heads, neurons = config.hidden_size, config.num_attention_heads, config.intermediate_size
    fewer_heads, fewer = max(1, heads // 2), max(1, neurons // 2 // ARRAY * ARRAY)
    layers = min(3, config.num_hidden_layers)

    def cycles(*sizes):
        return (
            predict_sizes(
                [sizes] * layers, hidden=hidden, head_dim=hidden // heads, tokens=tokens, **where
            ).cycles
            / layers
        )

    whole = cycles(heads, neurons)
    return Costs(
        whole=whole * config.num_hidden_layers,
        head=(whole - cycles(fewer_heads, neurons)) / max(1, heads - fewer_heads),
        neuron=(whole - cycles(heads, fewer)) / max(1, neurons - fewer),
    )
