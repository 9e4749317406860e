"""`duotomo info`: what a file is, what was understood of it, and what is missing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from duotomo.cli._errors import BAD_INPUT, as_options, translated
from duotomo.cli._options import Permissions, Scans, Talk


def info(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="A file or a folder of any kind; or the scans of all visits."),
    ],
    context: typer.Context,
    scan: Scans,
    allowed: Permissions,
    talk: Talk,
) -> None:
    """Say what a scan, volume, study, transform, geometry or result folder is: nothing that names a patient.

    Of a scan: views, angles, geometry, pixel sizes, the kind and range of its values, and warnings; and what
    `duotomo joint` would ask for, by the names of the options that supply it: then the exit code is 2, as
    that of `joint` would be. Of several scans, also whether they are of one breast.

    Example: duotomo info current.dcm prior.dcm
    """
    from duotomo.io import describe
    from duotomo.io.file_kind import FileKind

    found = []
    for number, path in enumerate(paths, start=1):
        facts = describe(path, scan, number=number, n_visits=len(paths))
        if "missing" in facts:
            facts["missing"] = [as_options(one, context) for one in facts["missing"]]
        talk.say(facts["kind"] if len(paths) == 1 else f"{number}: {facts['kind']}")
        for line in lines({name: value for name, value in facts.items() if name != "kind"}, indent="  "):
            talk.say(line)
        found.append(facts)
    missing = any("missing" in facts for facts in found)
    scans = all(facts["kind"] == FileKind.SCAN.value for facts in found)
    apart = ""
    if len(found) > 1 and scans and not missing:
        # It takes PyTorch, a second of it.
        from duotomo.io.visits import disagreement

        apart = as_options(disagreement(paths, scan, allowed), context)
        # An option of `joint`, for which this speaks.
        apart = translated(apart, {"roll": "--roll"})
        talk.say(f"together: {apart or 'as far as the files tell, visits of one breast'}")
    if scans:
        talk.say("Not ready for duotomo joint" if missing or apart else "Ready for duotomo joint")
    talk.finish(found[0] if len(found) == 1 else {"files": found, "together": apart})
    if missing or apart:
        raise typer.Exit(BAD_INPUT)


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
