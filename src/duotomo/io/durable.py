"""Files that survive a kill, for their owner only: on disk before they take the place of what was there."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from duotomo.io.paths import FileError, make_folder, reason

UNFINISHED = ".unfinished-"
"""Names that start so are files whose writer was killed. The next writer of the same file takes them over."""

OWNER_ONLY = 0o600
"""Who may read what is written: scans and results are of patients."""


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
    try:
        # A link that lies there would be written through, to a file elsewhere.
        fresh.unlink(missing_ok=True)
        os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, OWNER_ONLY))
        yield fresh
        # A library may have made the file anew.
        fresh.chmod(OWNER_ONLY)
        # Otherwise the new name could reach the disk before what it names.
        sync(fresh)
        os.replace(fresh, path)
    except (OSError, RuntimeError) as error:
        raise FileError(
            f"{where}: expected to write {path}; got: {reason(error)}. "
            f"Check that the folder can be written to and that its disk has room."
        ) from error
    finally:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
    sync_folder(path.parent)


def check_writable(where: str, folder: Path) -> None:
    """Raise unless files can be written to a folder: that is noticed before a computation, not after."""
    trial = folder / f"{UNFINISHED}trial"
    with durable(where, trial) as fresh:
        fresh.write_bytes(b"duotomo")
    trial.unlink(missing_ok=True)


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
            raise busy(where, folder) from error
        except OSError:
            # Some network file systems have no locks; then nobody is kept out.
            pass
        yield
    finally:
        os.close(descriptor)


def busy(where: str, folder: Path) -> FileError:
    """Return the error of a folder that another process writes to."""
    return FileError(
        f"{where}: expected {folder} for this run alone; got another run that writes there. "
        f"Wait for it to end, or choose another folder."
    )


@contextmanager
def held(where: str, folder: Path, *, choice: str = "place") -> Iterator[None]:
    """Hold a folder, which is made if it is not there, and raise unless it can be written to.

    choice: what a person would choose otherwise.
    """
    make_folder(where, folder, choice=choice)
    with locked(where, folder):
        check_writable(where, folder)
        yield
