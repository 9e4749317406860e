"""Frozen dataclasses as options of a command: each option is written once, as a field of its class."""

from __future__ import annotations

import functools
import inspect
import math
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from enum import Enum
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer
from typer.models import OptionInfo

COUNT, UNITS = "n_", ("_per_mm2", "_mm", "_deg", "_gb")
"""What a parameter's name begins or ends with and its option does not: the help says the unit."""

ALIKE = ("--voxel", "--pixel-spacing")
"""Options of which one number stands for the same along every axis."""


@dataclass(frozen=True)
class Fields:
    """What a command takes of a dataclass, as `Annotated[Class, Fields(...)]`.

    only: the names of the fields; all, unless given. panels: by a field's name, that of the panel of `--help`
    which begins with it.
    """

    only: tuple[str, ...] = ()
    panels: Mapping[str, str] = field(default_factory=dict)


def flattened(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command, for Typer, that has an option for each field of the dataclasses that `command` takes.

    The option of `pixel_spacing_mm` is `--pixel-spacing`. Its type and default are those of the field, its
    help is from the `Parameters` section of the class's docstring, and the least and the most that it may be
    are the field's metadata `minimum` and `maximum`. A field may also be annotated with its own
    `typer.Option(...)`. Tuples of numbers are written `1,0.1,0.1`; options for other tuples may be repeated.
    """
    hints = get_type_hints(command, include_extras=True)
    # Whoever guards the command wants the context, whether the command does or not.
    shown = [inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    groups: dict[str, tuple[Any, list[_Option]]] = {}
    alone: dict[str, _Option] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        kind, chosen = _split(hints[name], Fields)
        if isinstance(kind, type) and is_dataclass(kind):
            groups[name] = kind, _options(kind, chosen or Fields())
            shown += [option.parameter for option in groups[name][1]]
        elif _split(hints[name], OptionInfo)[1] is not None:
            alone[name] = _option(name, parameter.default, hints[name])
            shown.append(alone[name].parameter)
        elif name != "context":
            shown.append(parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(command)
    def run(**values: Any) -> Any:
        given = {name: option.take(values) for name, option in alone.items()}
        for name, (kind, options) in groups.items():
            given[name] = kind(**{option.name: option.take(values) for option in options})
        if "context" not in hints:
            del values["context"]
        return command(**given, **values)

    run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    return run


def shell_name(name: str) -> str:
    """Return the name that a parameter has on the command line, with underscores.

    >>> shell_name("pixel_spacing_mm"), shell_name("n_views")
    ('pixel_spacing', 'views')
    """
    name = name.removeprefix(COUNT)
    return next((name.removesuffix(unit) for unit in UNITS if name.endswith(unit)), name)


def numbers(text: str, option: str, *, n: int | None = None) -> tuple[float, ...]:
    """Return the numbers of an option such as `--voxel 1,0.1,0.1`; n: how many there have to be.

    >>> numbers("1,0.1,0.1", "--voxel", n=3), numbers("3", "--voxel", n=3)
    ((1.0, 0.1, 0.1), (3.0, 3.0, 3.0))
    """
    from duotomo.errors import DuotomoError

    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        values = ()
    if option in ALIKE and n is not None and len(values) == 1:
        values *= n
    if not values or (n is not None and len(values) != n) or not all(map(math.isfinite, values)):
        wanted = "numbers" if n is None else f"{n} numbers"
        raise DuotomoError(
            f"expected {wanted}, with commas between them, for {option}; got {text!r}. Write for example "
            f"{option} {','.join(['1'] * (n or 2))}."
        )
    return values


def documented(kind: type) -> dict[str, str]:
    """Return, for each name, what the `Parameters` section of a class's docstring says, in one line.

    >>> class Scanned:
    ...     '''A scan.
    ...
    ...     Parameters
    ...     ----------
    ...     low, high : float
    ...         Of the values.
    ...     '''
    >>> documented(Scanned)
    {'low': 'Of the values.', 'high': 'Of the values.'}
    """
    _, _, section = (inspect.getdoc(kind) or "").partition("Parameters\n----------\n")
    said: dict[str, str] = {}
    names: list[str] = []
    for line in section.split("\n\n")[0].splitlines():
        if line.startswith(" "):
            said |= {name: f"{said.get(name, '')} {line.strip()}".strip() for name in names}
        else:
            names = [name.strip() for name in line.partition(" : ")[0].split(",")]
    return said


@dataclass(frozen=True)
class _Option:
    """The option of a parameter. default, read: its value where nothing was given, and from what was."""

    name: str
    parameter: inspect.Parameter
    default: Any
    read: Callable[[Any], Any]

    def take(self, values: dict[str, Any]) -> Any:
        """Return the parameter's value from what Typer gives, and remove it there."""
        given = values.pop(self.parameter.name)
        # Typer gives an empty list for an empty tuple.
        return self.default if given in (None, []) else self.read(given)


def _options(kind: Any, chosen: Fields) -> list[_Option]:
    hints, words = get_type_hints(kind, include_extras=True), documented(kind)
    panel, found = None, []
    for one in fields(kind):
        panel, hint = chosen.panels.get(one.name, panel), hints[one.name]
        if _split(hint, OptionInfo)[1] is None:
            info = typer.Option(
                _flag(one.name),
                help=words.get(one.name),
                rich_help_panel=panel,
                min=one.metadata.get("minimum"),
                max=one.metadata.get("maximum"),
            )
            hint = Annotated[hint, info]
        if not chosen.only or one.name in chosen.only:
            default = inspect.Parameter.empty if one.default is MISSING else one.default
            found.append(_option(one.name, default, hint))
    return found


def _option(name: str, default: Any, hint: Any) -> _Option:
    kind, info = _split(hint, OptionInfo)
    shown, read, text = _on_shell(kind, _flag(name))
    optional = default in (None, ())
    parameter = inspect.Parameter(
        shell_name(name),
        inspect.Parameter.KEYWORD_ONLY,
        default=None if optional else default if default is inspect.Parameter.empty else text(default),
        annotation=Annotated[shown | None if optional else shown, info],
    )
    return _Option(name, parameter, default, read)


def _flag(name: str) -> str:
    return "--" + shell_name(name).replace("_", "-")


def _on_shell(kind: Any, flag: str) -> tuple[Any, Callable[[Any], Any], Callable[[Any], Any]]:
    """Return the type that Typer sees for a field's, what reads its values, and what writes a default."""
    if get_origin(kind) in (Union, types.UnionType):
        (kind,) = (one for one in get_args(kind) if one is not types.NoneType)
    if get_origin(kind) is tuple:
        first, *others = get_args(kind)
        if first in (int, float):
            n = None if others == [...] else 1 + len(others)
            return (
                str,
                lambda given: numbers(given, flag, n=n),
                lambda value: ",".join(f"{one:g}" for one in value),
            )
        item, read, text = _on_shell(first, flag)
        return list[item], lambda given: tuple(map(read, given)), lambda value: list(map(text, value))  # type: ignore[valid-type]
    if isinstance(kind, type) and issubclass(kind, Enum):
        dashed = Enum(kind.__name__, {one.name: str(one.value).replace(" ", "-") for one in kind})  # type: ignore[misc]
        return dashed, lambda given: kind[given.name], lambda value: dashed[value.name]
    return kind, _same, _same


def _split(hint: Any, marker: type) -> tuple[Any, Any]:
    """Return a type without its annotations, and the one among them that is a `marker`, if there is one."""
    if get_origin(hint) is not Annotated:
        return hint, None
    kind, *extras = get_args(hint)
    return kind, next((extra for extra in extras if isinstance(extra, marker)), None)


def _same(value: Any) -> Any:
    return value
