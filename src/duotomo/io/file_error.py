"""What goes wrong with files."""

from __future__ import annotations

import re

from duotomo.errors import DuotomoError


class FileError(DuotomoError):
    """A file that is missing, damaged, of another kind, or that cannot be written."""


def damaged(error: BaseException) -> FileError:
    """Return what to raise for an error of a library that reads a file."""
    return FileError(
        f"expected a file that can be read; got: {reason(error)}. Check that the file is complete."
    )


def reason(error: BaseException) -> str:
    """Return what a library's message says that happened, without where in the library it did.

    >>> reason(RuntimeError("Exception in reader.cxx:12:\\nITK ERROR: Reader(0x55f3): No such thing.\\n"))
    'No such thing'
    """
    lines = str(error).strip().splitlines() or [type(error).__name__]
    telling = next((line for line in lines if "ERROR: " in line), lines[-1])
    return re.sub(r"^.*ERROR: (\w+\(0x\w+\): )?", "", telling).strip().rstrip(".")
