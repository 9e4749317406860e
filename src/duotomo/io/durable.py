"""Files that survive a kill: on disk before they take the place of what was there.

A set of files takes the place of another one so that, whenever that is killed, one of the two is whole. New
files are written to a hidden folder beside the old ones. The index, written there last and in one step, is
the decision: from then on the new set counts, and its files are those in the hidden folder and, once moved,
those under the same names in the folder itself. The index is moved last. What was decided but not all moved
is read as it lies, and the next writer moves the rest.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from duotomo.io.paths import FileError, reason

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


STAGING = f"{UNFINISHED}result"


def deciding(folder: Path, index: str) -> Path:
    """Return where the index that decides lies: beside files still to be moved, or with the rest."""
    staging = folder / STAGING
    # A link would lead out of the folder.
    return staging if (staging / index).is_file() and not staging.is_symlink() else folder


def located(folder: Path, name: str, index: str) -> Path:
    """Return where a file of the set lies now."""
    staged = deciding(folder, index) / name
    return staged if staged.is_file() else folder / name


def staged(folder: Path, index: str) -> tuple[str, ...]:
    """Return the names of what was decided and still has to be moved, the index among them."""
    staging = deciding(folder, index)
    return () if staging == folder else tuple(sorted(path.name for path in staging.iterdir()))


def fresh_staging(where: str, folder: Path) -> Path:
    """Return an empty folder for a new set of files; what a kill left of an undecided one is removed."""
    staging = folder / STAGING
    try:
        clear(folder)
        staging.mkdir()
    except OSError as error:
        raise FileError(
            f"{where}: expected to write to {folder}; got: {reason(error)}. Check that the folder can be "
            f"written to."
        ) from error
    return staging


def clear(folder: Path) -> None:
    """Remove the hidden folder with all that is in it."""
    staging = folder / STAGING
    if staging.is_symlink() or staging.is_file():
        staging.unlink()
    elif staging.is_dir():
        shutil.rmtree(staging)


def publish(where: str, folder: Path, index: str, names: Iterable[str], replaced: Iterable[str]) -> None:
    """Move the files of a set that was decided to their places, remove older ones, and move the index."""
    staging, names = folder / STAGING, set(names)
    try:
        for name in sorted(names):
            if (staging / name).is_file():
                os.replace(staging / name, folder / name)
        for name in replaced:
            if name not in names:
                (folder / name).unlink(missing_ok=True)
        # Without its files, the index must not be in place after a power failure.
        sync_folder(folder)
        os.replace(staging / index, folder / index)
        sync_folder(folder)
        clear(folder)
    except OSError as error:
        raise FileError(
            f"{where}: expected to put the files of {staging} in their places; got: {reason(error)}. They "
            f"are complete: make the folder writable, and write a result there again."
        ) from error
