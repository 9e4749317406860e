"""One writer for each folder."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from duotomo.io.file_error import FileError


@contextmanager
def locked(where: str, folder: Path) -> Iterator[None]:
    """Hold a folder against other processes that ask for it too; a killed process lets go of it.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as name, locked("example", Path(name)):
    ...     os.listdir(name)
    []
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise FileError(
                f"{where}: expected {folder} for this run alone; got another run that writes there. "
                f"Wait for it to end, or choose another folder."
            ) from error
        except OSError:
            # Some network file systems have no locks; then nobody is kept out.
            pass
        yield
    finally:
        os.close(descriptor)
