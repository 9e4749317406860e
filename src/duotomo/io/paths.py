"""Files that are whole or not there: paths are checked first, and a new file replaces the old one at once."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

from duotomo.io.file_error import FileError, reason

AnyPath = str | PathLike[str]


def source(where: str, path: AnyPath, suffixes: Sequence[str]) -> Path:
    """Return the path of a file to read; raise unless it is there and of a kind that can be read."""
    path = Path(path)
    _suffix(where, path, suffixes)
    if not path.is_file():
        came = "a folder" if path.is_dir() else "nothing there"
        raise FileError(f"{where}: expected a file at {path}; got {came}. Check the path.")
    return path


def target(where: str, path: AnyPath, suffixes: Sequence[str]) -> Path:
    """Return the path of a file to write; raise unless its folder is there and its kind can be written."""
    path = Path(path)
    _suffix(where, path, suffixes)
    if not path.parent.is_dir():
        raise FileError(f"{where}: expected a folder at {path.parent}; got none. Make it first.")
    if path.is_dir():
        raise FileError(f"{where}: expected the path of a file; got {path}, which is a folder. Add a name.")
    return path


def make_folder(where: str, folder: Path, *, choice: str = "place") -> None:
    """Make a folder, and those above it, unless it is there. choice: what a person would choose otherwise."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"{where}: expected to make the folder {folder}; got: {reason(error)}. Choose another {choice}, "
            f"one that is a folder and can be written to."
        ) from error


@contextmanager
def replacing(where: str, path: Path, suffixes: Sequence[str]) -> Iterator[Path]:
    """Give a path to write to, in the same folder; what is written there becomes `path` when all went well.

    Otherwise nothing is left of it, and an older file at `path` stays as it was.
    """
    # Libraries choose the format by the suffix, and hidden names are not mistaken for results.
    fresh = path.with_name(f".{secrets.token_hex(8)}{_suffix(where, path, suffixes)}")
    try:
        yield fresh
        os.replace(fresh, path)
    except (OSError, RuntimeError) as error:
        raise FileError(
            f"{where}: expected to write {path}; got: {reason(error)}. "
            f"Check that the folder can be written to and that its disk has room."
        ) from error
    finally:
        fresh.unlink(missing_ok=True)


def _suffix(where: str, path: Path, suffixes: Sequence[str]) -> str:
    for suffix in suffixes:
        if path.name.endswith(suffix) and path.name != suffix:
            return suffix
    raise FileError(
        f"{where}: expected a name that ends in {', '.join(suffixes)}; got {path.name!r}. Rename the file."
    )
