"""Files of several members: what was written comes back, and nothing else is taken for it."""

import random
import zipfile

import pytest

from bertha.runtime import container
from bertha.runtime.container import ArtifactError, read_container, write_container

MEMBERS = {"a.json": b'{"a": 1}' * 40, "weights.bin": bytes(range(256)) * 3, "empty.bin": b""}
SEED = 11


def read(path):
    return read_container(path, check_manifest=lambda manifest: None)


@pytest.fixture
def written(tmp_path):
    path = tmp_path / "model.bertha"
    write_container(path, {"kind": "test"}, MEMBERS)
    return path


def test_what_was_written_comes_back(written):
    manifest, members = read(written)
    assert members == MEMBERS and manifest["kind"] == "test"
    assert manifest["members"]["weights.bin"]["bytes"] == 768
    assert [file.name for file in written.parent.iterdir()] == ["model.bertha"]


def test_equal_contents_are_equal_bytes(written, tmp_path):
    again = tmp_path / "again.bertha"
    write_container(again, {"kind": "test"}, MEMBERS)
    assert again.read_bytes() == written.read_bytes()


def test_every_changed_byte_is_refused_or_changes_nothing(written):
    whole = written.read_bytes()
    chance = random.Random(SEED)
    print(f"seed {SEED}")
    refused = 0
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= chance.randrange(1, 256)
        written.write_bytes(changed)
        try:
            assert read(written)[1] == MEMBERS, place
        except ArtifactError as error:
            assert "\n" not in str(error)
            refused += 1
    contents = sum(len(data) for data in MEMBERS.values())
    assert refused > contents - 320  # those of a.json are compressed


def test_every_truncation_is_refused(written):
    whole = written.read_bytes()
    for length in range(0, len(whole), 7):
        written.write_bytes(whole[:length])
        with pytest.raises(ArtifactError):
            read(written)


def rewrite(path, change):
    """The file with its members (a dict) changed, and the checksum of the manifest as it was."""
    with zipfile.ZipFile(path) as archive:
        comment, members = archive.comment, {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w") as archive:
        archive.comment = comment
        for name, data in members.items():
            archive.writestr(name, data)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda members: members.pop("weights.bin"), "must hold weights.bin, but doesn't"),
        (lambda members: members.update({"weights.bin": b"other"}), "is damaged: weights.bin isn't what was"),
        (lambda members: members.pop("manifest.json"), "but has no manifest.json"),
        (
            lambda members: members.update({"manifest.json": b"{}"}),
            "is damaged: manifest.json isn't what was",
        ),
    ],
)
def test_refusals(written, change, sentence):
    rewrite(written, change)
    with pytest.raises(ArtifactError) as refused:
        read(written)
    assert sentence in str(refused.value) and str(written) in str(refused.value)


def test_what_is_no_file(tmp_path):
    with pytest.raises(ArtifactError, match=r"can't be read: No such file"):
        read(tmp_path / "nothing")
    with pytest.raises(ArtifactError, match=r"can't be read: Is a directory"):
        read(tmp_path)


def test_a_write_that_fails_leaves_the_old_file(written, monkeypatch):
    before = written.read_bytes()

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(container.zipfile.ZipFile, "writestr", full)
    with pytest.raises(OSError, match="No space left"):
        write_container(written, {}, {"other": b"1"})
    assert written.read_bytes() == before
    assert list(written.parent.iterdir()) == [written]
