"""`result.json`: the one file that decides which files of a folder are the result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from duotomo.io.durable import durable
from duotomo.io.file_error import FileError, reason

INDEX = "result.json"
FORMAT, VERSION = "duotomo result", 1

MOST_BYTES = 2**28
"""Parameters are in the index, as text: those of a B-spline with millions of them still fit."""


def write_index(where: str, folder: Path, content: Mapping[str, Any]) -> None:
    """Replace the index at once: before, the folder holds the older result, and afterwards this one."""
    text = json.dumps({"format": FORMAT, "version": VERSION, **content}, indent=1)
    with durable(where, folder / INDEX) as fresh:
        fresh.write_text(text + "\n", encoding="utf-8")


def read_index(where: str, folder: Path) -> dict[str, Any]:
    """Return the content of the index; raise unless it is there and says which files are the result."""
    path = folder / INDEX
    if not path.is_file():
        raise FileError(f"{where}: expected a result at {path}; got nothing there. Check the path.")
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"a file of more than {MOST_BYTES} bytes")
        index: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        found = index["format"], index["version"]
        names = [*index["replaced"], *(entry["file"] for entry in index["files"].values())]
        # A name with a folder in it would be read, and removed, elsewhere.
        if not isinstance(index["generation"], int) or not all(_is_plain(name) for name in names):
            raise ValueError("a generation or a file name that cannot be")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FileError(
            f"{where}: expected {path} as write_result wrote it; got: {reason(error)}. "
            f"Restore it, or choose another folder."
        ) from error
    if found != (FORMAT, VERSION):
        raise FileError(
            f"{where}: expected {path} of format {FORMAT!r}, version {VERSION}; got {found[0]!r}, version "
            f"{found[1]}. Use the duotomo that wrote it, or choose another folder."
        )
    return index


def entry(path: Path) -> dict[str, str]:
    """Return what the index says of a file: its name and its SHA-256."""
    return {"file": path.name, "sha256": _sha256(path)}


def checked(folder: Path, index: Mapping[str, Any], name: str) -> Path:
    """Return the path of a file in the index; raise unless it is there as it was written."""
    path = folder / str(index["files"][name]["file"])
    if not path.is_file():
        raise FileError(f"expected the file {path.name}; got nothing there. Restore it.")
    if path.resolve().parent != folder.resolve():
        raise FileError(f"expected {path.name} in the folder; got a link out of it. Put the file there.")
    if _sha256(path) != index["files"][name]["sha256"]:
        raise FileError(f"expected {path.name} as it was written; got another SHA-256. Restore it.")
    return path


def _is_plain(name: str) -> bool:
    return isinstance(name, str) and Path(name).name == name and name not in ("", "..")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
