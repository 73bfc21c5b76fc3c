"""Compiled models in files: equal after a round trip, refused in a sentence when something is wrong."""

import json
import zipfile

import numpy as np
import pytest

from bertha.compilation import compile_model
from bertha.golden.layer import flatten
from bertha.rtl.config import PRESETS, preset
from bertha.runtime.artifact import ArtifactError, load_artifact
from bertha.runtime.container import MANIFEST, read_container, write_container
from bertha.runtime.description import describe_artifact, memory_map
from bertha.runtime.program_file import instruction_set
from tests.bertha.small import TEXTS, small_model


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    return compile_model(small_model(tmp_path_factory.mktemp("model")), "tiny4", 24)


@pytest.fixture
def file(compiled, tmp_path):
    path = tmp_path / "model.bertha"
    compiled.save(path)
    return path


def arrays(model):
    for layer in model.layers:
        yield from flatten("", layer)
    if model.embedding_norm is not None:
        yield from flatten("", model.embedding_norm)


def test_round_trip(compiled, file, tmp_path):
    loaded = load_artifact(file, "tiny4")
    program, right = loaded.program, compiled.program
    assert program.code == right.code
    assert sorted(program.pieces) == sorted(right.pieces)
    names = (
        "config",
        "window",
        "scratch",
        "x16",
        "x8",
        "ranges_address",
        "output16",
        "tokens",
        "macs",
        "name",
    )
    for name in names:
        assert getattr(program, name) == getattr(right, name), name
    for command, other in zip(program.commands, right.commands, strict=True):
        assert (command.name, command.work, command.dram_bytes) == (other.name, other.work, other.dram_bytes)
        assert tuple(command.residue_words) == tuple(other.residue_words)
    for (name, mine), (_, other) in zip(arrays(loaded.model), arrays(compiled.model), strict=True):
        np.testing.assert_array_equal(mine, other, err_msg=name)
    assert loaded.model.embedding_scale == compiled.model.embedding_scale
    for name in ("preset", "recipe", "predicted_cycles", "plan", "versions"):
        assert getattr(loaded, name) == getattr(compiled, name), name
    for mine, other in zip(loaded.host.tokenize(TEXTS), compiled.host.tokenize(TEXTS), strict=True):
        np.testing.assert_array_equal(loaded.host.embed(mine), compiled.host.embed(other))
    again = tmp_path / "again.bertha"
    loaded.save(again)
    assert again.read_bytes() == file.read_bytes()


def test_a_model_without_an_embedding_norm(tmp_path):
    compiled = compile_model(small_model(tmp_path / "m", "electra", embedding_size=12), "tiny4", 9)
    compiled.save(tmp_path / "file")
    loaded = load_artifact(tmp_path / "file")
    assert loaded.model.embedding_norm is None and not loaded.host.embedding_norm
    assert loaded.program.code == compiled.program.code


def test_a_configuration_without_a_name(tmp_path):
    config = preset("tiny4").replace(row_slots=32)
    compiled = compile_model(small_model(tmp_path / "m"), config, 9)
    compiled.save(tmp_path / "file")
    loaded = load_artifact(tmp_path / "file")
    assert (loaded.preset, loaded.program.config) == ("", config)
    with pytest.raises(ArtifactError, match="compiled for the preset '', and can't be run on 'tiny4'"):
        load_artifact(tmp_path / "file", "tiny4")


def changed(file, change):
    """The file with its manifest (and members) changed, and checksums to match."""
    manifest, members = read_container(file, check_manifest=lambda found: None)
    del manifest["members"]
    change(manifest, members)
    write_container(file, manifest, members)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda head, _: head.update(format=2), "must have the format 1, not 2: compile the model anew"),
        (lambda head, _: head.pop("kind"), "must be a file that bertha compile wrote, but says None"),
        (
            lambda head, _: head["versions"].update({"instruction set": "1.0-x"}),
            f"instruction set {instruction_set()}, not 1.0-x: compile the model anew",
        ),
        (lambda _, members: members.pop("program.bin"), "must hold program.bin, but doesn't"),
        (lambda _, members: members.pop("host.safetensors"), "must hold host.safetensors, but doesn't"),
        (lambda head, _: head.pop("program"), "must hold program, but doesn't"),
        (lambda _, members: members.update({"program.bin": b"\xff" * 64}), "can't be used: "),
        (lambda _, members: members.update({"model.npz": b"no"}), "can't be used: "),
        (lambda _, members: members.update({"image.bin": b""}), "can't be used: the image must have"),
        (
            lambda head, _: head["program"]["x16"].update(words=8),
            "its program's input has 8 channels, not 20",
        ),
    ],
)
def test_refusals(file, change, sentence):
    changed(file, change)
    with pytest.raises(ArtifactError) as refused:
        load_artifact(file)
    message = str(refused.value)
    assert sentence in message and str(file) in message and "\n" not in message


def test_another_preset_is_refused(file, monkeypatch):
    with pytest.raises(ArtifactError, match="compiled for the preset 'tiny4', and can't be run on 'edge8'"):
        load_artifact(file, "edge8")
    monkeypatch.setitem(PRESETS, "tiny4", preset("tiny4").replace(row_slots=32))
    with pytest.raises(ArtifactError, match="a preset 'tiny4' that had other parameters: compile"):
        load_artifact(file)


def test_a_damaged_member_is_named(file):
    with zipfile.ZipFile(file) as archive:
        place = archive.getinfo("image.bin").header_offset + 200
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)
    with pytest.raises(ArtifactError, match=r"is damaged: image\.bin isn't what was written"):
        load_artifact(file)


def test_there_is_no_code_in_it(file):
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
        kinds = {name.rsplit(".", 1)[1] for name in names}
        manifest = json.loads(archive.read(MANIFEST))
    assert kinds <= {"json", "bin", "npz", "safetensors"}
    assert set(manifest["members"]) == set(names) - {MANIFEST}


def test_description(compiled, file):
    found = describe_artifact(load_artifact(file))
    assert json.loads(json.dumps(found)) == found
    assert (found["model"]["hidden"], found["program"]["tokens"], found["preset"]) == (20, 24, "tiny4")
    assert found["program"]["macs"] == compiled.program.macs
    assert set(found["members"]) >= {"program.bin", "image.bin", "model.npz", "tokenizer.json"}


def test_the_memory_map_has_no_overlaps_and_all_pieces(compiled):
    program = compiled.program
    regions = memory_map(program)
    for region, following in zip(regions, regions[1:]):
        assert region["address"] + region["bytes"] <= following["address"]
    assert regions[-1]["address"] + regions[-1]["bytes"] <= program.window[1]
    for address, content in program.pieces:
        assert any(
            region["address"] <= address
            and address + len(content) <= region["address"] + region["bytes"]
            and region["what"] in ("weights, parameters and tables", "program")
            for region in regions
        )
    assert [region["what"] for region in regions] == [
        "input int16",
        "input ranges of the rows",
        "weights, parameters and tables",
        "output int16",
        "program",
    ]


def test_versions_say_what_made_it(compiled):
    assert {"bertha", "numpy", "python", "instruction set"} <= set(compiled.versions)
