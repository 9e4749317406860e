"""Files that belong together, such as two visits, and take the places of older ones together.

They are written to a hidden folder beside those, the draft, which nobody else can write to meanwhile. Once
all of them are on the disk the draft gets another name, and that is the decision. Then older files of the
same names are removed, and the new ones moved: whenever that is killed, no file of one set lies beside one of
another. What was decided but not all moved waits in the hidden folder, and the next writer moves it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from duotomo.io.durable import UNFINISHED, busy, sync, sync_folder
from duotomo.io.paths import FileError, reason
from duotomo.io.staging import clear

_DRAFT, _DECIDED = "draft", "files"
"""How the names of the hidden folder end before the decision and after it."""


@contextmanager
def together(where: str, folder: Path, name: str) -> Iterator[Path]:
    """Give a hidden folder to write files to; at the end, they take the places of older ones in `folder`.

    Begun before a computation, it shows then that the folder can be written to, and keeps others away.
    name: of the set; sets of other names may be written to the same folder at the same time.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with together("example", Path(folder), "pair") as draft:
    ...         _ = draft.joinpath("one.txt").write_text("1"), draft.joinpath("two.txt").write_text("2")
    ...     sorted(os.listdir(folder))
    ['one.txt', 'two.txt']
    """
    draft, decided = (folder / f"{UNFINISHED}{name}.{kind}" for kind in (_DRAFT, _DECIDED))
    with ExitStack() as held:
        try:
            held.enter_context(_held(where, draft))
            if decided.is_dir():
                held.enter_context(_held(where, decided))
                _publish(decided)
            for left in draft.iterdir():
                left.unlink()
        except OSError as error:
            raise FileError(
                f"{where}: expected to write to {folder}; got: {reason(error)}. Check that the folder can be "
                f"written to and that its disk has room."
            ) from error
        try:
            yield draft
            _decide(where, draft, decided)
        except (Exception, KeyboardInterrupt):
            with suppress(OSError):
                clear(draft)
            raise
        try:
            _publish(decided)
        except OSError as error:
            raise FileError(
                f"{where}: expected to put the files of {decided} in their places; got: {reason(error)}. "
                f"They are complete: make the folder writable, and write them again."
            ) from error


def check_whole(folder: Path) -> None:
    """Raise if files of a folder still have to be put in their places."""
    for decided in folder.glob(f"{UNFINISHED}*.{_DECIDED}"):
        raise FileError(
            f"expected all files of one set in {folder}; got some of which are in {decided.name} still, for "
            f"their writer was killed. Write them again."
        )


@contextmanager
def _held(where: str, hidden: Path) -> Iterator[None]:
    """Hold a hidden folder, which is made if it is not there, against other processes."""
    if hidden.is_symlink() or hidden.is_file():
        # A link would lead out of the folder.
        hidden.unlink()
    hidden.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(hidden, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise busy(where, hidden.parent) from error
        except OSError:
            # Some network file systems have no locks; then nobody is kept out.
            pass
        # Between the two calls another process may have finished with it.
        if not hidden.is_dir() or not os.path.samestat(os.fstat(descriptor), hidden.stat()):
            raise busy(where, hidden.parent)
        yield
    finally:
        os.close(descriptor)


def _decide(where: str, draft: Path, decided: Path) -> None:
    for path in draft.iterdir():
        if (taken := draft.parent / path.name).is_dir():
            raise FileError(f"{where}: expected a file or nothing at {taken}; got a folder. Move it away.")
    sync(draft)
    os.replace(draft, decided)
    sync_folder(draft.parent)


def _publish(decided: Path) -> None:
    folder, names = decided.parent, sorted(os.listdir(decided))
    # One file alone is replaced in one step.
    for name in names if len(names) > 1 else ():
        (folder / name).unlink(missing_ok=True)
    sync_folder(folder)
    for name in names:
        os.replace(decided / name, folder / name)
    sync_folder(folder)
    decided.rmdir()
