"""What libraries say goes to a log, never to the terminal; the log names no patient."""

from __future__ import annotations

import logging
import os
import platform
import re
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from duotomo.cli._compiling import announcing

LOG = logging.getLogger("duotomo.commands")
"""What commands say, and how they end."""

HEAD = "duotomo log"
"""With which every log begins: only such a file is written to."""

UNTOLD = ("pydicom", "highdicom")
"""Packages whose messages quote what files hold, patients' names among it: only their kind is written."""

NAMED = (
    *("inputs", "scan", "scans", "reference", "moving", "path", "paths", "source", "geometry", "settings"),
    *("patient_from", "moving_from", "grid_from", "deidentify_key"),
)
OUT = ("out", "target", "log")
"""Options that are paths of inputs, and of outputs."""

SHORTEST = 4
"""Names of files in a folder that are shorter, such as 1 and 2, tell nothing, and stand in every text."""

MOST_NAMES = 10_000
"""Files of an input folder whose names are looked for in what is written."""

_NOT_TOLD = "(not written: it may name a patient)"


@contextmanager
def quiet_libraries(command: str, options: Mapping[str, Any]) -> Iterator[None]:
    """Keep what libraries print off the terminal while a command runs, and write it to --log, if given.

    A command that another one runs writes to the log of the outer one.
    """
    if any(isinstance(one, _Silence) for one in logging.root.handlers):
        yield
        return
    silence = _Silence()
    handler: logging.Handler = silence
    if options.get("log") is not None:
        handler = _LogFile(Path(options["log"]), _Nameless.of(options))
    shown, added = warnings.showwarning, {silence, handler}
    for one in added:
        logging.root.addHandler(one)
    warnings.showwarning = _log_warning
    try:
        if handler is not silence:
            LOG.setLevel(logging.INFO)
            LOG.info("\n".join(_header(command, options)))
        with announcing():
            yield
    finally:
        warnings.showwarning = shown
        LOG.setLevel(logging.NOTSET)
        for one in added:
            logging.root.removeHandler(one)
            one.close()


def logged(command: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Run a command, and write how it ended: where an error came from, with what cannot name a patient."""
    try:
        done = command(*arguments, **options)
    except BaseException as error:
        code = getattr(error, "exit_code", None)
        if isinstance(error, KeyboardInterrupt):
            LOG.info("stopped by Ctrl-C")
        elif code is not None:
            LOG.info("exit code %s", code)
        elif LOG.isEnabledFor(logging.INFO):
            LOG.error("%s", "".join(_told(error)).rstrip())
        raise
    LOG.info("exit code 0")
    return done


class _Silence(logging.NullHandler):
    """Stands where Python would otherwise print what has no handler."""


class _LogFile(logging.FileHandler):
    """Appends to a log, every line with its time."""

    def __init__(self, path: Path, nameless: _Nameless) -> None:
        from duotomo.io.paths import FileError, make_folder, reason

        make_folder("log", path.parent, choice="`log`")
        self._nameless = nameless
        try:
            with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
                head = file.read(len(HEAD))
                if not head:
                    file.write(f"{HEAD}\n".encode())
        except OSError as error:
            raise FileError(
                f"log: expected a file that can be written to at {path}; got: {reason(error)}. Choose "
                f"another `log`."
            ) from error
        if head and head != HEAD.encode():
            raise FileError(
                f"log: expected a new file, or a log of duotomo, at {path}; got another file. Choose another "
                f"`log`: nothing was written."
            )
        super().__init__(path, encoding="utf-8")

    def format(self, record: logging.LogRecord) -> str:
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(record.created))
        package = record.name.partition(".")[0]
        text = _NOT_TOLD if package in UNTOLD else record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text += "\n" + "".join(_told(record.exc_info[1])).rstrip()
        start = f"{when} {record.levelname:<7} {record.name}: "
        return "\n".join(start + line for line in self._nameless(text).splitlines() or [""])

    def handleError(self, record: logging.LogRecord) -> None:
        """A log on a full disk is no reason to lose a result."""


class _Nameless:
    """Takes the names of files out of texts: such a name may be a patient's."""

    def __init__(self, replaced: Mapping[str, str]) -> None:
        longest_first = sorted(replaced, key=len, reverse=True)
        self._replaced = replaced
        known = "|".join(map(re.escape, longest_first))
        self._pattern = re.compile(rf"(?<!\w)(?:{known})(?!\w)") if replaced else None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> _Nameless:
        """Return what takes out the paths among the options of a command, and the names in their folders."""
        replaced: dict[str, str] = {}
        for name in (*NAMED, *OUT):
            for number, path in enumerate(_paths(options.get(name)), start=1):
                place = f"<{name}>" if name in OUT else f"<{name} {number}>"
                whole = {str(path), str(path.absolute()), str(path.resolve())}
                replaced |= dict.fromkeys(whole, place)
                if name in OUT:
                    continue
                above = {str(Path(one).parent) for one in whole}
                replaced = {**dict.fromkeys(above, f"<folder of {name} {number}>"), **replaced}
                for one in islice(_within(path), MOST_NAMES):
                    if len(one.name) >= SHORTEST:
                        replaced.setdefault(one.name, f"<a file of {name} {number}>")
                replaced.setdefault(path.name, place)
        return cls({text: place for text, place in replaced.items() if text not in ("", ".", "..", "/")})

    def __call__(self, text: str) -> str:
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda found: self._replaced[found[0]], text)


def _paths(value: Any) -> list[Path]:
    several = value if isinstance(value, (list, tuple)) else [value]
    return [Path(one) for one in several if isinstance(one, (str, Path))]


def _within(path: Path) -> Iterator[Path]:
    try:
        if path.is_dir():
            yield from path.rglob("*")
    except OSError:
        return


def _header(command: str, options: Mapping[str, Any]) -> Iterator[str]:
    from duotomo.io.versions import library_versions

    yield f"duotomo {command}"
    yield f"{platform.platform()}, {os.cpu_count()} cores"
    yield ", ".join(f"{name} {version}" for name, version in sorted(library_versions().items()))
    for name, value in sorted(options.items()):
        if name == "context" or value in (None, (), [], False):
            continue
        yield f"{name} = {_NOT_TOLD if name in (*NAMED, *OUT) else getattr(value, 'value', value)}"


def _log_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any, **__: Any
) -> None:
    told = message if not _is_untold([filename]) else _NOT_TOLD
    logging.getLogger("py.warnings").warning("%s (%s:%d): %s", category.__name__, filename, lineno, told)


def _told(error: BaseException) -> Iterator[str]:
    """Give an error, and those that led to it, like Python, but for messages that may quote a file."""
    from duotomo.errors import DuotomoError

    led = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if led is not None:
        yield from _told(led)
        yield "which led to\n"
    frames = traceback.extract_tb(error.__traceback__)
    yield from traceback.format_list(frames)
    known = isinstance(error, DuotomoError) or not _is_untold([frame.filename for frame in frames])
    yield f"{type(error).__name__}: {error if known else _NOT_TOLD}\n"


def _is_untold(files: Sequence[str]) -> bool:
    return any(f"{os.sep}{name}{os.sep}" in file for file in files for name in UNTOLD)
