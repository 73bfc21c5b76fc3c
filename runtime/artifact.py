"""A compiled model in one file: all that a run needs, without the checkpoint.

Members: the program's code, image (packed weights, parameters, tables) and commands' names; the quantised model,
for the integer backend; embedding tables, linear layers and head of the host; the tokenizer. The manifest has the
memory map, the recipe, the versions of what made it, and a checksum of every member.
"""

import importlib.metadata
import io
import json
import platform
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from bertha.compiler.program import Program
from bertha.golden.model import QuantizedModel, load_model_file, save_model
from bertha.models.host import HostModel
from bertha.rtl.config import PRESETS
from bertha.runtime.container import ArtifactError, read_container, write_container
from bertha.runtime.program_file import instruction_set, pack_program, unpack_program

__all__ = ["FORMAT", "Artifact", "ArtifactError", "current_versions", "load_artifact", "save_artifact"]

FORMAT = 1
"""Of the file; another number for whatever changes the meaning of its members."""

KIND = "bertha artifact"

_CODE, _IMAGE, _COMMANDS = "program.bin", "image.bin", "commands.json"
_MODEL, _HOST, _TOKENIZER = "model.npz", "host.safetensors", "tokenizer.json"
_LIBRARIES = ("bertha", "numpy", "torch", "transformers", "tokenizers", "safetensors")


@dataclass(frozen=True, eq=False, kw_only=True)
class Artifact:
    """A compiled model.

    Attributes
    ----------
    host : HostModel
        What the host computes: tokenizer, embeddings, pooling, head.
    model : QuantizedModel
        The encoder in integers.
    program : Program
        The same on an accelerator. Read from a file it has no plan.
    preset : str
        Name of the accelerator's configuration; empty for one that has none.
    recipe : str
        How it was quantised.
    predicted_cycles : int
        Of one run of the program.
    plan : dict
        What the compiler chose, and the scratchpad's buffers (first line, lines).
    versions : dict of str to str
        Of what made it.
    members : dict of str to dict
        Bytes and SHA-256 of the file's members, once it is in one.
    """

    host: HostModel
    model: QuantizedModel = field(repr=False)
    program: Program = field(repr=False)
    preset: str
    recipe: str
    predicted_cycles: int
    plan: dict = field(repr=False)
    versions: dict = field(repr=False)
    members: dict = field(default_factory=dict, repr=False)

    def save(self, path) -> None:
        """Writes it to a file, whole or not at all (`save_artifact`)."""
        save_artifact(path, self)


def current_versions() -> dict[str, str]:
    """Versions of the libraries, of Python, and of the instruction set."""
    versions = {"python": platform.python_version(), "instruction set": instruction_set()}
    for name in _LIBRARIES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:  # a checkout that nobody installed
            versions[name] = "unknown"
    return versions


def save_artifact(path, artifact) -> None:
    """Writes an artifact to a file, whole or not at all (OSError if it can't be)."""
    layout, commands, code, image = pack_program(artifact.program)
    members = {
        _CODE: code,
        _IMAGE: image,
        _COMMANDS: json.dumps(commands, separators=(",", ":")).encode(),
        _MODEL: _model_bytes(artifact.model),
        _HOST: save_tensors(artifact.host.tensors()),
    }
    tokenizer = artifact.host.tokenizer_json()
    if tokenizer is not None:
        members[_TOKENIZER] = tokenizer.encode()
    manifest = {
        "kind": KIND,
        "format": FORMAT,
        "versions": artifact.versions,
        "preset": artifact.preset,
        "recipe": artifact.recipe,
        "predicted_cycles": artifact.predicted_cycles,
        "host": artifact.host.describe(),
        "program": layout,
        "plan": artifact.plan,
    }
    write_container(path, manifest, members)


def load_artifact(path, preset=None) -> Artifact:
    """The artifact in a file.

    Parameters
    ----------
    path : Path
    preset : str, optional
        The accelerator that it must be for.

    Raises
    ------
    ArtifactError
        If the file can't be read, is damaged, lacks a member, is of another format, was compiled for another
        instruction set or another accelerator.
    """
    name = f"artifact {str(path)!r}"
    manifest, members = read_container(path, check_manifest=lambda found: _check(name, found, preset))
    try:
        program = unpack_program(
            manifest["program"], json.loads(members[_COMMANDS]), members[_CODE], members[_IMAGE]
        )
        tokenizer = members[_TOKENIZER].decode() if _TOKENIZER in members else None
        artifact = Artifact(
            host=HostModel.restore(manifest["host"], load_tensors(members[_HOST]), tokenizer),
            model=load_model_file(io.BytesIO(members[_MODEL])),
            program=program,
            preset=manifest["preset"],
            recipe=manifest["recipe"],
            predicted_cycles=manifest["predicted_cycles"],
            plan=manifest["plan"],
            versions=manifest["versions"],
            members=manifest["members"],
        )
    except KeyError as error:
        raise ArtifactError(f"{name} must hold {error.args[0]}, but doesn't") from None
    except Exception as error:  # what another version wrote can fail anywhere
        raise ArtifactError(f"{name} can't be used: {str(error).splitlines()[0]}") from None
    _check_shape(name, artifact)
    return artifact


def _check(name, manifest, preset):
    """Refuses a manifest by what it says of the file."""
    if manifest.get("kind") != KIND:
        raise ArtifactError(
            f"{name} must be a file that bertha compile wrote, but says {manifest.get('kind')!r}"
        )
    if manifest.get("format") != FORMAT:
        raise ArtifactError(
            f"{name} must have the format {FORMAT}, not {manifest.get('format')}: compile the model anew"
        )
    made_for = manifest["versions"]["instruction set"]
    if made_for != instruction_set():
        raise ArtifactError(
            f"{name} must be compiled for the instruction set {instruction_set()}, not {made_for}: compile the "
            f"model anew"
        )
    wanted = preset or manifest["preset"]
    if preset and preset != manifest["preset"]:
        raise ArtifactError(
            f"{name} was compiled for the preset {manifest['preset']!r}, and can't be run on {preset!r}"
        )
    if wanted and (wanted not in PRESETS or PRESETS[wanted].as_dict() != manifest["program"]["config"]):
        raise ArtifactError(
            f"{name} was compiled for a preset {wanted!r} that had other parameters: compile the model anew"
        )


def _check_shape(name, artifact):
    """Parts that each are whole must be of one model."""
    hidden = artifact.model.hidden
    found = {
        "host's embeddings": artifact.host.config.hidden_size,
        "program's input": artifact.program.x16 and artifact.program.x16.words,
        "program's output": artifact.program.output16 and artifact.program.output16.words,
    }
    for part, size in found.items():
        if size != hidden:
            raise ArtifactError(
                f"{name} must hold one model, but its {part} has {size} channels, not {hidden}"
            )


def _model_bytes(model):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / _MODEL
        save_model(path, model)
        return path.read_bytes()
