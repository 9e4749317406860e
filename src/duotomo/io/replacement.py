"""A set of files that takes the place of another one: whenever that is killed, one of the two is whole.

New files are written to a hidden folder beside the old ones. The index, written there last and in one step,
is the decision: from then on the new set counts, and its files are those in the hidden folder and, once
moved, those under the same names in the folder itself. The index is moved last. What was decided but not
all moved is read as it lies, and the next writer moves the rest.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from duotomo.io.durable import UNFINISHED, sync_folder
from duotomo.io.file_error import FileError, reason

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
