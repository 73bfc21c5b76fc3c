"""Weights from a model folder: safetensors or PyTorch files, whole or sharded."""

import hashlib
import json
import pickle
import re
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from bertha.models.errors import ModelError

__all__ = ["Weights", "read_json", "read_weights"]

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
FILES = ("model.safetensors", "pytorch_model.bin")
_EMBEDDINGS = "embeddings.word_embeddings.weight"


@dataclass(frozen=True, eq=False)
class Weights:
    """The tensors of a checkpoint.

    Attributes
    ----------
    path : Path
        The file that errors name; of shards, their index.
    tensors : dict of str to Tensor
        As they are in the files, but for `gamma` and `beta`, which are `weight` and `bias`.
    digest : str
        SHA-256 of the file; of shards, of their digests in the order of their names.
    """

    path: Path
    tensors: dict = field(repr=False)
    digest: str

    def encoder_prefix(self) -> str:
        """What stands before the encoder's own names, as `module.bert.`; empty if nothing does.

        Raises
        ------
        ModelError
            If there is no encoder among the weights, or more than one.
        """
        prefixes = [
            name.removesuffix(_EMBEDDINGS) for name in self.tensors if f".{name}".endswith(f".{_EMBEDDINGS}")
        ]
        if not prefixes:
            raise ModelError(
                f"{self.path} must hold all weights of the encoder, but {_EMBEDDINGS} is missing"
            )
        if len(prefixes) > 1:
            raise ModelError(
                f"{self.path} must hold one encoder, but has those of "
                f"{' and '.join(repr(prefix) for prefix in sorted(prefixes))}"
            )
        return prefixes[0]

    def plain(self) -> dict[str, torch.Tensor]:
        """The tensors without wrappers' prefixes: the encoder's and those of a head beside it."""
        parts = self.encoder_prefix().split(".")[:-1]
        wrappers = ["".join(f"{part}." for part in parts[:count]) for count in range(len(parts), 0, -1)]
        plain = {}
        for name, tensor in self.tensors.items():
            wrapper = next((wrapper for wrapper in wrappers if name.startswith(wrapper)), "")
            plain.setdefault(name.removeprefix(wrapper), tensor)
        return plain

    def check(self, plain, name, shape) -> None:
        """Raises ModelError unless the tensor `name` of `plain` is there, in fp32, fp16 or bf16, and has the shape."""
        if name not in plain:
            raise ModelError(f"{self.path} must hold {name}, but doesn't")
        tensor = plain[name]
        if tensor.dtype not in DTYPES or tensor.layout != torch.strided:
            kind = str(tensor.dtype if tensor.layout == torch.strided else tensor.layout)
            raise ModelError(
                f"{self.path} must hold weights in fp32, fp16 or bf16, but {name} is {kind.split('.')[-1]}"
            )
        if list(tensor.shape) != list(shape):
            raise ModelError(
                f"{self.path} must fit its config.json, but {name} has the shape {list(tensor.shape)} "
                f"instead of {list(shape)}"
            )

    def get(self, plain, name, shape) -> torch.Tensor:
        """One tensor of `plain` in float32, a copy of its own.

        Raises
        ------
        ModelError
            As `check` does, or if it isn't finite.
        """
        self.check(plain, name, shape)
        tensor = plain[name]
        if not bool(torch.isfinite(tensor).all()):
            raise ModelError(f"{self.path} must hold finite weights, but {name} doesn't")
        # A copy: safetensors maps the file, which may be written to while the model lives.
        return tensor.detach().to(torch.float32, copy=True).contiguous()


def read_weights(folder) -> Weights:
    """The weights in a folder: model.safetensors, its shards, pytorch_model.bin or its shards, in this order.

    Raises
    ------
    ModelError
        If there are none, or a file is damaged, missing, or needs code to be loaded.
    """
    folder = Path(folder)
    for name in FILES:
        path, index = folder / name, folder / f"{name}.index.json"
        if path.is_file():
            return Weights(path, _present_names(_read(path)), _sha256(path))
        if index.is_file():
            return _read_shards(index)
    raise ModelError(
        f"model folder {str(folder)!r} must hold a model.safetensors or a pytorch_model.bin (or the "
        f"index.json of its shards), but has none"
    )


def read_json(path) -> dict:
    """The object in a JSON file.

    Raises
    ------
    ModelError
        If the file can't be read, or holds something else.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} must be JSON, but can't be read: {error}") from None
    if not isinstance(values, dict):
        raise ModelError(f"{path} must be a JSON object, not a {type(values).__name__}")
    return values


def _read_shards(index):
    places = read_json(index).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise ModelError(f"{index} must say in its weight_map which shard has which weight, but doesn't")
    shards = {}
    for name, shard in places.items():
        if not isinstance(shard, str) or Path(shard).name != shard:
            raise ModelError(f"{index} must name shards beside it, but has {shard!r} for {name}")
        if shard not in shards:
            path = index.with_name(shard)
            if not path.is_file():
                raise ModelError(f"{index} names the shard {shard}, which is missing")
            shards[shard] = _read(path)
        if name not in shards[shard]:
            raise ModelError(f"{index} says that {shard} has {name}, but it hasn't")
    digest = hashlib.sha256("".join(_sha256(index.with_name(shard)) for shard in sorted(shards)).encode())
    tensors = {name: shards[shard][name] for name, shard in places.items()}
    return Weights(index, _present_names(tensors), digest.hexdigest())


def _read(path):
    return _read_safetensors(path) if path.suffix == ".safetensors" else _read_pickle(path)


def _read_safetensors(path):
    try:
        return load_file(path)
    except (SafetensorError, OSError, KeyError, ValueError, RuntimeError) as error:
        raise ModelError(f"{path} must be a safetensors file, but can't be read: {_line(error)}") from None


def _read_pickle(path):
    """Tensors by name, without running what a pickle may ask for."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file can raise nearly anything in there
        code = (
            re.search(r"GLOBAL ([\w.]+)", str(error)) if isinstance(error, pickle.UnpicklingError) else None
        )
        if code:
            raise ModelError(f"{path} must hold nothing but weights, but asks for {code[1]}") from None
        raise ModelError(
            f"{path} must be a PyTorch weights file, but can't be read: {_line(error)}"
        ) from None
    if not isinstance(state, dict) or not state:
        raise ModelError(f"{path} must hold weights by name, not a {type(state).__name__}")
    for name, tensor in state.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
            raise ModelError(
                f"{path} must hold weights by name, but has a {type(tensor).__name__} under {name!r}"
            )
    return state


def _present_names(tensors):
    """LayerNorm's parameters in PyTorch's terms; the first checkpoints of BERT had TensorFlow's."""
    return {
        re.sub(r"\.beta$", ".bias", re.sub(r"\.gamma$", ".weight", name)): tensor
        for name, tensor in tensors.items()
    }


def _line(error):
    return next(iter(str(error).splitlines()), "") or type(error).__name__


def _sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
