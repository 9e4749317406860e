"""`duotomo simulate`: scans of built-in phantoms, as files that the other commands read."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duotomo.cli._flatten import Fields
from duotomo.cli._options import Computing, Talk
from duotomo.simulate.options import PhantomKind, SimulationOptions

if TYPE_CHECKING:
    from duotomo.simulate import SimulatedVisits
    from duotomo.simulate.visit import SimulatedVisit

OPTIONS = Fields(
    only=(
        *("phantom", "density", "radii_mm", "gap_mm", "compressed", "thickness_mm", "second_visit"),
        *("second_thickness_mm", "roll_deg", "shift_mm", "lesion", "lesion_radius_mm", "machine", "n_views"),
        *("pixel_mm", "photons_per_mm2", "seed"),
    )
)


class ScanFormat(Enum):
    """The format of scans in a folder."""

    H5 = "h5"
    DICOM = "dcm"


def simulate(
    out: Annotated[Path, typer.Option(help="A .h5 or .dcm file for one visit, or a folder.")],
    options: Annotated[SimulationOptions, OPTIONS],
    computing: Annotated[Computing, Fields(only=("device", "threads"))],
    talk: Talk,
    counts: Annotated[bool, typer.Option("--counts", help="Write counts and a flat field.")] = False,
    truth: Annotated[bool, typer.Option("--truth", help="Write the volumes and the motion too.")] = False,
    format: Annotated[ScanFormat, typer.Option(help="Of the scans in a folder.")] = ScanFormat.H5,
) -> None:
    """Simulate scans of a built-in phantom, with noise, on a finer grid than a reconstruction's.

    Two visits go to a folder, as visit_1 and visit_2. With --truth, the volumes lie beside them as
    truth_1.nii.gz and truth_2.nii.gz, and the motion from the second visit to the first as
    truth_motion.nii.gz. `--machine list` names the machines.

    Example: duotomo simulate --out pair --compressed --second-visit --lesion second --pixel 1
    """
    from duotomo.io import FileError, write_displacement, write_volume
    from duotomo.io.file_set import together
    from duotomo.io.paths import make_folder, target
    from duotomo.simulate import make_visits
    from duotomo.simulate.visits import machine_acquisition

    if options.machine == "list":
        _list_machines(talk)
        return
    single = out.suffix in (".h5", ".hdf5", ".dcm")
    if single and options.second_visit:
        raise FileError(f"expected a folder for two visits; got {out.name!r}. Leave the suffix out.")
    folder, truths = (out.parent, f"{out.stem}_truth") if single else (out, "truth")
    computing.prepare(talk)
    acquisition = machine_acquisition(options.machine, n_views=options.n_views, pixel_mm=options.pixel_mm)
    make_folder("simulate", folder)
    if single:
        target("simulate", out, (out.suffix,))
    names: list[str] = []
    # Begun before anything is computed: the folder may not be one to write to, or another run's.
    with together("simulate", folder, out.name if single else "visits") as draft:
        d_v, d_u = acquisition.pixel_spacing_mm
        talk.progress(f"{options.machine}: {acquisition.shape} (view, v, u), pixels of {d_v:g} x {d_u:g} mm")
        talk.progress("Squeezing the breast" if options.compressed else "Making the body")
        made = make_visits(options, acquisition, device=computing.device.value)
        for number, visit in enumerate(made.visits, start=1):
            thick = f"{visit.thickness_mm:.1f} mm thick"
            talk.progress(f"Visit {number}: {thick}, made on a finer grid, with noise")
            names.append(out.name if single else f"visit_{number}.{format.value}")
            _write_scan(draft / names[-1], visit, options, counts=counts)
            if truth:
                names.append(f"{truths}_{number}.nii.gz")
                write_volume(draft / names[-1], visit.truth, visit.grid)
        if truth and made.motion is not None:
            names.append(f"{truths}_motion.nii.gz")
            write_displacement(draft / names[-1], made.motion, made.visits[1].grid)
    written = [folder / name for name in names]
    talk.wrote(written)
    talk.finish({"status": "done", "files": [str(path) for path in written], "about": _about(made)})


def _write_scan(path: Path, visit: SimulatedVisit, options: SimulationOptions, *, counts: bool) -> None:
    """Write one visit; DICOM holds counts."""
    import torch

    from duotomo.io import Scan, Values, write_scan
    from duotomo.io.dicom.projections_writer import write_dicom_projections

    facts = {"phantom": options.phantom.value}
    if options.phantom is PhantomKind.BREAST:
        facts["density"] = options.density.value
    values, flat_field, projections = Values.LINE_INTEGRALS, None, visit.projections
    if counts or path.suffix == ".dcm":
        assert visit.photons is not None
        values, flat_field = Values.COUNTS, torch.tensor(visit.photons, dtype=torch.float32)
        projections = (visit.photons * torch.exp(-visit.projections.double())).round().float()
    write = write_dicom_projections if path.suffix == ".dcm" else write_scan
    write(
        path,
        Scan(
            projections=projections,
            values=values,
            acquisition=visit.acquisition,
            flat_field=flat_field,
            format="simulated",
            facts=facts,
            thickness_mm=visit.thickness_mm,
        ),
    )


def _list_machines(talk: Talk) -> None:
    from duotomo.geometry import MACHINES

    for name, build in MACHINES.items():
        n_views, n_v, n_u = build().shape
        summary = next(iter((build.__doc__ or "").splitlines()), "")
        talk.say(f"{name}: {n_views} views of {n_v} x {n_u} pixels. {summary}")
    talk.finish({"machines": list(MACHINES)})


def _about(made: SimulatedVisits) -> dict[str, Any]:
    options = made.options
    thicknesses_mm = options.thicknesses_mm
    return {
        "phantom": options.phantom.value,
        "density": options.density.value if options.phantom is PhantomKind.BREAST else None,
        "machine": options.machine,
        "n_views": made.acquisition.n_views,
        "pixel_spacing_mm": list(made.acquisition.pixel_spacing_mm),
        "thickness_mm": list(thicknesses_mm) if thicknesses_mm else None,
        "roll_deg": options.roll_deg if options.second_visit else 0.0,
        "shift_mm": list(options.shift_mm) if options.second_visit else [0.0, 0.0, 0.0],
        "lesion": options.lesion.value,
        "photons_per_mm2": options.photons_per_mm2,
        "seed": options.seed,
    }
