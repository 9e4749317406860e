"""The SHA-256 of a whole HDF5 file, in the bytes before it that HDF5 leaves to its user.

Every byte counts: the numbers, their names and types, HDF5's own structure, and what it does not use. The
seal is looked at before HDF5 is, which therefore never meets damage.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from duotomo.io.paths import FileError

SIZE = 512
"""Bytes of the seal: the smallest user block that HDF5 allows."""

_START = b"duotomo seal. SHA-256 of all bytes from 512 on: "
_SIGNATURE = b"\x89HDF\r\n\x1a\n"

UNSEALED = "The file has no SHA-256 of its content: damage may go unnoticed. Write it anew to add one."
"""What is said of files of an earlier version, and of other programs."""


def seal(path: Path) -> None:
    """Write the seal of an HDF5 file whose user block is still empty."""
    block = _block(path)
    with path.open("r+b") as file:
        file.write(block)


def is_sealed(path: Path) -> bool:
    """Return whether a file begins with a seal, right or wrong."""
    with path.open("rb") as file:
        return file.read(len(_START)) == _START


def check_seal(path: Path) -> None:
    """Raise if a file has a seal that is not its own; one without a seal passes."""
    with path.open("rb") as file:
        found, next_ = file.read(SIZE), file.read(len(_SIGNATURE))
    # Where HDF5 begins after a user block that is no seal, the seal itself was damaged.
    if not found.startswith(_START) and next_ != _SIGNATURE:
        return
    if found != _block(path):
        raise FileError(
            f"expected the file as it was written; got another SHA-256 than its first {SIZE} bytes say. "
            f"Restore it; if it was changed on purpose, write it anew."
        )


def _block(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(SIZE)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return (_START + digest.encode() + b"\n").ljust(SIZE, b"\0")
