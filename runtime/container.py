"""A file of several members with a manifest: every member's bytes are under a SHA-256, the manifest too.

A zip file, so that any tool can look into it. Nothing in it is code.
"""

import hashlib
import json
import uuid
import zipfile
from pathlib import Path

from bertha.errors import UserError

__all__ = ["MANIFEST", "ArtifactError", "read_container", "write_container"]

MANIFEST = "manifest.json"
_DATE = (1980, 1, 1, 0, 0, 0)  # equal contents are equal bytes
_COMPRESSED = (".json",)  # the others are weights, which don't get smaller


class ArtifactError(UserError):
    """An artifact can't be used; the message is one sentence that says why."""


def write_container(path, manifest, members) -> None:
    """Writes a file, whole or not at all (OSError if it can't be).

    Parameters
    ----------
    path : Path
    manifest : dict
        As JSON has it; `members` is added to it.
    members : dict of str to bytes
    """
    path = Path(path)
    listed = {name: {"bytes": len(data), "sha256": _digest(data)} for name, data in members.items()}
    head = json.dumps({**manifest, "members": listed}, indent=1).encode()
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")
    try:
        with zipfile.ZipFile(partial, "x") as archive:
            archive.comment = _digest(head).encode()
            for name, data in {MANIFEST: head, **members}.items():
                entry = zipfile.ZipInfo(name, _DATE)
                compressed = name.endswith(_COMPRESSED)
                entry.compress_type = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
                archive.writestr(entry, data)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def read_container(path, *, check_manifest) -> tuple[dict, dict]:
    """The manifest and the members of a file that `write_container` wrote.

    Parameters
    ----------
    path : Path
    check_manifest : function of dict
        Called with the manifest before the members are read; may refuse it.

    Raises
    ------
    ArtifactError
        If the file can't be read, is damaged, or lacks a member.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            manifest = _manifest(path, archive)
            check_manifest(manifest)
            return manifest, _members(path, archive, manifest["members"])
    except ArtifactError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise ArtifactError(f"artifact {str(path)!r} can't be read: {reason}") from None
    except zipfile.BadZipFile:
        raise ArtifactError(
            f"artifact {str(path)!r} must be a file that bertha compile wrote, whole; but it is damaged or another file"
        ) from None
    except KeyError as error:
        raise ArtifactError(f"artifact {str(path)!r} must hold {error.args[0]}, but doesn't") from None
    except Exception as error:  # zipfile and zlib have many ways to find a file damaged
        raise ArtifactError(f"artifact {str(path)!r} is damaged: {error!r}") from None


def _manifest(path, archive):
    if MANIFEST not in archive.namelist():
        raise ArtifactError(
            f"artifact {str(path)!r} must be a file that bertha compile wrote, but has no {MANIFEST}"
        )
    head = archive.read(MANIFEST)
    if _digest(head).encode() != archive.comment:
        raise ArtifactError(f"artifact {str(path)!r} is damaged: {MANIFEST} isn't what was written")
    return json.loads(head)


def _members(path, archive, listed):
    names = archive.namelist()
    members = {}
    for name, entry in listed.items():
        if name not in names:
            raise ArtifactError(f"artifact {str(path)!r} must hold {name}, but doesn't")
        try:
            data = archive.read(name)
        except zipfile.BadZipFile:
            data = b""
        if len(data) != entry["bytes"] or _digest(data) != entry["sha256"]:
            raise ArtifactError(f"artifact {str(path)!r} is damaged: {name} isn't what was written")
        members[name] = data
    return members


def _digest(data):
    return hashlib.sha256(data).hexdigest()
