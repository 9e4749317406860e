"""`duotomo info`: what a file is, what was understood of it, and what is missing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from duotomo.cli._errors import as_options
from duotomo.cli._options import FileScan, Talk


def info(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A file or a folder of any kind.")],
    context: typer.Context,
    scan: FileScan,
    talk: Talk,
) -> None:
    """Say what a scan, volume, study, transform, geometry or result folder is: nothing that names a patient.

    Of a scan: views, angles, geometry, pixel sizes, the kind and range of its values, and warnings. A scan
    whose geometry is missing is described all the same, with what is missing and the options that supply it.

    Example: duotomo info scan.dcm
    """
    from duotomo.io import describe

    facts = describe(path, scan)
    if "missing" in facts:
        facts["missing"] = as_options(facts["missing"], context)
    talk.say(facts["kind"])
    for line in lines({name: value for name, value in facts.items() if name != "kind"}, indent="  "):
        talk.say(line)
    talk.finish(facts)


def lines(facts: Mapping[str, Any], *, indent: str = "") -> Iterator[str]:
    """Give facts as lines of text.

    >>> list(lines({"n_views": 3, "pixel_spacing_mm": [0.5, 0.5], "grid": {"shape": [1, 2, 3]}}))
    ['n views: 3', 'pixel spacing (mm): 0.5, 0.5', 'grid:', '  shape: 1, 2, 3']
    """
    for name, value in facts.items():
        label = _label(name)
        first = value[0] if isinstance(value, list) and value else None
        if isinstance(value, Mapping):
            if value:
                yield f"{indent}{label}:"
                yield from lines(value, indent=indent + "  ")
        elif isinstance(first, Mapping):
            for number, one in enumerate(value, start=1):
                yield f"{indent}{label} {number}:"
                yield from lines(one, indent=indent + "  ")
        elif isinstance(first, str):
            yield f"{indent}{label}:"
            yield from (f"{indent}  {one}" for one in value)
        elif value != [] and value is not None:
            yield f"{indent}{label}: {_text(value)}"


def _label(name: str) -> str:
    for unit in ("mm", "deg"):
        if name.endswith(f"_{unit}"):
            return f"{name[: -len(unit) - 1].replace('_', ' ')} ({unit})"
    return name.replace("_", " ")


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}" if math.isfinite(value) else str(value)
    return ", ".join(map(_text, value)) if isinstance(value, list) else str(value)
