"""A model folder's encoder in the form of a BertModel, and what else the folder holds."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from transformers import BertModel

from bertha.models.classifier import Classifier, find_classifier
from bertha.models.config import check_sizes, encoder_shape
from bertha.models.empty import empty_bert, fill_bert
from bertha.models.errors import ModelError
from bertha.models.families import FAMILIES, find_family
from bertha.models.folders import transformer_folder
from bertha.models.hard_attention import HardAttention
from bertha.models.pooling import Pooling
from bertha.models.structure import FILE, Structure, read_structure
from bertha.models.tokenizer import find_tokenizer
from bertha.models.weights import read_json, read_weights

__all__ = ["Checkpoint", "load_checkpoint"]

_POSITIONS = "embeddings.position_embeddings.weight"
_WORDS = "embeddings.word_embeddings.weight"
_TYPES = "embeddings.token_type_embeddings.weight"


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """What a model folder holds; see `Encoder`."""

    bert: BertModel
    tokenizer_file: Path | None
    digest: str
    family: str
    pooling: Pooling
    classifier: Classifier | None
    max_seq_length: int | None
    lowercase: bool
    hard_attention: HardAttention | None


def load_checkpoint(root) -> Checkpoint:
    """The model in a folder.

    Raises
    ------
    ModelError
        If something in it is missing, damaged, or not supported.
    """
    folder = transformer_folder(root)
    path = folder / "config.json"
    if not path.is_file():
        raise ModelError(f"model folder {str(folder)!r} must hold a config.json, but has none")
    if (folder / "adapter_config.json").is_file():
        raise ModelError(f"model folder {str(folder)!r} must hold whole weights, not an adapter's to others")
    config = read_json(path)
    # What config.json alone shows to be wrong is said before large files are read.
    family = find_family(config, path)
    shape = encoder_shape(config, family, path) if family else None
    weights = read_weights(folder)
    if family is None:
        family = find_family(config, path, weights)
        shape = encoder_shape(config, family, path)
    _check_prefix(family, weights, path)
    plain = weights.plain()
    width = _check_sizes(family, shape, weights, plain)
    structure = _structure(folder, shape)
    hidden = shape.bert.hidden_size
    pooling = Pooling.from_folder(root, hidden)
    sentences = _sentence_config(root, folder)
    return Checkpoint(
        bert=_bert(family, shape, structure, weights, plain, width),
        tokenizer_file=find_tokenizer(folder) or find_tokenizer(root),
        digest=weights.digest,
        family=family.name,
        pooling=pooling,
        classifier=find_classifier(config, family, weights, plain, hidden, path),
        max_seq_length=sentences.get("max_seq_length"),
        lowercase=bool(sentences.get("do_lower_case")),
        hard_attention=structure.hard_attention,
    )


def _structure(folder, shape):
    """What is left by special.json, or by `pruned_heads` of config.json."""
    path = folder / FILE
    if path.is_file():
        if shape.pruned_heads:
            raise ModelError(f"{folder} must say by {FILE} or by pruned_heads what is left, not by both")
        return read_structure(path, shape.bert)
    whole = Structure.whole(shape.bert)
    layers = (
        replace(layer, heads=tuple(h for h in layer.heads if h not in shape.pruned_heads.get(number, ())))
        for number, layer in enumerate(whole.layers)
    )
    return replace(whole, layers=tuple(layers))


def _check_sizes(family, shape, weights, plain):
    """Width of the embeddings. What config.json says is held against weights before as much is made as it asks for."""
    hidden = shape.bert.hidden_size
    width = shape.embedding_size or plain[_WORDS].shape[-1]
    last = family.weight(f"encoder.layer.{shape.bert.num_hidden_layers - 1}.attention.self.query.weight")
    if last not in plain:
        raise ModelError(f"{weights.path} must hold all weights of the encoder, but {last} is missing")
    weights.check(plain, _WORDS, [shape.bert.vocab_size, width])
    weights.check(plain, family.weight("encoder.layer.0.output.LayerNorm.bias"), [hidden])
    return width


def _bert(family, shape, structure, weights, plain, width):
    hidden = shape.bert.hidden_size
    bert = empty_bert(shape.bert, None if width == hidden else width)
    wanted = bert.state_dict()
    state = {}
    if not family.has_types:
        state[_TYPES] = torch.zeros(wanted.pop(_TYPES).shape)
    names = {name: family.weight(name) for name in wanted}
    missing = sorted(name for name in names.values() if name not in plain)
    if missing:
        more = f" (and {len(missing) - 1} more)" if missing[1:] else ""
        raise ModelError(
            f"{weights.path} must hold all weights of the encoder, but {missing[0]}{more} is missing"
        )
    for name, tensor in wanted.items():
        size = list(tensor.shape)
        if name == _POSITIONS:
            size[0] += shape.first_position
            state[name] = weights.get(plain, names[name], size)[shape.first_position :].clone()
        else:
            kept = structure.kept(name, hidden // shape.bert.num_attention_heads)
            if kept:
                size[kept[0]] = len(kept[1])
            small = weights.get(plain, names[name], size)
            state[name] = _spread(small, *kept, tensor.shape) if kept else small
    fill_bert(bert, state)
    return bert


def _spread(tensor, axis, kept, shape):
    """The tensor with zeros where heads or neurons were pruned, which add nothing: the result is the same."""
    return torch.zeros(shape).index_copy_(axis, torch.tensor(kept, dtype=torch.long), tensor)


def _check_prefix(family, weights, path):
    """Weights named as another family's than config.json says are another family's.

    But `bert.` stands before many a model that isn't one: people's own classes have it there.
    """
    others = {other.prefix for other in FAMILIES.values()} - {"bert", family.prefix}
    named = [part for part in weights.encoder_prefix().split(".") if part in others]
    if named:
        raise ModelError(
            f"{path} must describe the encoder in {weights.path.name}, but says {family.name} and the weights "
            f"are named {named[-1]}"
        )


def _sentence_config(root, folder):
    """sentence-transformers' own settings, where it has some."""
    for path in (folder / "sentence_bert_config.json", Path(root) / "sentence_bert_config.json"):
        if path.is_file():
            config = read_json(path)
            if config.get("max_seq_length") is not None:
                check_sizes({"max_seq_length": config["max_seq_length"]}, f"{path}: ")
            return config
    return {}
