"""What a command opens, changes and calls: by Python's own audit, and the kernel's of one folder."""

from __future__ import annotations

import ctypes
import os
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_IN_ACCESS, _IN_OPEN = 0x1, 0x20
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = (
    "os.remove",
    "os.rename",
    "os.mkdir",
    "os.rmdir",
    "os.symlink",
    "os.link",
    "os.truncate",
    "os.chmod",
)
_CALLS = (
    "socket.connect",
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "urllib.Request",
)
_MACHINE = (
    "/proc/",
    "/sys/",
    "/dev/",
    "/usr/",
    "/lib",
    "/opt/",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/fonts",
)
_NEVER = ("/etc/passwd", "/etc/shadow", "/proc/self/environ", "/dev/zero", "/dev/random", "/dev/mem")
"""What inputs point at; a command that opens one of them was led there."""


class Eyes:
    """Keeps what goes on outside of a folder while `watching`; the audit of Python stays for ever."""

    def __init__(self) -> None:
        self._root: str | None = None
        self._seen: list[str] = []
        own = _own_folders()
        self._readable, self._writable = (*_MACHINE, *own), ("/dev/null", "/proc/self/", *own)
        sys.addaudithook(self._heard)

    @contextmanager
    def watching(self, root: Path, seen: list[str]) -> Iterator[None]:
        """Append what is opened, changed or called outside of `root`, or in its folder `sentinel`."""
        with _opened(root / "sentinel", seen):
            self._root, self._seen = os.path.realpath(root), seen
            try:
                yield
            finally:
                self._root = None

    def _heard(self, event: str, values: tuple[Any, ...]) -> None:
        root = self._root
        if root is None:
            return
        if event in _CALLS:
            self._seen.append(f"{event} {values!r:.200}")
        elif event == "open" or event in _CHANGES:
            self._look(event, values, root)

    def _look(self, event: str, values: tuple[Any, ...], root: str) -> None:
        if not isinstance(values[0], (str, bytes, os.PathLike)):
            return
        self._root = None
        try:
            path = os.path.realpath(os.fsdecode(values[0]))
        except (OSError, ValueError):
            # A name with a zero in it, or a loop of links, opens nothing.
            return
        finally:
            self._root = root
        inside = path.startswith(f"{root}/") and not path.startswith(f"{root}/sentinel")
        flags = values[2] if event == "open" and isinstance(values[2], int) else 0
        if path in _NEVER or not (inside or path.startswith(self._readable)):
            self._seen.append(f"{event} {path}")
        elif not inside and (event != "open" or flags & _WRITING) and not path.startswith(self._writable):
            self._seen.append(f"{event} for writing {path}")


def _own_folders() -> tuple[str, ...]:
    """Return where Python, its packages, this project and the caches of compiled functions are."""
    paths = [sys.prefix, sys.base_prefix, *sysconfig.get_paths().values(), *filter(None, sys.path)]
    paths += [str(Path(__file__).resolve().parents[3]), os.environ.get("NUMBA_CACHE_DIR", ""), _FONTS]
    return tuple({os.path.realpath(path) for path in paths if path})


_FONTS = str(Path.home() / ".cache")


@contextmanager
def _opened(folder: Path, seen: list[str]) -> Iterator[None]:
    """Append what is opened in a folder, by whatever library: the kernel says so (inotify)."""
    library = ctypes.CDLL(None, use_errno=True)
    watch = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    assert watch >= 0, os.strerror(ctypes.get_errno())
    assert library.inotify_add_watch(watch, os.fsencode(folder), _IN_ACCESS | _IN_OPEN) >= 0
    try:
        yield
        try:
            heard = os.read(watch, 4096)
        except BlockingIOError:
            heard = b""
        if heard:
            name = heard[16:].split(b"\0")[0].decode(errors="replace")
            seen.append(f"opened {name or 'the folder'} in {folder.name}")
    finally:
        os.close(watch)
