"""What is left of a pruned model, layer by layer, and which layers attend hard: special.json."""

import itertools
import json
from dataclasses import dataclass, replace
from pathlib import Path

from bertha.models.errors import ModelError
from bertha.models.hard_attention import HardAttention
from bertha.models.weights import read_json

__all__ = ["FILE", "LayerStructure", "Structure", "read_structure", "write_structure"]

FILE = "special.json"


@dataclass(frozen=True, kw_only=True)
class LayerStructure:
    """What is left of a layer.

    Attributes
    ----------
    heads, neurons : tuple of int, or range
        Their numbers in the dense model, ascending; none: the whole attention or feed-forward block is gone.
    """

    heads: tuple | range
    neurons: tuple | range


@dataclass(frozen=True, kw_only=True)
class Structure:
    """What is left of a model.

    Attributes
    ----------
    heads, neurons : int
        Of every layer of the dense model.
    layers : tuple of LayerStructure
    hard_attention : HardAttention or None
    """

    heads: int
    neurons: int
    layers: tuple
    hard_attention: HardAttention | None = None

    @classmethod
    def whole(cls, config) -> "Structure":
        """Of a model of which nothing is gone; `config` is its BertConfig."""
        heads, neurons = config.num_attention_heads, config.intermediate_size
        layer = LayerStructure(heads=range(heads), neurons=range(neurons))
        return cls(heads=heads, neurons=neurons, layers=(layer,) * config.num_hidden_layers)

    def kept(self, name, head_dim) -> tuple[int, list[int]] | None:
        """Axis of BERT's weight `name` that is shorter in the pruned model, and which of its entries are left.

        None: the weight is whole.
        """
        parts = name.split(".")
        if parts[:2] != ["encoder", "layer"]:
            return None
        layer, inner = self.layers[int(parts[2])], ".".join(parts[3:])
        if inner.startswith("attention.self.") or inner == "attention.output.dense.weight":
            axis, left, whole = int(inner.startswith("attention.output.")), layer.heads, self.heads
            each = head_dim
        elif inner.startswith("intermediate.dense.") or inner == "output.dense.weight":
            axis, left, whole, each = int(inner.startswith("output.")), layer.neurons, self.neurons, 1
        else:
            return None
        if len(left) == whole:
            return None
        return axis, [part * each + place for part in left for place in range(each)]


def read_structure(path, config) -> Structure:
    """The structure in a file; layers that it doesn't name are whole. `config` is the dense model's BertConfig.

    Raises
    ------
    ModelError
        If the file can't be read, or names a layer, head or neuron that isn't there.
    """
    content, whole = read_json(Path(path)), Structure.whole(config)
    layers, keys, named = list(whole.layers), [0] * len(whole.layers), set()
    for entry in _checked(path, "layers", content.get("layers"), list):
        _checked(path, "every entry of layers", entry, dict)
        number = _number(path, "layer", entry.get("layer"), range(len(layers)))
        if number in named:
            raise ModelError(f"{path} must name every layer once, but names {number} twice")
        named.add(number)
        where = f"layer {number}'s "
        heads, neurons = layers[number].heads, layers[number].neurons
        if "heads" in entry:
            heads = _checked(path, f"{where}heads", entry["heads"], list)
            heads = tuple(_number(path, f"{where}heads", head, range(whole.heads)) for head in heads)
        if "neurons" in entry:
            neurons = _checked(path, f"{where}neurons", entry["neurons"], str)
            neurons = tuple(_from_ranges(path, f"{where}neurons", neurons))
        for name, numbers, count in (("heads", heads, whole.heads), ("neurons", neurons, whole.neurons)):
            if any(low >= high for low, high in itertools.pairwise(numbers)):
                raise ModelError(f"{path}: {where}{name} must be ascending and each there once")
            if numbers and numbers[-1] >= count:
                raise ModelError(f"{path}: {where}{name} must be from 0 to {count - 1}, not {numbers[-1]}")
        layers[number] = LayerStructure(heads=heads, neurons=neurons)
        if "attention_keys" in entry:
            most = config.max_position_embeddings
            name = f"{where}attention_keys"
            keys[number] = _number(path, name, entry["attention_keys"], range(1, most + 1))
    renormalised = _checked(path, "renormalised", content.get("renormalised", True), bool)
    return replace(
        whole,
        layers=tuple(layers),
        hard_attention=HardAttention(tuple(keys), renormalised) if any(keys) else None,
    )


def write_structure(path, structure) -> None:
    """Writes a structure in the form that `read_structure` reads."""
    layers, hard = [], structure.hard_attention
    for number, layer in enumerate(structure.layers):
        entry = {"layer": number, "heads": list(layer.heads), "neurons": _as_ranges(layer.neurons)}
        if hard and hard.keys[number]:
            entry["attention_keys"] = hard.keys[number]
        layers.append(entry)
    content = {"heads": structure.heads, "neurons": structure.neurons, "layers": layers}
    if hard:
        content["renormalised"] = hard.renormalised
    Path(path).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


_KINDS = {list: "a list", dict: "an object", str: "ranges such as '0-127 200'", bool: "true or false"}


def _checked(path, name, value, kind):
    if not isinstance(value, kind):
        raise ModelError(f"{path}: {name} must be {_KINDS[kind]}, not {value!r}")
    return value


def _number(path, name, value, allowed):
    if type(value) is not int or value not in allowed:
        raise ModelError(f"{path}: {name} must be from {allowed[0]} to {allowed[-1]}, not {value!r}")
    return value


def _as_ranges(numbers):
    """`0-127 200` of ascending numbers."""
    ranges = []
    for number in numbers:
        if ranges and ranges[-1][1] + 1 == number:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return " ".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


def _from_ranges(path, name, text):
    numbers = []
    for part in text.split():
        low, dash, high = part.partition("-")
        if not low.isdecimal() or (dash and not high.isdecimal()) or len(part) > 20:
            raise ModelError(f"{path}: {name} must be ranges such as '0-127 200', not {part!r}")
        low, high = int(low), int(high or low)
        if high - low > 1 << 20:
            raise ModelError(f"{path}: {name} must be ranges of numbers that are there, not {part!r}")
        numbers += range(low, high + 1)
    return numbers
