"""`duotomo demo`: the whole way from two scans of one breast to a new mass in their difference."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duotomo.cli._common import (
    DONE,
    Device,
    DeviceOption,
    JsonOption,
    QuietOption,
    ResumeOption,
    Talk,
    ThreadsOption,
    prepare,
)

if TYPE_CHECKING:
    from duotomo.cli._demo_numbers import Found
    from duotomo.cli._demo_pair import Pair

WHERE = "duotomo demo"

NOW, PRIOR, RESULT, PICTURE = "current.h5", "prior.h5", "result", "change"

TRANSFORM = "bspline:4,4,6"
"""About 44 x 53 x 48 mm (z, y, x) between control points: squeezed tissue moves smoothly."""

WINDOW_PER_MM = (0.035, 0.095)
"""From just below fat to just above skin."""


def demo(
    out: Annotated[Path, typer.Option(help="Folder to write to; nothing is written elsewhere.")] = Path(
        "out/demo"
    ),
    device: DeviceOption = Device.CPU,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the noise.")] = 0,
    voxel: Annotated[
        float, typer.Option(min=0.25, max=6, help="In plane, and of the pixels, mm; slices are twice as far.")
    ] = 1.0,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Most steps of every stage of the estimation.")
    ] = None,
    threads: ThreadsOption = None,
    resume: ResumeOption = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Scan a built-in breast at two visits, find its motion between them, and show what is new.

    At the prior visit the breast was thicker between the plates, and turned by 5 degrees. Since then a mass
    of 8 mm has grown. The scans become files, and `duotomo joint` makes the rest of them, as it would of
    real ones. About a minute on two cores, and two when the loops have to be compiled first.

    Example: duotomo demo --out out/demo
    """
    from duotomo.cli._demo_pair import Pair
    from duotomo.io.paths import make_folder

    talk = Talk(quiet=quiet, as_json=as_json)
    prepare(WHERE, device=device, threads=threads, seed=seed)
    make_folder(WHERE, out, choice="--out")
    pair = Pair(voxel_mm=voxel, seed=seed, device=device.value)
    _write_scans(talk, out, pair)
    words = [
        "joint",
        out / NOW,
        out / PRIOR,
        "--transform",
        TRANSFORM,
        "--voxel",
        f"{2 * voxel:g},{voxel:g},{voxel:g}",
    ]
    words += ["--out", out / RESULT]
    for option, value in (("--steps", steps), ("--threads", threads)):
        words += [] if value is None else [option, value]
    words += ["--device", device.value] if device is not Device.CPU else []
    words += ["--resume"] if resume else []
    code = _run(talk, [str(word) for word in words], silent=quiet or as_json)
    if code != DONE:
        raise typer.Exit(code)
    talk.finish(_show(talk, out, pair))


def _write_scans(talk: Talk, out: Path, pair: Pair) -> None:
    from duotomo.cli._demo_pair import NOW_MM, PRIOR_MM, PRIOR_ROLL_DEG
    from duotomo.io.scan_hdf5 import write_scan

    shape = pair.acquisition.shape
    talk.progress(f"A breast is squeezed by finite elements, and scanned twice: {shape} (view, v, u)")
    write_scan(out / NOW, pair.now())
    talk.progress(f"  {out / NOW}: today, {NOW_MM:g} mm thick, with a new mass")
    write_scan(out / PRIOR, pair.prior())
    talk.progress(f"  {out / PRIOR}: before, {PRIOR_MM:g} mm thick, turned by {PRIOR_ROLL_DEG:g} degrees")


def _run(talk: Talk, words: list[str], *, silent: bool) -> int:
    """Run another command in this process, as the shell would, and return its exit code."""
    from duotomo.cli import main

    talk.progress(f"$ duotomo {shlex.join(words)}")
    code: int | None = typer.main.get_command(main)(
        [*words, *(["--quiet"] if silent else [])], prog_name="duotomo", standalone_mode=False
    )
    return code or DONE


def _show(talk: Talk, out: Path, pair: Pair) -> dict[str, Any]:
    """Draw and say what came out beside the truth, and return what --json shows."""
    from duotomo.cli._demo_numbers import compare
    from duotomo.cli._demo_pair import MASS_RADIUS_MM
    from duotomo.io import read_result
    from duotomo.report.page import PAGE

    found = compare(read_result(out / RESULT), pair.landmarks_mm(), pair.mass_mm, MASS_RADIUS_MM)
    picture = _draw(out, found, pair.mass_mm)
    rows = (
        ("against the truth", "before registration", "after"),
        ("tissue is off by", *(f"{tre_mm:.2f} mm" for tre_mm in found.tre_mm)),
        ("difference at the mass", *(f"{one.mass_per_mm:+.4f} / mm" for one in found.changes)),
        ("difference elsewhere", *(f"{one.elsewhere_per_mm:.4f} / mm" for one in found.changes)),
        ("the mass stands out by", *(f"{one.contrast:.1f} times" for one in found.changes)),
    )
    talk.say("")
    for name, before, after in rows:
        talk.say(f"{name:<24}{before:>20}{after:>16}")
    x, y, z = pair.mass_mm
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
                "mass_per_mm": one.mass_per_mm,
                "elsewhere_per_mm": one.elsewhere_per_mm,
                "contrast": one.contrast,
            }
            for when, tre_mm, one in zip(("before", "after"), found.tre_mm, found.changes, strict=True)
        },
    }


def _draw(out: Path, found: Found, mass_mm: tuple[float, float, float]) -> Path:
    from duotomo.report import slices

    now, as_it_was, registered = found.volumes
    picture, _ = slices(
        out / PICTURE,
        rows={"today": now, "prior, as it was": as_it_was, "prior, registered": registered},
        differences={
            "today less prior, as it was": now - as_it_was,
            "today less prior, registered": now - registered,
        },
        grid=found.grid,
        unit="1/mm",
        window=WINDOW_PER_MM,
        difference_limit=0.03,
        at_mm=mass_mm,
        arrows=[mass_mm],
    )
    return picture
