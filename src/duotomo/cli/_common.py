"""What all commands share: options, exit codes, what they say and where, and how they end."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from duotomo.cli._settings_file import load_settings

if TYPE_CHECKING:
    from rich.console import Console

DONE, DIVERGED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
"""Exit codes: done; diverged, with the last good values written; nothing was computed; stopped by Ctrl-C."""

DEBUG = "DUOTOMO_DEBUG"
"""An environment variable: where it is set, errors show their traceback."""


class Device(Enum):
    """Where to compute."""

    CPU = "cpu"
    CUDA = "cuda"


OutOption = Annotated[Path, typer.Option(help="Folder to write to; nothing is written elsewhere.")]
DeviceOption = Annotated[Device, typer.Option(help="Where to compute.")]
SeedOption = Annotated[int, typer.Option(min=0, help="Seed of whatever is drawn at random.")]
ThreadsOption = Annotated[
    int | None,
    typer.Option(min=1, help="Threads on the CPU. Unless given: one for each core."),
]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Go on where a run was stopped or killed.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]
JsonOption = Annotated[
    bool, typer.Option("--json", help="One JSON object on standard output, and nothing else there.")
]
SettingsOption = Annotated[
    Path | None,
    typer.Option(
        "--settings",
        is_eager=True,
        callback=load_settings,
        help="A TOML file with values for options; the command line wins.",
    ),
]


class Talk:
    """Says what a command does: progress to standard error, what came out to standard output.

    quiet: say neither. as_json: what came out is one JSON object, given to `finish`.
    """

    def __init__(self, *, quiet: bool = False, as_json: bool = False) -> None:
        self._quiet, self._as_json = quiet, as_json

    @functools.cached_property
    def console(self) -> Console:
        """Where progress is shown."""
        from rich.console import Console

        return Console(stderr=True, highlight=False, soft_wrap=True, markup=False, quiet=self._quiet)

    def progress(self, text: str) -> None:
        """Say what is being done."""
        self.console.print(text)

    def say(self, text: str) -> None:
        """Say what came out; with --json, beside the progress."""
        if self._as_json:
            self.console.print(text)
        elif not self._quiet:
            typer.echo(text)

    def finish(self, content: Mapping[str, Any]) -> None:
        """End with what came out, as one JSON object if that was asked for."""
        if self._as_json:
            typer.echo(json.dumps(content))


def guarded(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command that ends every failure with a message and an exit code, not with a traceback.

    A `DuotomoError` says all there is to say. What nobody foresaw is named, with the way to see its
    traceback: the environment variable DUOTOMO_DEBUG. With --json, the message is the JSON object's `error`.
    """

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> Any:
        from duotomo.errors import DuotomoError

        try:
            return command(*arguments, **options)
        except KeyboardInterrupt:
            typer.echo("Stopped.", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except (typer.Exit, typer.Abort, BrokenPipeError):
            raise
        except Exception as error:
            # What Click raises on purpose shows itself: a wrong option, with the way to --help.
            if os.environ.get(DEBUG) or hasattr(error, "exit_code"):
                raise
            text = str(error) if isinstance(error, DuotomoError) else unforeseen(command.__name__, error)
            fail(text, as_json=bool(options.get("as_json")))

    return run


def unforeseen(name: str, error: Exception) -> str:
    """Return the message for an error that duotomo did not raise itself.

    >>> unforeseen("joint", OSError(28, "No space left on device"))
    'duotomo joint: No space left on device. Check the disk, the paths and their permissions.'
    """
    if isinstance(error, OSError):
        where = f" ({error.filename})" if error.filename else ""
        what = error.strerror or str(error) or type(error).__name__
        return f"duotomo {name}: {what}{where}. Check the disk, the paths and their permissions."
    if isinstance(error, MemoryError) or "out of memory" in str(error).lower():
        return (
            f"duotomo {name}: expected enough memory; got too little. Use larger voxels, or free some memory."
        )
    first = next(iter(str(error).splitlines()), "")
    return (
        f"duotomo {name}: unforeseen {type(error).__name__}: {first}. Run it again with {DEBUG}=1 to see "
        f"where, and report it."
    )


def fail(text: str, *, code: int = BAD_INPUT, as_json: bool = False) -> NoReturn:
    """Say what went wrong on standard error, in red on a terminal, and end."""
    typer.secho(text, err=True, fg=typer.colors.RED)
    if as_json:
        typer.echo(json.dumps({"status": "error", "error": text}))
    raise typer.Exit(code)


def prepare(where: str, *, device: Device, threads: int | None, seed: int) -> None:
    """Set the threads and the seed; raise unless the device is there."""
    import torch

    from duotomo.errors import DeviceError

    if device is Device.CUDA and not torch.cuda.is_available():
        raise DeviceError(
            f"{where}: expected a CUDA device for --device cuda; got: no CUDA device is available here. Use "
            f"--device cpu."
        )
    torch.manual_seed(seed)
    if threads is not None:
        use_threads(threads)


def use_threads(n_threads: int) -> None:
    """Let PyTorch and the compiled loops use so many threads, but no more than there are cores."""
    import torch

    n_threads = min(n_threads, os.cpu_count() or 1)
    torch.set_num_threads(n_threads)
    # The compiler starts its threads when it is imported, and afterwards may only use fewer.
    if "numba" in sys.modules:
        import numba

        most: int = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
        numba.set_num_threads(min(n_threads, most))
    else:
        os.environ["NUMBA_NUM_THREADS"] = str(n_threads)
