"""config.json: what it says of an encoder, checked, and the same as a BertConfig."""

from dataclasses import dataclass

from transformers import BertConfig

from bertha.models.activations import find_activation
from bertha.models.errors import ModelError

__all__ = ["Shape", "check_heads", "check_sizes", "encoder_shape"]

SIZES = ("hidden_size", "num_attention_heads", "intermediate_size", "num_hidden_layers", "vocab_size")
REQUIRED = (
    ("is_decoder", False),
    ("is_encoder_decoder", False),
    ("add_cross_attention", False),
    ("position_embedding_type", "absolute"),
)
"""Keys that must have one value; it is also the one that they have when they aren't there."""

MOST = 1 << 30
"""Of any size: PyTorch can count the elements of what has such sizes."""

LONGEST = 512
"""Position embeddings where config.json doesn't say how many, as in Hugging Face's configs."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """An encoder's configuration.

    Attributes
    ----------
    bert : BertConfig
        Positions count from 0, and those before the first token's are left out.
    first_position : int
        Rows of the checkpoint's position embeddings that no token uses.
    embedding_size : int or None
        Width of the embeddings of an electra; None if nothing says.
    pruned_heads : dict of int to list of int
        By layer, heads that have no weights in the checkpoint.
    """

    bert: BertConfig
    first_position: int
    embedding_size: int | None
    pruned_heads: dict


def encoder_shape(config, family, path) -> Shape:
    """What config.json says of the encoder.

    Parameters
    ----------
    config : dict
    family : Family
    path : Path
        For errors.

    Raises
    ------
    ModelError
        If something is missing, impossible, or not supported.
    """
    _check_kind(config, path)
    where = f"{path}: "
    for key in SIZES:
        if family.value(config, key) is None:
            raise ModelError(f"{path} must give {family.keys.get(key, key)}, but doesn't")
    sizes = {key: family.value(config, key) for key in SIZES}
    sizes["max_position_embeddings"] = family.value(config, "max_position_embeddings", LONGEST)
    sizes["type_vocab_size"] = family.value(config, "type_vocab_size", 2) if family.has_types else 1
    check_sizes(sizes, where)
    check_heads(sizes["hidden_size"], sizes["num_attention_heads"], where)
    epsilon = family.epsilon or config.get("layer_norm_eps", 1e-12)
    if not isinstance(epsilon, int | float) or not 0 <= epsilon <= 1:
        raise ModelError(f"{where}layer_norm_eps must be a number from 0 to 1, not {epsilon!r}")
    padding = _padding(config, family, sizes["vocab_size"], where)
    first = padding + 1 if family.positions_from_padding else 0
    if first >= sizes["max_position_embeddings"]:
        raise ModelError(
            f"{where}max_position_embeddings must be more than {first}, the first token's position, "
            f"not {sizes['max_position_embeddings']}"
        )
    activation = family.value(config, "hidden_act", "gelu")
    find_activation(activation, path)
    bert = BertConfig(
        **{**sizes, "max_position_embeddings": sizes["max_position_embeddings"] - first},
        hidden_act=activation,
        layer_norm_eps=float(epsilon),
        pad_token_id=padding,
    )
    return Shape(
        bert=bert,
        first_position=first,
        embedding_size=_embedding_size(config, family, sizes["hidden_size"], where),
        pruned_heads=_pruned_heads(config, sizes, where),
    )


def check_sizes(sizes, where="") -> None:
    """Raises ModelError unless all values of the dict are positive integers of a possible size."""
    for name, value in sizes.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ModelError(f"{where}{name} must be a positive integer, not {value!r}")
        if value > MOST:
            raise ModelError(f"{where}{name} must be at most {MOST}, not {value}")


def check_heads(hidden, heads, where="") -> None:
    """Raises ModelError unless the heads divide the hidden size."""
    if hidden % heads:
        raise ModelError(f"{where}the hidden size must be a multiple of the heads ({heads}), not {hidden}")


def _check_kind(config, path):
    for key, right in REQUIRED:
        if config.get(key, right) != right:
            raise ModelError(
                f"{path} must describe a BERT encoder ({key} {right!r}), not {key} {config[key]!r}"
            )
    if config.get("quantization_config"):
        raise ModelError(f"{path} must describe weights in fp32, fp16 or bf16, not quantization_config")
    own_code = config.get("auto_map")
    if isinstance(own_code, dict) and "AutoModel" in own_code:
        raise ModelError(
            f"{path} must describe a BERT encoder of Hugging Face's, not one with code of its own "
            f"(auto_map {own_code['AutoModel']!r})"
        )


def _padding(config, family, vocabulary, where):
    padding = config.get("pad_token_id", family.padding)
    if padding is None and not family.positions_from_padding:
        return None
    if not isinstance(padding, int) or isinstance(padding, bool) or not 0 <= padding < vocabulary:
        raise ModelError(f"{where}pad_token_id must be from 0 to {vocabulary - 1}, not {padding!r}")
    return padding


def _embedding_size(config, family, hidden, where):
    size = config.get("embedding_size")
    if size is None:
        return None if family.projects else hidden
    check_sizes({"embedding_size": size}, where)
    if size != hidden and not family.projects:
        raise ModelError(
            f"{where}embedding_size must be the hidden size ({hidden}) in a {family.name}, not {size}"
        )
    return size


def _pruned_heads(config, sizes, where):
    """JSON has the layers' numbers as strings."""
    pruned = config.get("pruned_heads") or {}
    heads = range(sizes["num_attention_heads"])
    found = {}
    try:
        for layer, numbers in pruned.items():
            found[int(layer)] = sorted({heads[number] for number in numbers})
        if not all(0 <= layer < sizes["num_hidden_layers"] for layer in found):
            raise ValueError
    except (AttributeError, IndexError, TypeError, ValueError):
        raise ModelError(
            f"{where}pruned_heads must give heads from 0 to {heads[-1]} by layer from 0 to "
            f"{sizes['num_hidden_layers'] - 1}, not {pruned!r}"
        ) from None
    return {layer: numbers for layer, numbers in found.items() if numbers}
