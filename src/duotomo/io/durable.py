"""Files that survive a kill: on disk before they take the place of what was there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from duotomo.io.file_error import FileError, reason

UNFINISHED = ".unfinished-"
"""Names that start so are files whose writer was killed. The next writer of the same file takes them over."""


@contextmanager
def durable(where: str, path: Path) -> Iterator[Path]:
    """Give a path to write to, in the same folder; what is written there becomes `path` when all went well.

    Whenever the process ends, or the power fails, `path` is the old file or the new one, and whole. Its
    unfinished copy has always the same name, so that kills do not fill the disk.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with durable("example", Path(folder, "numbers.txt")) as fresh:
    ...         _ = fresh.write_text("1 2 3")
    ...     Path(folder, "numbers.txt").read_text(), os.listdir(folder)
    ('1 2 3', ['numbers.txt'])
    """
    # The suffix stays: libraries choose the format by it.
    fresh = path.with_name(f"{UNFINISHED}{path.name}")
    if fresh.is_symlink():
        # Written through, it would change a file elsewhere.
        fresh.unlink()
    try:
        yield fresh
        # Otherwise the new name could reach the disk before what it names.
        sync(fresh)
        os.replace(fresh, path)
    except (OSError, RuntimeError) as error:
        raise FileError(
            f"{where}: expected to write {path}; got: {reason(error)}. "
            f"Check that the folder can be written to and that its disk has room."
        ) from error
    finally:
        fresh.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync(path: Path) -> None:
    """Return once a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Return once the names in a folder are on the disk, where the file system can say so."""
    with suppress(OSError):
        sync(folder)
