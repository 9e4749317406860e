"""`result.json`: the one file that decides which files of a folder are the result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from duotomo.errors import DuotomoError
from duotomo.io.durable import deciding, durable, located
from duotomo.io.paths import FileError, reason
from duotomo.io.run_fingerprint import RunFingerprint
from duotomo.methods.settings import Settings
from duotomo.methods.settings_dict import settings_to_dict

INDEX = "result.json"
FORMAT, VERSION, OLDER = "duotomo result", 2, (1,)

MOST_BYTES = 2**28
"""Parameters are in the index, as text: those of a B-spline with millions of them still fit."""

_MOST_DIGITS = 20


def write_index(where: str, folder: Path, content: Mapping[str, Any]) -> None:
    """Write the index in one step: before, the folder holds what it held, and afterwards this result."""
    text = json.dumps({"format": FORMAT, "version": VERSION, **content}, indent=1, default=_plain)
    with durable(where, folder / INDEX) as fresh:
        fresh.write_text(text + "\n", encoding="utf-8")


def has_result(folder: Path) -> bool:
    """Return whether a folder holds a result, or one whose writer was killed before all was in place."""
    return (deciding(folder, INDEX) / INDEX).is_file()


def read_index(where: str, folder: Path) -> dict[str, Any]:
    """Return the content of the index, in the form of the present version; raise unless it can be trusted.

    `files`: by the name of each file its `kind` and `sha256`. `motions`: of each moving visit, with the
    `file` that holds it.
    """
    path = deciding(folder, INDEX) / INDEX
    if not path.is_file():
        raise FileError(f"{where}: expected a result at {folder / INDEX}; got nothing there. Check the path.")
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"a file of more than {MOST_BYTES} bytes")
        index: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"), parse_int=_whole)
        found = index["format"], index["version"]
        if found == (FORMAT, 1):
            index = _from_version_1(index)
        if found[0] == FORMAT and found[1] in (*OLDER, VERSION):
            _check(index)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FileError(
            f"{where}: expected {path} as write_result wrote it; got: {reason(error)}. "
            f"Restore it, or choose another folder."
        ) from error
    if found[0] != FORMAT or found[1] not in (*OLDER, VERSION):
        known = " or ".join(map(str, (*OLDER, VERSION)))
        raise FileError(
            f"{where}: expected {path} of format {FORMAT!r}, version {known}; got {found[0]!r}, version "
            f"{found[1]}. Use the duotomo that wrote it, or choose another folder."
        )
    return index


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def checked(folder: Path, index: Mapping[str, Any], file: str) -> Path:
    """Return the path of a file in the index; raise unless it is there as it was written."""
    path = located(folder, file, INDEX)
    if not path.is_file():
        raise FileError(f"expected the file {file}; got nothing there. Restore it.")
    if path.resolve().parent not in (folder.resolve(), deciding(folder, INDEX).resolve()):
        raise FileError(f"expected {file} in the folder; got a link out of it. Put the file there.")
    if sha256_of(path) != index["files"][file]["sha256"]:
        raise FileError(f"expected {file} as it was written; got another SHA-256. Restore it.")
    return path


def name_of(file: str) -> str:
    """Return the name of what a file holds: that of the file without suffixes.

    >>> name_of("visit_2_registered.nii.gz")
    'visit_2_registered'
    """
    return file.partition(".")[0]


def _check(index: Mapping[str, Any]) -> None:
    if not isinstance(index["files"], dict) or not isinstance(index["motions"], list):
        raise TypeError("files or motions that cannot be")
    # Raises for NaN and infinity.
    json.dumps(index["motions"], allow_nan=False)
    names = [*index["replaced"], *index["files"], *(motion["file"] for motion in index["motions"])]
    # A name with a folder in it would be read, and removed, elsewhere.
    if not isinstance(index["generation"], int) or not all(map(_is_plain, names)):
        raise ValueError("a generation or a file name that cannot be")


def _whole(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"a whole number of {len(digits)} digits")
    return int(digits)


def _is_plain(name: str) -> bool:
    return isinstance(name, str) and Path(name).name == name and name not in ("", "..")


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
    """Return what JSON can hold of what settings are made of."""
    if isinstance(value, Settings):
        return settings_to_dict(value)
    if isinstance(value, RunFingerprint):
        return str(value)
    raise DuotomoError(
        f"write_result: expected `settings` that JSON can hold; got a {type(value).__name__} in them. Use "
        f"numbers, texts, lists, mappings and `Settings`."
    )
