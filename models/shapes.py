"""Shapes of encoders, by name: what can be known of a model without its weights."""

import re
from dataclasses import dataclass
from pathlib import Path

from bertha.errors import UserError
from bertha.models.errors import ModelError

__all__ = ["SYNTHETIC_SHAPES", "ModelShape", "model_shape", "synthetic_shape"]

SYNTHETIC_SHAPES = {
    "synthetic-base": {"hidden": 768, "heads": 12, "ffn": 3072, "layers": 1},
    "synthetic-large": {"hidden": 1024, "heads": 16, "ffn": 4096, "layers": 1},
    "reduced": {"hidden": 32, "heads": 2, "ffn": 64, "layers": 2},
}
MOST_SYNTHETIC_LAYERS = 99
_SIZES = ("hidden", "heads", "ffn", "layers")


@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """Sizes of an encoder.

    Attributes
    ----------
    hidden, head_dim, ffn : int
    heads : tuple of int
        By layer.
    """

    hidden: int
    head_dim: int
    ffn: int
    heads: tuple

    @property
    def layers(self) -> int:
        return len(self.heads)


def synthetic_shape(name) -> dict | None:
    """Arguments of `bertha.models.encoder.synthetic_bert` for a name like `synthetic-base` or `synthetic-base-12`, else
    None.

    Raises
    ------
    ModelError
        If the layers aren't from 1 to 99.
    """
    if str(name) in SYNTHETIC_SHAPES:
        return dict(SYNTHETIC_SHAPES[str(name)])
    match = re.fullmatch(r"(.+)-([0-9]+)", str(name), re.ASCII)
    if not match or match[1] not in SYNTHETIC_SHAPES:
        return None
    if not 1 <= int(match[2]) <= MOST_SYNTHETIC_LAYERS:
        raise ModelError(f"layers of {match[1]} must be from 1 to {MOST_SYNTHETIC_LAYERS}, not {match[2]}")
    return {**SYNTHETIC_SHAPES[match[1]], "layers": int(match[2])}


def model_shape(name) -> ModelShape:
    """The shape of a model.

    Parameters
    ----------
    name : str or Path
        What `bertha.models.encoder.load_model` takes, or sizes such as `hidden=768,heads=12,ffn=3072,layers=12`. Of a
        folder, only config.json is read.

    Raises
    ------
    UserError
        If there is no such model, or its sizes aren't possible.
    """
    if "=" in str(name) and not Path(name).exists():
        return _uniform(**_sizes(str(name)))
    sizes = synthetic_shape(name)
    return _uniform(**sizes) if sizes else _shape_of_folder(name)


def _uniform(*, hidden, heads, ffn, layers):
    if min(hidden, heads, ffn, layers) < 1:
        raise UserError(
            f"hidden, heads, ffn and layers must be positive, not {hidden}, {heads}, {ffn} and {layers}"
        )
    if hidden % heads:
        raise UserError(f"the hidden size must be a multiple of the heads ({heads}), not {hidden}")
    # The quantiser makes an odd dimension even.
    return ModelShape(
        hidden=hidden, head_dim=(hidden // heads + 1) // 2 * 2, ffn=ffn, heads=(heads,) * layers
    )


def _sizes(text):
    sizes = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        if name.strip() not in _SIZES or not value.strip().isdecimal():
            raise UserError(
                f"the sizes of a model must be like hidden=768,heads=12,ffn=3072,layers=12, not {text!r}"
            )
        sizes[name.strip()] = int(value)
    missing = [name for name in _SIZES if name not in sizes]
    if missing:
        raise UserError(
            f"the sizes of a model must have {', '.join(_SIZES)}, but {text!r} has no {missing[0]}"
        )
    return sizes


def _shape_of_folder(name):
    # These import PyTorch.
    from bertha.models.config import encoder_shape
    from bertha.models.encoder import minilm_folder
    from bertha.models.families import find_family
    from bertha.models.folders import cached_folder, transformer_folder
    from bertha.models.weights import read_json, read_weights

    if str(name) == "minilm":
        root = minilm_folder()
    else:
        root = Path(name) if Path(name).is_dir() else cached_folder(str(name))
    if root is None:
        raise UserError(
            f"model must be minilm, {', '.join(SYNTHETIC_SHAPES)}, sizes such as hidden=768,heads=12,ffn=3072,layers=12, "
            f"a Hugging Face name in the local cache or an existing folder, not {str(name)!r}"
        )
    folder = transformer_folder(root)
    path = folder / "config.json"
    if not path.is_file():
        raise ModelError(f"model folder {str(folder)!r} must hold a config.json, but has none")
    config = read_json(path)
    family = find_family(config, path) or find_family(config, path, read_weights(folder))
    shape = encoder_shape(config, family, path)
    whole = _uniform(
        hidden=shape.bert.hidden_size,
        heads=shape.bert.num_attention_heads,
        ffn=shape.bert.intermediate_size,
        layers=shape.bert.num_hidden_layers,
    )
    heads = tuple(count - len(shape.pruned_heads.get(layer, ())) for layer, count in enumerate(whole.heads))
    return ModelShape(hidden=whole.hidden, head_dim=whole.head_dim, ffn=whole.ffn, heads=heads)
