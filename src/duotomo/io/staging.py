"""A set of files that takes the place of another one: whenever that is killed, one of the two is whole.

New files, their index among them, are written to a hidden folder beside the old ones, the draft. Once all of
them are on the disk the draft gets another name, and that is the decision: from then on the new set counts.
Its files are those in the hidden folder and, once moved, those under the same names in the folder itself. The
index is moved last. What was decided but not all moved is read as it lies; the next writer moves the rest.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from duotomo.io.durable import UNFINISHED, sync, sync_folder
from duotomo.io.paths import FileError, reason

DRAFT, STAGING = f"{UNFINISHED}draft", f"{UNFINISHED}result"
"""The hidden folder before the decision and after it."""


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


def fresh_draft(where: str, folder: Path) -> Path:
    """Return an empty hidden folder for a new set of files; what a kill left of another one is removed."""
    draft = folder / DRAFT
    try:
        clear(draft)
        draft.mkdir(mode=0o700)
    except OSError as error:
        raise FileError(
            f"{where}: expected to write to {folder}; got: {reason(error)}. Check that the folder can be "
            f"written to."
        ) from error
    return draft


def decide(where: str, folder: Path) -> None:
    """Let the files of the draft, all of which are on the disk, count from now on."""
    draft, staging = folder / DRAFT, folder / STAGING
    try:
        # Version 2 left files there that were not decided yet.
        clear(staging)
        sync(draft)
        os.replace(draft, staging)
    except OSError as error:
        raise FileError(
            f"{where}: expected to rename {draft} to {staging.name}; got: {reason(error)}. Check that the "
            f"folder can be written to."
        ) from error
    sync_folder(folder)


def clear(hidden: Path) -> None:
    """Remove a hidden folder with its files; other folders in it are not ours, and stay."""
    if hidden.is_symlink() or hidden.is_file():
        hidden.unlink()
    elif hidden.is_dir():
        for path in hidden.iterdir():
            path.unlink()
        hidden.rmdir()


def publish(where: str, folder: Path, index: str, names: Iterable[str], obsolete: Iterable[str]) -> None:
    """Move the files of a set that was decided to their places, remove older ones, and move the index."""
    staging = folder / STAGING
    try:
        for name in sorted(set(names)):
            if (staging / name).is_file():
                os.replace(staging / name, folder / name)
        for name in obsolete:
            (folder / name).unlink(missing_ok=True)
        # Without its files, the index must not be in place after a power failure.
        sync_folder(folder)
        os.replace(staging / index, folder / index)
        sync_folder(folder)
        clear(staging)
    except OSError as error:
        raise FileError(
            f"{where}: expected to put the files of {staging} in their places; got: {reason(error)}. They "
            f"are complete: make the folder writable, and write a result there again."
        ) from error
