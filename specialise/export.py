"""A specialised model in files: what is left of it, and the same as a dense checkpoint that anyone can load."""

import shutil
from pathlib import Path

from safetensors.torch import save_file

from bertha.errors import UserError
from bertha.models.encoder import model_folder
from bertha.models.families import FAMILIES
from bertha.models.folders import transformer_folder
from bertha.models.structure import FILE, LayerStructure, Structure, write_structure
from bertha.models.weights import read_weights
from bertha.specialise.ablation import ATTENTION, FFN
from bertha.specialise.finetune import TOKENIZER_FILES

__all__ = ["DENSE", "check_output", "export", "structure_of"]

DENSE = "dense"
"""Folder of the dense checkpoint, in that of the pruned one."""

CHANGED = ("embeddings.LayerNorm.bias", "embeddings.projection.bias")
"""Beside the layers: what takes the bias of a first block that is gone."""


def check_output(folder) -> None:
    """UserError unless the folder is new or empty."""
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"-o must be a new or empty folder, but {str(folder)!r} holds something")


def structure_of(encoder, kept, hard_attention=None) -> Structure:
    """What is left, as special.json has it."""
    layers = tuple(
        LayerStructure(heads=tuple(kept[index, ATTENTION]), neurons=tuple(kept[index, FFN]))
        for index in range(encoder.layers)
    )
    config = encoder.config
    return Structure(
        heads=config.num_attention_heads,
        neurons=config.intermediate_size,
        layers=layers,
        hard_attention=hard_attention,
    )


def export(source, encoder, structure, folder) -> None:
    """Writes a specialised model.

    `folder` holds special.json and weights without what is gone, `folder`/dense the masked dense checkpoint: as the
    fine-tuned one was, with zeros. Hard attention is said in special.json only.

    Parameters
    ----------
    source : str or Path
        The fine-tuned model, whose configuration, head and tokenizer stay.
    encoder : Encoder
        The dense form of the specialised one.
    structure : Structure
    folder : Path
        New or empty.
    """
    check_output(folder)
    source = transformer_folder(model_folder(source))
    weights, family = read_weights(source), FAMILIES[encoder.family]
    head_dim = encoder.config.hidden_size // encoder.config.num_attention_heads
    dense = {name: tensor.contiguous().clone() for name, tensor in weights.tensors.items()}
    small = dict(dense)
    prefix = weights.encoder_prefix()
    for name, tensor in encoder.bert.state_dict().items():
        if not name.startswith("encoder.layer.") and name not in CHANGED:
            continue
        own = prefix + family.weight(name)
        dense[own] = small[own] = tensor.contiguous().clone()
        kept = structure.kept(name, head_dim)
        if kept:
            small[own] = tensor[(slice(None),) * kept[0] + (kept[1],)].contiguous()
    for place, tensors in ((Path(folder), small), (Path(folder) / DENSE, dense)):
        place.mkdir(parents=True, exist_ok=True)
        save_file(tensors, place / "model.safetensors", metadata={"format": "pt"})
        for name in ("config.json", *TOKENIZER_FILES):
            if (source / name).is_file():
                shutil.copyfile(source / name, place / name)
    write_structure(Path(folder) / FILE, structure)
