"""Options of a command in a TOML file: read as defaults, and written back so that a run can be repeated."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

MOST_BYTES = 1_000_000
"""A file of settings that is longer is none."""

_MOST_TEXT = 200


def load_settings(context: typer.Context, path: Path | None) -> Path | None:
    """Make what a TOML file says the defaults of the command's options; for an eager option.

    The file has one table for each command, `[joint]`, whose keys are the options' names with underscores.
    Lists of numbers stand for options such as `--voxel 1,0.1,0.1`.
    """
    if path is None or context.resilient_parsing:
        return path
    from duotomo.errors import DuotomoError

    known = {str(param.name): param for param in context.command.params if param.name}
    command = str(context.command.name)
    try:
        values = read_settings(
            path, command=command, known=[n for n in known if n not in ("settings", "help")]
        )
    except DuotomoError as error:
        raise typer.BadParameter(str(error), param_hint="--settings") from None
    defaults = dict(context.default_map or {})
    for name, value in values.items():
        several = getattr(known[name], "multiple", False) or known[name].nargs != 1
        joined = isinstance(value, list) and not several
        defaults[name] = ",".join(map(str, value)) if joined else value
    context.default_map = defaults
    return path


def read_settings(path: Path, *, command: str, known: Sequence[str]) -> dict[str, Any]:
    """Return the values that a file gives for the options of a command; raise for names it does not have.

    >>> from tempfile import TemporaryDirectory
    >>> from duotomo.io.settings_text import settings_text
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "settings.toml")
    ...     _ = path.write_text(settings_text("joint", {"method": "iterative", "voxel": [1.0, 0.5, 0.5]}))
    ...     read_settings(path, command="joint", known=["method", "voxel"])
    {'method': 'iterative', 'voxel': [1.0, 0.5, 0.5]}
    """
    from duotomo.io.paths import FileError

    where = "settings"
    try:
        if path.stat().st_size > MOST_BYTES:
            raise FileError(
                f"{where}: expected at most {MOST_BYTES} bytes of TOML in {path}; got {path.stat().st_size}. "
                f"Check the path."
            )
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, FileError):
            raise
        said = getattr(error, "strerror", None) or error
        raise FileError(
            f"{where}: expected TOML in {path}; got: {said}. Check the path and the file."
        ) from error
    table = tables.get(command, {})
    if not isinstance(table, dict) or not tables.keys() <= {command, *_OTHERS}:
        raise FileError(
            f"{where}: expected the table [{command}] in {path}; got "
            f"{str(sorted(tables))[:_MOST_TEXT]}. Name it after the command."
        )
    unknown = sorted(table.keys() - set(known))
    if unknown:
        raise FileError(
            f"{where}: expected options of duotomo {command} in {path}, such as {', '.join(known)}; got "
            f"{', '.join(unknown)[:_MOST_TEXT]}. Correct or remove them."
        )
    for name, value in table.items():
        if not all(map(_is_plain, value if isinstance(value, list) else [value])):
            raise FileError(
                f"{where}: expected a number of at most 63 bits, a text, true, false or a list of them for "
                f"{name} in {path}; got something else. Write it as on the command line."
            )
    return table


def _is_plain(value: object) -> bool:
    # Whole numbers in TOML have as many digits as they like.
    return not isinstance(value, (list, dict, int)) or (isinstance(value, int) and abs(value) < 2**63)


_OTHERS = ("joint", "reconstruct", "register", "simulate", "convert", "bench")
