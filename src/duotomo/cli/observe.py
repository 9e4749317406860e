"""`duotomo observe`: what acquisitions can determine of a motion, before anything is reconstructed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duotomo.cli._flatten import Fields
from duotomo.cli._options import GEOMETRY, PANELS, Computing, Talk
from duotomo.io.scan_options import ScanOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from duotomo.methods.motion_precision import MotionPrecision
    from duotomo.methods.observability import Observability

STEM = "observe"
FORMAT, VERSION = "duotomo observability", 1
THICKNESS_MM = 50.0

OPTIONS = Fields(only=(*GEOMETRY, "thickness_mm", "gap_mm"), panels={**PANELS, "thickness_mm": "Body"})


def observe(
    context: typer.Context,
    scan: Annotated[ScanOptions, OPTIONS],
    computing: Annotated[Computing, Fields(only=("threads",))],
    talk: Talk,
    scans: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="SCAN...",
            help="One scan, study or geometry JSON, or two; none with --machine.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for observe.json, observe.png and observe.svg.")
    ] = None,
    photons_per_mm2: Annotated[
        float, typer.Option(min=1.0, help="Of a whole scan, on a mm^2 of the detector.")
    ] = 2e6,
) -> None:
    """Say how precisely acquisitions determine the motion between two visits, if noise is all there is.

    Of one acquisition, the second visit is taken alike. Other ranges of angles and numbers of views, with
    the same dose, stand beside it. Nothing of the scans but their geometry is used.

    Example: duotomo observe 2023.dcm 2024.dcm --out protocol
    """
    from duotomo.errors import DuotomoError
    from duotomo.io.acquisitions import read_acquisitions
    from duotomo.methods.observability import LIMITS, observability

    read = read_acquisitions(scans or (), scan)
    if len(read) > 2:
        raise DuotomoError(
            f"expected one acquisition, or two; got {len(read)}. Name the reference and one other visit."
        )
    computing.prepare(talk)
    thicknesses = [
        scan.thickness_of_visit(number, len(read)) or one.thickness_mm
        for number, one in enumerate(read, start=1)
    ]
    thickness_mm = next((one for one in thicknesses if one is not None), THICKNESS_MM)

    def heard(found: MotionPrecision, done: int, n: int) -> None:
        talk.progress(f"{done}/{n}: {_protocol(found)}")

    def compute() -> Observability:
        return observability(
            [one.acquisition for one in read],
            photons_per_mm2=photons_per_mm2,
            thickness_mm=thickness_mm,
            gap_mm=scan.gap_mm,
            on_precision=heard,
        )

    found, written = (compute(), []) if out is None else _written(out, compute)
    for line in table(found):
        talk.say(line)
    talk.say(LIMITS)
    if written:
        talk.wrote(written)
    talk.finish({**found.to_dict(), "files": [str(path) for path in written]})


def _written(out: Path, compute: Callable[[], Observability]) -> tuple[Observability, list[Path]]:
    """Compute, and write the numbers and, where there are any, the picture."""
    from duotomo.io.file_set import together
    from duotomo.io.paths import make_folder
    from duotomo.io.plain_json import json_text
    from duotomo.report.observability import observability_curves

    make_folder(STEM, out)
    # Begun before anything is computed: the folder may not be one to write to.
    with together(STEM, out, STEM) as draft:
        found = compute()
        names = [f"{STEM}.json"]
        content = {"format": FORMAT, "version": VERSION, **found.to_dict()}
        (draft / names[0]).write_text(json_text(content, indent=2) + "\n", encoding="utf-8")
        if found.given.is_determined:
            pictures = observability_curves(draft / STEM, **_drawn(found))
            names += [path.name for path in pictures]
    return found, [out / name for name in names]


def _drawn(found: Observability) -> dict[str, Any]:
    """Return what the picture shows."""

    def curves(rows: tuple[MotionPrecision, ...]) -> dict[str, list[float]]:
        return {
            "points, depth": [one.depth_mm for one in rows],
            "points, plane": [one.in_plane_mm for one in rows],
            "shift, depth": [one.shift_depth_mm for one in rows],
            "shift, plane": [one.shift_in_plane_mm for one in rows],
        }

    given, dose = found.given, f"{found.photons_per_mm2:,.0f} photons per mm²"
    return {
        "ranges_deg": [one.ranges_deg[0] for one in found.by_range],
        "by_range": curves(found.by_range),
        "n_views": [one.n_views[0] for one in found.by_views],
        "by_views": curves(found.by_views),
        "given": (given.ranges_deg[0], given.n_views[0] if len(set(given.n_views)) == 1 else None),
        "titles": (
            f"{'/'.join(map(str, dict.fromkeys(given.n_views)))} views, {dose}",
            f"{'/'.join(f'{one:.3g}' for one in dict.fromkeys(given.ranges_deg))} degrees, {dose}",
        ),
    }


def table(found: Observability) -> list[str]:
    """Return what was found as lines of text."""
    given = found.given
    if given.reason:
        return [_protocol(given)]
    x, y, z = (1000 * one for one in given.deviation_mm)
    rows = [
        f"Given: {_views(given)}, {found.photons_per_mm2:,.0f} photons per mm^2",
        f"  where points go (micrometres): x {x:.3g}, y {y:.3g}, depth {z:.3g}; depth / in plane "
        f"{given.ratio:.3g}",
        f"  shift (micrometres): {_parts(given.shift_mm, 1000)}; depth / in plane {given.shift_ratio:.3g}",
        f"  tilt (millidegrees): {_parts(given.tilt_deg, 1000)}",
        f"  stretch (per mille): {_parts(given.stretch_percent, 10)}",
        f"  shear (per mille): {_parts(given.shear_percent, 10)}",
        "  least determined: "
        + ", ".join(f"{one.words} ({one.share:.0%})" for one in given.least_determined),
    ]
    for title, others in (("Other ranges", found.by_range), ("Other numbers of views", found.by_views)):
        rows += [f"{title}, same dose:", *(f"  {_protocol(one)}" for one in others)]
    return rows


def _parts(values: Mapping[str, float], factor: float) -> str:
    return ", ".join(f"{name} {factor * value:.3g}" for name, value in values.items())


def _views(found: MotionPrecision) -> str:
    visits = dict.fromkeys(zip(found.n_views, found.ranges_deg, strict=True))
    return " and ".join(f"{n} view{'s' * (n != 1)} over {degrees:.4g} degrees" for n, degrees in visits)


def _protocol(found: MotionPrecision) -> str:
    """Return what was found of one protocol in a line."""
    if found.reason:
        return f"{_views(found)}: {found.reason}"
    return (
        f"{_views(found)}: in plane {1000 * found.in_plane_mm:.3g}, depth {1000 * found.depth_mm:.3g} "
        f"micrometres, {found.ratio:.3g} times; of a shift {found.shift_ratio:.3g} times"
    )
