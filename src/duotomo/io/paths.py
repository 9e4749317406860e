"""Paths of files to read and to write, checked before anything is done; and the error about files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

from duotomo.errors import DuotomoError

AnyPath = str | PathLike[str]

_LONGEST_REASON = 400
"""Characters of a library's message: some repeat all that the file holds."""


def source(where: str, path: AnyPath, suffixes: Sequence[str]) -> Path:
    """Return the path of a file to read; raise unless it is there and of a kind that can be read."""
    path = Path(path)
    _check_suffix(where, path, suffixes)
    if not path.is_file():
        came = "a folder" if path.is_dir() else "nothing there"
        raise FileError(f"{where}: expected a file at {path}; got {came}. Check the path.")
    return path


def target(where: str, path: AnyPath, suffixes: Sequence[str]) -> Path:
    """Return the path of a file to write; raise unless its folder is there and its kind can be written."""
    path = Path(path)
    _check_suffix(where, path, suffixes)
    if not path.parent.is_dir():
        raise FileError(f"{where}: expected a folder at {path.parent}; got none. Make it first.")
    if path.is_dir():
        raise FileError(f"{where}: expected the path of a file; got {path}, which is a folder. Add a name.")
    return path


def geometries_beside(path: Path, suffixes: Iterable[str]) -> list[Path]:
    """Return NAME.json and NAME.xml beside NAME.mha, where they are there. suffixes: such as `.mha`."""
    suffix = next(suffix for suffix in suffixes if path.name.lower().endswith(suffix))
    stem = path.name[: -len(suffix)]
    return [near for kind in ("json", "xml") if (near := path.with_name(f"{stem}.{kind}")).is_file()]


def make_folder(where: str, folder: Path, *, choice: str = "place") -> None:
    """Make a folder, and those above it, for their owner only, unless it is there.

    choice: what a person would choose otherwise.
    """
    try:
        missing = [one for one in (folder, *folder.parents) if not one.exists()]
        for one in reversed(missing):
            one.mkdir(mode=0o700, exist_ok=True)
        # It may be a file, or a link to nowhere.
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise FileError(
            f"{where}: expected to make the folder {folder}; got: {reason(error)}. Choose another {choice}, "
            f"one that is a folder and can be written to."
        ) from error


def _check_suffix(where: str, path: Path, suffixes: Sequence[str]) -> None:
    if not any(path.name.endswith(suffix) and path.name != suffix for suffix in suffixes):
        raise FileError(
            f"{where}: expected a name that ends in {', '.join(suffixes)}; got {path.name!r}. Rename the "
            f"file."
        )


class FileError(DuotomoError):
    """A file that is missing, damaged, of another kind, or that cannot be written."""


@contextmanager
def naming(where: str, path: AnyPath) -> Iterator[None]:
    """Let every error of duotomo be a `FileError` that names the function and the file."""
    try:
        yield
    except DuotomoError as error:
        raise FileError(f"{where}: {path}: {error}") from error


@contextmanager
def damage(*kinds: type[Exception], what: str = "a file") -> Iterator[None]:
    """Let errors of a library that reads a file say that the file is damaged. kinds: all, unless given."""
    try:
        yield
    except DuotomoError:
        raise
    except Exception as error:
        if kinds and not isinstance(error, kinds):
            raise
        raise FileError(
            f"expected {what} that can be read; got: {reason(error)}. Check that the file is complete."
        ) from error


def reason(error: BaseException) -> str:
    """Return what a library's message says that happened, without where in the library it did.

    >>> reason(RuntimeError("Exception in reader.cxx:12:\\nITK ERROR: Reader(0x55f3): No such thing.\\n"))
    'No such thing'
    """
    lines = str(error).strip().splitlines() or [type(error).__name__]
    telling = next((line for line in lines if "ERROR: " in line), lines[-1])
    said = re.sub(r"^.*ERROR: (\w+\(0x\w+\): )?", "", telling).strip().rstrip(".")
    return said if len(said) <= _LONGEST_REASON else f"{said[:_LONGEST_REASON]} ..."
