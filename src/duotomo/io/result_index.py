"""`result.json`: the one file that decides which files of a folder are the result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from duotomo.errors import DuotomoError
from duotomo.io.durable import durable
from duotomo.io.json_digest import check_digest, with_digest
from duotomo.io.paths import FileError, reason
from duotomo.io.result_format import is_ours
from duotomo.io.staging import deciding, located

INDEX = "result.json"
FORMAT, VERSION, OLDER = "duotomo result", 3, (1, 2)

MOST_BYTES = 2**28
"""Parameters are in the index, as text: those of a B-spline with millions of them still fit."""

_MOST_DIGITS = 20


def write_index(where: str, folder: Path, content: Mapping[str, Any]) -> None:
    """Write the index; its last key is the SHA-256 of its own bytes, with zeros for these 64 digits."""
    text = with_digest({"format": FORMAT, "version": VERSION, **content}, default=_plain)
    with durable(where, folder / INDEX) as fresh:
        fresh.write_text(text, encoding="utf-8")


def has_result(folder: Path) -> bool:
    """Return whether a folder holds a result, or one whose writer was killed before all was in place."""
    return (deciding(folder, INDEX) / INDEX).is_file()


def read_index(where: str, folder: Path) -> dict[str, Any]:
    """Return the content of the index, in the form of the present version; raise unless it can be trusted.

    `files`: by the name of each file its `kind`, `sha256` and, since version 3, `size`. `motions`: of each
    moving visit, with the `file` that holds it.
    """
    return _read(where, deciding(folder, INDEX) / INDEX)


def has_digest(index: Mapping[str, Any]) -> bool:
    """Return whether an index is of a version that notices damage to itself."""
    return bool(index["version"] == VERSION)


def notes_of(index: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what a reader should know of the files of a result."""
    if has_digest(index):
        return ()
    return (f"An earlier version wrote {INDEX}, without a SHA-256 of itself: damage to it may go unnoticed.",)


def obsolete_files(where: str, folder: Path, files: Mapping[str, Any]) -> list[str]:
    """Return the files of the result in a folder that a new one does not replace, and that may be removed.

    These are only files with a name that duotomo gives, and as the older result wrote them. files: of the new
    result, by name.
    """
    if not (folder / INDEX).is_file():
        return []
    older = _read(where, folder / INDEX)
    known = {name: entry["sha256"] for name, entry in older["files"].items() if is_ours(name)}
    left = [name for name in known if name not in files and (folder / name).is_file()]
    return [name for name in left if sha256_of(folder / name) == known[name]]


def _read(where: str, path: Path) -> dict[str, Any]:
    # Imported here: what a file is can be said without.
    from duotomo.io.schemas import ResultSchema
    from duotomo.methods.settings_schema import schema_fault

    if not path.is_file():
        raise FileError(f"{where}: expected a result at {path}; got nothing there. Check the path.")
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"a file of more than {MOST_BYTES} bytes")
        data = path.read_bytes()
        index: dict[str, Any] = json.loads(data.decode("utf-8"), parse_int=_whole)
        found = index["format"], index["version"]
        known = found[0] == FORMAT and type(found[1]) is int and found[1] in (*OLDER, VERSION)
        if known:
            check_digest(data, needed=found[1] == VERSION)
            index = _from_version_1(index) if found[1] == 1 else index
            if fault := schema_fault(ResultSchema, index):
                raise ValueError(fault)
            # Raises for NaN and infinity.
            json.dumps(index["motions"], allow_nan=False)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FileError(
            f"{where}: expected {path} as write_result wrote it; got: {reason(error)}. "
            f"Restore it, or choose another folder."
        ) from error
    if not known:
        versions = " or ".join(map(str, (*OLDER, VERSION)))
        raise FileError(
            f"{where}: expected {path} of format {FORMAT!r}, version {versions}; got {str(found[0])[:80]!r}, "
            f"version {str(found[1])[:80]}. Use the duotomo that wrote it, or choose another folder."
        )
    return index


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def entry_of(kind: str, path: Path) -> dict[str, Any]:
    """Return what the index says of a file."""
    return {"kind": kind, "size": path.stat().st_size, "sha256": sha256_of(path)}


def checked(folder: Path, index: Mapping[str, Any], file: str) -> Path:
    """Return the path of a file in the index; raise unless it is there as it was written."""
    path, entry = located(folder, file, INDEX), index["files"][file]
    remedy = "Make it anew with duotomo report." if entry["kind"] == "page" else "Restore it."
    if not path.is_file():
        raise FileError(f"expected the file {file}; got nothing there. {remedy}")
    if path.resolve().parent not in (folder.resolve(), deciding(folder, INDEX).resolve()):
        raise FileError(f"expected {file} in the folder; got a link out of it. Put the file there.")
    size = path.stat().st_size
    if entry.get("size", size) != size:
        raise FileError(f"expected {file} as it was written, {entry['size']} bytes; got {size}. {remedy}")
    if sha256_of(path) != entry["sha256"]:
        raise FileError(f"expected {file} as it was written; got another SHA-256. {remedy}")
    return path


def name_of(file: str) -> str:
    """Return the name of what a file holds: that of the file without suffixes.

    >>> name_of("visit_2_registered.nii.gz")
    'visit_2_registered'
    """
    return file.partition(".")[0]


def _whole(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"a whole number of {len(digits)} digits")
    return int(digits)


def _from_version_1(index: Mapping[str, Any]) -> dict[str, Any]:
    """Return an index of version 1, whose files had names beside the files' own, in the present form."""
    transforms = [f"transform_{number + 1}" for number in range(len(index["transforms"]))]
    kinds = {"history": "history", **dict.fromkeys(transforms, "motion")}
    files = {}
    for name, entry in index["files"].items():
        # The first files had no kind: what is neither history nor transform is a volume.
        kind = kinds.get(name, entry.get("kind", "volume"))
        files[entry["file"]] = {"kind": kind, "sha256": entry["sha256"]}
    motions = [
        {"visit": visit, **described, "file": index["files"][name]["file"]}
        for visit, (described, name) in enumerate(zip(index["transforms"], transforms, strict=True), start=2)
    ]
    return {**index, "files": files, "motions": motions, "quality": index.get("quality", {})}


def _plain(value: object) -> Any:
    from duotomo.io.run_fingerprint import RunFingerprint
    from duotomo.methods.settings import Settings
    from duotomo.methods.settings_dict import settings_to_dict

    """Return what JSON can hold of what settings are made of."""
    if isinstance(value, Settings):
        return settings_to_dict(value)
    if isinstance(value, RunFingerprint):
        return str(value)
    raise DuotomoError(
        f"write_result: expected `settings` that JSON can hold; got a {type(value).__name__} in them. Use "
        f"numbers, texts, lists, mappings and `Settings`."
    )
