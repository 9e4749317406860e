"""`duotomo simulate`: scans of built-in phantoms, as files that the other commands read."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duotomo.cli._common import Device, DeviceOption, JsonOption, QuietOption, SeedOption, Talk, ThreadsOption
from duotomo.cli._plan import BiRads, Body, Lesion, Plan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duotomo.cli._visits import Maker, Simulated
    from duotomo.geometry import Acquisition

WHERE = "duotomo simulate"

THINNER = 0.92
"""The second visit's thickness, as a part of the first's, unless given."""


class Format(Enum):
    """The format of scans in a folder."""

    H5 = "h5"
    DICOM = "dcm"


def simulate(
    out: Annotated[Path, typer.Option(help="A .h5 or .dcm file for one visit, or a folder.")],
    phantom: Annotated[Body, typer.Option(help="What is scanned.")] = Body.BREAST,
    density: Annotated[BiRads, typer.Option(help="BI-RADS density of the breast.")] = BiRads.C,
    radii: Annotated[str, typer.Option(help="Half axes X,Y,Z of the body at rest, mm.")] = "40,34,30",
    compressed: Annotated[
        bool, typer.Option("--compressed", help="Squeeze the breast between plates, by finite elements.")
    ] = False,
    thickness: Annotated[float, typer.Option(min=1, help="Between the plates, mm.")] = 45.0,
    second_visit: Annotated[bool, typer.Option("--second-visit", help="Scan the body twice.")] = False,
    second_thickness: Annotated[
        float | None,
        typer.Option(
            min=1, help="At the second visit, mm. [default: 92 % of the first's]", show_default=False
        ),
    ] = None,
    roll: Annotated[float, typer.Option(help="How far the second visit's body is turned, degrees.")] = 5.0,
    shift: Annotated[str, typer.Option(help="How far it is shifted there, X,Y,Z, mm.")] = "0,0,0",
    lesion: Annotated[Lesion, typer.Option(help="Which visits have a spiculated mass.")] = Lesion.NONE,
    lesion_radius: Annotated[float, typer.Option(min=0.1, help="Of the mass, mm.")] = 4.0,
    machine: Annotated[str, typer.Option(help="A machine, as `--machine list` names them.")] = "victre",
    views: Annotated[
        int | None, typer.Option(min=1, help="Evenly chosen. [default: the machine's]", show_default=False)
    ] = None,
    pixel: Annotated[float, typer.Option(min=0.01, help="Pixels are united to about this size, mm.")] = 0.5,
    gap: Annotated[float, typer.Option(min=0, help="From the detector to the body, mm.")] = 0.0,
    photons: Annotated[float, typer.Option(help="For each mm^2 and view, without the body.")] = 270_000.0,
    counts: Annotated[bool, typer.Option("--counts", help="Write counts and a flat field.")] = False,
    truth: Annotated[bool, typer.Option("--truth", help="Write the volumes and the motion too.")] = False,
    format: Annotated[Format, typer.Option(help="Of the scans in a folder.")] = Format.H5,
    device: DeviceOption = Device.CPU,
    seed: SeedOption = 0,
    threads: ThreadsOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Simulate scans of a built-in phantom, with noise, on a finer grid than a reconstruction's.

    Two visits go to a folder, as visit_1 and visit_2. With --truth, the volumes lie beside them as
    truth_1.nii.gz and truth_2.nii.gz, and the motion from the second visit to the first as
    truth_motion.nii.gz.

    Example: duotomo simulate --out pair --compressed --second-visit --lesion second --pixel 1
    """
    from duotomo.cli._common import prepare
    from duotomo.cli._inputs import numbers
    from duotomo.cli._visits import Maker

    talk = Talk(quiet=quiet, as_json=as_json)
    if machine == "list":
        _list_machines(talk)
        return
    files = _Files(out, format=format, two=second_visit)
    prepare(WHERE, device=device, threads=threads, seed=seed)
    acquisition = _acquisition(machine, views, pixel)
    plan = Plan(
        body=phantom,
        density=density,
        radii_mm=_triple(numbers(WHERE, "--radii", radii, n=3)),
        gap_mm=gap,
        thickness_mm=(thickness, second_thickness or THINNER * thickness) if compressed else None,
        two=second_visit,
        roll_deg=roll,
        shift_mm=_triple(numbers(WHERE, "--shift", shift, n=3)),
        lesion=lesion,
        lesion_radius_mm=lesion_radius,
        acquisition=acquisition,
        photons=photons,
        voxel_mm=acquisition.pixel_spacing_mm[0],
        seed=seed,
        device=device.value,
    )
    files.prepare()
    d_v, d_u = acquisition.pixel_spacing_mm
    talk.progress(f"{machine}: {acquisition.shape} (view, v, u), pixels of {d_v:g} x {d_u:g} mm")
    written = list(_write(talk, files, Maker(plan), counts=counts, truth=truth))
    talk.say("Wrote")
    for path in written:
        talk.say(f"  {path}")
    talk.finish({"status": "done", "files": [str(path) for path in written], "about": _about(plan, machine)})


def _triple(values: tuple[float, ...]) -> tuple[float, float, float]:
    first, second, third = values
    return first, second, third


