"""How commands end: exit codes, and messages that speak of options where the library speaks of parameters."""

from __future__ import annotations

import functools
import json
import os
import re
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import Any, NoReturn

import typer

from duotomo.cli._flatten import shell_name
from duotomo.cli._log import logged, quiet_libraries

DONE, BAD_INPUT, NOT_TRUSTED, SOME_FAILED, INTERRUPTED = 0, 2, 3, 4, 130
"""Exit codes: done, and no check says no; refused, and no result written; a result that checks do not trust,
the last good values of a run that diverged among them; cases of a cohort without a result; stopped by
Ctrl-C."""

DEBUG = "DUOTOMO_DEBUG"
"""An environment variable: where it is set, errors show their traceback."""

_PARAMETER = re.compile(r"`(?P<name>[a-z]\w*)(=(?P<value>[^`]+))?`")
_MEMBER = re.compile(r"[A-Z]\w*\.([A-Z_]+)")


def guarded(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command that ends every failure with a message and an exit code, not with a traceback.

    A `DuotomoError` says all there is to say. What nobody foresaw is named, with the way to see its
    traceback: the environment variable DUOTOMO_DEBUG. With --json, the message is the JSON object's `error`.
    """
    name = command.__name__

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> Any:
        from duotomo.errors import DuotomoError

        with _noting_interrupts() as interrupts:
            try:
                with quiet_libraries(name, options):
                    return logged(command, *arguments, **options)
            except KeyboardInterrupt:
                stop()
            except (typer.Exit, typer.Abort, BrokenPipeError):
                raise
            except Exception as error:
                if interrupts.noted:
                    # Ctrl-C within an import or a callback: a library has made another error of it.
                    stop()
                # What Click raises on purpose shows itself: a wrong option, with the way to --help.
                if os.environ.get(DEBUG) or hasattr(error, "exit_code"):
                    raise
                known = isinstance(error, DuotomoError)
                text = as_options(str(error), options.get("context")) if known else unforeseen(error)
                said = f"duotomo {name}: {text.removeprefix(f'{name}: ')}"
                fail(said, as_json=bool(options.get("as_json")))

    return run


def stop() -> NoReturn:
    """End as Ctrl-C ends a command."""
    typer.echo("Stopped.", err=True)
    raise typer.Exit(INTERRUPTED) from None


class _Interrupts:
    """A handler of Ctrl-C, which is raised as ever, that remembers it."""

    noted = False

    def __call__(self, number: int, frame: Any) -> None:
        self.noted = True
        signal.default_int_handler(number, frame)


@contextmanager
def _noting_interrupts() -> Iterator[_Interrupts]:
    """Give what knows whether Ctrl-C was pressed; nothing is noted where somebody else handles it."""
    before, own = signal.getsignal(signal.SIGINT), _Interrupts()
    if isinstance(before, _Interrupts):
        # A command that another one runs.
        yield before
    elif before is not signal.default_int_handler or current_thread() is not main_thread():
        yield own
    else:
        signal.signal(signal.SIGINT, own)
        try:
            yield own
        finally:
            signal.signal(signal.SIGINT, before)


def as_options(text: str, context: typer.Context | None) -> str:
    """Return a message of the library, in which the options of a command stand for `parameter=value`."""
    params = [] if context is None else context.command.params
    return translated(text, {str(one.name): one.opts[0] for one in params if one.opts[0].startswith("--")})


def translated(text: str, options: Mapping[str, str]) -> str:
    """Return a message in which parameters in backticks are options; options: by the parameters' names.

    >>> translated("Pass `thickness_mm=50`, or `machine='paper'`.", {"thickness": "--thickness"})
    "Pass --thickness 50, or `machine='paper'`."
    >>> translated("Pass `values=Values.LINE_INTEGRALS`.", {"values": "--values"})
    'Pass --values line-integrals.'
    """

    def option(found: re.Match[str]) -> str:
        flag = options.get(found["name"], options.get(shell_name(found["name"])))
        if flag is None:
            return found[0]
        if found["value"] in (None, "True"):
            return flag
        member = _MEMBER.fullmatch(found["value"])
        if member is not None:
            return f"{flag} {member[1].lower().replace('_', '-')}"
        return f"{flag} {found['value'].strip('()').replace(', ', ',').strip(chr(34) + chr(39))}"

    return _PARAMETER.sub(option, text)


def unforeseen(error: Exception) -> str:
    """Return the message for an error that duotomo did not raise itself.

    >>> unforeseen(OSError(28, "No space left on device"))
    'No space left on device. Check the disk, the paths and their permissions.'
    """
    if isinstance(error, OSError):
        where = f" ({error.filename})" if error.filename else ""
        what = error.strerror or str(error) or type(error).__name__
        return f"{what}{where}. Check the disk, the paths and their permissions."
    if isinstance(error, MemoryError) or "out of memory" in str(error).lower():
        return "expected enough memory; got too little. Use larger voxels, or free some memory."
    first = next(iter(str(error).splitlines()), "")
    what = f"unforeseen {type(error).__name__}: {first}"
    return f"{what}. Run it again with {DEBUG}=1 to see where, and report it."


def fail(text: str, *, code: int = BAD_INPUT, as_json: bool = False) -> NoReturn:
    """Say what went wrong on standard error, in red on a terminal, and end."""
    from duotomo.errors import shown

    typer.secho(shown(text), err=True, fg=typer.colors.RED)
    if as_json:
        typer.echo(json.dumps({"status": "error", "error": text}))
    raise typer.Exit(code)
