"""`duotomo demo`: the whole way from two scans of one breast to a new mass in their difference."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duotomo.cli._errors import DONE, NOT_TRUSTED
from duotomo.cli._options import Computing, Device, Talk
from duotomo.cli._resume import CHECKPOINT, check_finished

if TYPE_CHECKING:
    from duotomo.simulate import SimulatedVisits
    from duotomo.simulate.visit import SimulatedVisit

NOW, PRIOR, RESULT, PICTURE = "current.h5", "prior.h5", "result", "change"

ROUNDING = 1e-5
"""Relative difference of scans up to which they are the same; other noise makes 7e-4 at least."""

TRANSFORM = "bspline:22mm"
"""About 44 x 53 x 48 mm (z, y, x) between control points: squeezed tissue moves smoothly."""


def demo(
    computing: Computing,
    talk: Talk,
    out: Annotated[Path, typer.Option(help="Folder to write to; nothing is written elsewhere.")] = Path(
        "out/demo"
    ),
    voxel_mm: Annotated[
        float,
        typer.Option(
            "--voxel", min=0.25, max=6, help="In plane, and of the pixels, mm; slices are twice as far."
        ),
    ] = 1.0,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Steps of the last stage, at most, and of the others.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where a run was stopped or killed.")
    ] = False,
) -> None:
    """Scan a built-in breast at two visits, find its motion between them, and show what is new.

    At the prior visit the breast was thicker between the plates, and turned by 5 degrees. Since then a mass
    of 8 mm has grown. The scans become files, and `duotomo joint` makes the rest of them, as it would of
    real ones. About a minute on two cores, and two when the loops have to be compiled first.

    Example: duotomo demo --out out/demo
    """
    from duotomo.io.durable import held
    from duotomo.io.result_folder import check_place

    computing.prepare(talk)
    with held("demo", out, choice="`out`"):
        # What joint would refuse is refused before the scans are replaced.
        check_place("demo", out / RESULT)
        if not resume:
            check_finished(out / RESULT / CHECKPOINT)
        raise typer.Exit(_demo(talk, computing, out, voxel_mm=voxel_mm, steps=steps, resume=resume))


def _demo(
    talk: Talk, computing: Computing, out: Path, *, voxel_mm: float, steps: int | None, resume: bool
) -> int:
    """Return the exit code."""
    from duotomo.simulate import demo_pair

    pair = demo_pair(voxel_mm=voxel_mm, seed=computing.seed, device=computing.device.value)
    _write_scans(talk, out, pair, resume=resume)
    voxel = f"{2 * voxel_mm:g},{voxel_mm:g},{voxel_mm:g}"
    words = [
        "joint",
        out / NOW,
        out / PRIOR,
        "--transform",
        TRANSFORM,
        "--voxel",
        voxel,
        "--out",
        out / RESULT,
    ]
    for option, value in (("--steps", steps), ("--threads", computing.threads)):
        words += [] if value is None else [option, value]
    words += [] if computing.device is Device.CPU else ["--device", computing.device.value]
    words += ["--resume"] if resume else []
    code = _run(talk, list(map(str, words)))
    if code in (DONE, NOT_TRUSTED):
        talk.finish(_show(talk, out, pair))
    return code


def _write_scans(talk: Talk, out: Path, pair: SimulatedVisits, *, resume: bool) -> None:
    """Write both scans; to resume, those that are there are used if they are of this pair."""
    from duotomo.io import Scan, Values, write_scan
    from duotomo.io.file_set import together

    options = pair.options
    shape = pair.acquisition.shape
    talk.progress(f"A breast is squeezed by finite elements, and scanned twice: {shape} (view, v, u)")
    words = (
        f"today, {options.thickness_mm:g} mm thick, with a new mass",
        f"before, {options.second_thickness_mm:g} mm thick, turned by {options.roll_deg:g} degrees",
    )
    if not (resume and all(map(_holds, (out / NOW, out / PRIOR), pair.visits))):
        with together("demo", out, "scans") as draft:
            for name, visit in zip((NOW, PRIOR), pair.visits, strict=True):
                scan = Scan(
                    projections=visit.projections,
                    values=Values.LINE_INTEGRALS,
                    acquisition=visit.acquisition,
                    format="simulated",
                    thickness_mm=visit.thickness_mm,
                )
                write_scan(draft / name, scan)
    for name, said in zip((NOW, PRIOR), words, strict=True):
        talk.progress(f"  {out / name}: {said}")


def _holds(path: Path, visit: SimulatedVisit) -> bool:
    """Whether a file is the scan of a visit, but for the rounding of finite elements that are solved anew."""
    from duotomo.io import FileError, read_scan

    try:
        scan = read_scan(path)
    except FileError:
        return False
    if (scan.acquisition, scan.thickness_mm) != (visit.acquisition, visit.thickness_mm):
        return False
    made = visit.projections.cpu()
    return bool((scan.projections - made).norm() <= ROUNDING * made.norm())


def _run(talk: Talk, words: list[str]) -> int:
    """Run another command in this process, as the shell would, and return its exit code."""
    from duotomo.cli import main

    talk.progress(f"$ duotomo {shlex.join(words)}")
    silent = ["--quiet"] if talk.quiet or talk.as_json else []
    code: int | None = typer.main.get_command(main)(
        [*words, *silent], prog_name="duotomo", standalone_mode=False
    )
    return code or DONE


def _show(talk: Talk, out: Path, pair: SimulatedVisits) -> dict[str, Any]:
    """Draw and say what came out beside the truth, and return what --json shows."""
    from duotomo.io import read_result
    from duotomo.io.result_format import PAGE
    from duotomo.report.comparison import compare_with_truth, draw_comparison

    found = compare_with_truth(read_result(out / RESULT), pair)
    picture = draw_comparison(out / PICTURE, found)
    rows = (
        ("against the truth", "before registration", "after"),
        ("tissue is off by", *(f"{tre_mm:.2f} mm" for tre_mm in found.tre_mm)),
        ("difference at the mass", *(f"{one.lesion_per_mm:+.4f} / mm" for one in found.changes)),
        ("difference elsewhere", *(f"{one.elsewhere_per_mm:.4f} / mm" for one in found.changes)),
        ("the mass stands out by", *(f"{one.contrast:.1f} times" for one in found.changes)),
    )
    talk.say("")
    for name, before, after in rows:
        talk.say(f"{name:<24}{before:>20}{after:>16}")
    x, y, z = found.lesion_mm
    page = out / RESULT / PAGE
    talk.say("")
    talk.say(f"The mass is at x = {x:.0f}, y = {y:.0f}, z = {z:.0f} mm: {picture}")
    if page.exists():
        talk.say(f"Open {page}: its third picture is today less the prior visit, and the bright spot is new.")
    else:
        talk.say("There is no page to open: the viewer is not built. The picture shows the same.")
    return {
        "status": "done",
        "out": str(out),
        "page": str(page) if page.exists() else None,
        "picture": str(picture),
        "mass_mm": [x, y, z],
        **{
            when: {
                "tre_mm": tre_mm,
                "mass_per_mm": one.lesion_per_mm,
                "elsewhere_per_mm": one.elsewhere_per_mm,
                "contrast": one.contrast,
            }
            for when, tre_mm, one in zip(("before", "after"), found.tre_mm, found.changes, strict=True)
        },
    }