class _Files:
    """Where the files go."""

    def __init__(self, out: Path, *, format: Format, two: bool) -> None:
        from duotomo.io import FileError

        self._out = out
        self._single = out.suffix in (".h5", ".hdf5", ".dcm")
        if self._single and two:
            raise FileError(
                f"{WHERE}: expected a folder for two visits; got {out.name!r}. Leave the suffix out."
            )
        self._suffix = out.suffix if self._single else f".{format.value}"

    def prepare(self) -> None:
        """Make the folder."""
        from duotomo.io.paths import make_folder

        make_folder(WHERE, self._out.parent if self._single else self._out)

    def scan(self, number: int) -> Path:
        """Return the path of a scan."""
        return self._out if self._single else self._out / f"visit_{number}{self._suffix}"

    def truth(self, what: int | str) -> Path:
        """Return the path of a volume, or of the motion."""
        if self._single:
            return self._out.with_name(f"{self._out.stem}_truth_{what}.nii.gz")
        return self._out / f"truth_{what}.nii.gz"


def _write(talk: Talk, files: _Files, maker: Maker, *, counts: bool, truth: bool) -> Iterator[Path]:
    from duotomo.io import write_displacement, write_volume

    plan = maker.plan
    talk.progress("Squeezing the breast" if plan.thickness_mm else "Making the body")
    for number, visit in enumerate(maker.visits(), start=1):
        talk.progress(f"Visit {number}: {visit.thickness_mm:.1f} mm thick, made on a finer grid, with noise")
        _write_scan(files.scan(number), plan, visit, counts=counts)
        yield files.scan(number)
        if truth:
            write_volume(files.truth(number), visit.truth, visit.grid)
            yield files.truth(number)
    if truth and plan.two:
        transform, params = maker.motion
        write_displacement(files.truth("motion"), transform, params, maker.grid(2))
        yield files.truth("motion")


def _write_scan(path: Path, plan: Plan, visit: Simulated, *, counts: bool) -> None:
    import torch

    from duotomo.io.scan import Scan, Values

    dicom = path.suffix == ".dcm"
    values, flat_field, projections = Values.LINE_INTEGRALS, None, visit.projections
    if counts or dicom:
        values = Values.COUNTS
        flat_field = torch.tensor(visit.photons_per_pixel, dtype=torch.float32)
        projections = (visit.photons_per_pixel * torch.exp(-visit.projections.double())).round().float()
    facts = {"phantom": plan.body.value}
    if plan.body is Body.BREAST:
        facts["density"] = plan.density.value
    scan = Scan(
        projections=projections,
        values=values,
        acquisition=plan.acquisition,
        flat_field=flat_field,
        format="simulated",
        facts=facts,
        thickness_mm=visit.thickness_mm,
    )
    if dicom:
        from duotomo.io.dicom.projections_writer import write_dicom_projections

        write_dicom_projections(path, scan)
    else:
        from duotomo.io.scan_hdf5 import write_scan

        write_scan(path, scan)


def _acquisition(machine: str, n_views: int | None, pixel_mm: float) -> Acquisition:
    """Return the scan of a machine, with fewer views and larger pixels where asked for."""
    import numpy as np

    from duotomo.errors import GeometryError
    from duotomo.geometry import MACHINES

    if machine not in MACHINES:
        raise GeometryError(
            f"{WHERE}: expected --machine as one of {', '.join(MACHINES)}; got {machine!r}. Choose one."
        )
    acquisition = MACHINES[machine]()
    if n_views is not None:
        if n_views > acquisition.n_views:
            raise GeometryError(
                f"{WHERE}: expected --views of at most {acquisition.n_views}, which {machine} has; got "
                f"{n_views}. Choose fewer."
            )
        chosen = np.linspace(0, acquisition.n_views - 1, n_views).round().astype(int)
        middle = acquisition.n_views // 2
        acquisition = acquisition[chosen if n_views > 1 else [middle]]
    factors = [max(1, round(pixel_mm / spacing_mm)) for spacing_mm in acquisition.pixel_spacing_mm]
    return acquisition.bin((factors[0], factors[1]))


def _list_machines(talk: Talk) -> None:
    from duotomo.geometry import MACHINES

    for name, build in MACHINES.items():
        n_views, n_v, n_u = build().shape
        summary = next(iter((build.__doc__ or "").splitlines()), "")
        talk.say(f"{name}: {n_views} views of {n_v} x {n_u} pixels. {summary}")
    talk.finish({"machines": list(MACHINES)})


def _about(plan: Plan, machine: str) -> dict[str, Any]:
    return {
        "phantom": plan.body.value,
        "density": plan.density.value if plan.body is Body.BREAST else None,
        "machine": machine,
        "n_views": plan.acquisition.n_views,
        "pixel_spacing_mm": list(plan.acquisition.pixel_spacing_mm),
        "thickness_mm": list(plan.thickness_mm) if plan.thickness_mm else None,
        "roll_deg": plan.roll_deg if plan.two else 0.0,
        "shift_mm": list(plan.shift_mm) if plan.two else [0.0, 0.0, 0.0],
        "lesion": plan.lesion.value,
        "photons_per_mm2": plan.photons,
        "seed": plan.seed,
    }
