"""Where a model's files are: in a folder, in sentence-transformers' folders, in Hugging Face's cache."""

import json
import re
from pathlib import Path

from huggingface_hub import constants, try_to_load_from_cache
from huggingface_hub.errors import HFValidationError

from bertha.models.errors import ModelError

__all__ = ["cached_folder", "read_modules", "transformer_folder"]

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?", re.ASCII)
_MARKS = ("modules.json", "config.json", "0_Transformer/config.json")
"""Files one of which is in every model's snapshot."""


def cached_folder(name) -> Path | None:
    """The snapshot of the hub's model `name` in the local cache (HF_HOME, HF_HUB_CACHE), or None.

    Nothing is asked of the network.

    Raises
    ------
    ModelError
        If the name is a hub name, with a slash, of a model that isn't in the cache.
    """
    if not _HUB_NAME.fullmatch(name):
        return None
    for mark in _MARKS:
        try:
            file = try_to_load_from_cache(name, mark)
        except HFValidationError:
            return None
        if isinstance(file, str):
            return Path(file).parents[mark.count("/")]
    if "/" not in name:
        return None
    raise ModelError(
        f"model {name!r} must be an existing folder or in Hugging Face's local cache "
        f"({constants.HF_HUB_CACHE}), but is neither"
    )


def read_modules(folder) -> list[tuple[str, Path]]:
    """The modules of a sentence-transformers folder, as pairs of a class's name and the module's folder.

    Without a modules.json it is the `Transformer`, in the folder itself or its 0_Transformer, and a
    `Pooling` if there is a 1_Pooling.

    Raises
    ------
    ModelError
        If modules.json is damaged.
    """
    folder = Path(folder)
    path = folder / "modules.json"
    if not path.is_file():
        below = folder / "0_Transformer"
        alone = (below / "config.json").is_file() and not (folder / "config.json").is_file()
        pooling = folder / "1_Pooling"
        modules = [("Transformer", below if alone else folder)]
        return modules + ([("Pooling", pooling)] if (pooling / "config.json").is_file() else [])
    try:
        listed = json.loads(path.read_text(encoding="utf-8"))
        return [(module["type"].split(".")[-1], folder / module["path"]) for module in listed]
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} must be JSON, but can't be read: {error}") from None
    except (AttributeError, KeyError, TypeError):
        raise ModelError(f"{path} must list modules with a type and a path, but doesn't") from None


def transformer_folder(folder) -> Path:
    """The folder with the encoder's config.json and weights.

    Raises
    ------
    ModelError
        If modules.json doesn't begin with a Transformer.
    """
    modules = read_modules(folder)
    if not modules or modules[0][0] != "Transformer":
        kinds = ", ".join(kind for kind, _ in modules) or "nothing"
        raise ModelError(
            f"{Path(folder) / 'modules.json'} must begin with a Transformer module, but has {kinds}"
        )
    return modules[0][1]
