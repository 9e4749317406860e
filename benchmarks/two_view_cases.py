"""Cases of one breast, craniocaudal and mediolateral-oblique, by others' mechanics and projector.

    python -m benchmarks.two_view_cases prepare OUT --cases 20      # needs CalculiX (ccx) and RTK (itk-rtk)
    python -m benchmarks.two_view_cases prepare OUT --quick         # one small case, about a minute
    python -m benchmarks.two_view_cases list OUT

A case is a folder: study.h5 (`duotomo.io.read_study`; the craniocaudal visit is the reference, the oblique
one has a grid of its own), truth.npz and case.json (`benchmarks.two_view_case.TwoViewCase.read`). What is
there is kept; what fails is said and left out. Breasts of odd numbers and some women are for development, the
others are judged: case.json says which.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.metadata import version as version_of
from pathlib import Path

import numpy as np
import scipy.ndimage as ndi

from benchmarks import calculix
from benchmarks.hexahedra import Floats
from benchmarks.two_view_bodies import RestBody, bodies, make_body
from benchmarks.two_view_case import Truth, TwoViewCase
from benchmarks.two_view_scan import Scanning, scan
from benchmarks.two_view_squeeze import Squeeze, height_mm, press
from duotomo.change.finding import Xyz
from duotomo.errors import DuotomoError
from duotomo.geometry.frame import voxel_centers_mm
from duotomo.mechanics import Compression
from duotomo.methods import Study

SUPPORT_MM = 5.0
N_LANDMARKS = 300
MOST_MM = 70.0
"""Thickest that a breast stays between plates."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How fine the cases are. n_core, n_layers: of the solver's mesh."""

    scanning: Scanning
    n_core: int = 4
    n_layers: int = 3


def squeezes(body: RestBody, rng: np.random.Generator) -> tuple[Squeeze, Squeeze]:
    """Draw how a breast is pressed craniocaudally and obliquely."""
    angle_rad = math.radians(float(rng.uniform(40, 50)))
    # The tube of the oblique view stands above the inner side: the breast turns towards it.
    roll_rad = angle_rad if body.side == "R" else -angle_rad
    cc = Squeeze(
        roll_rad=0.0,
        thickness_mm=min(MOST_MM, height_mm(body, 0.0) * float(rng.uniform(0.56, 0.66))),
        shift_mm=(float(rng.uniform(-4, 4)), 0.0),
        lean_mm=_lean(rng, 3.0),
        support_mm=SUPPORT_MM,
        fat_kpa=float(rng.uniform(0.8, 1.5)),
        gland_over_fat=float(rng.uniform(2.0, 5.0)),
        muscle_over_fat=6.0,
        friction=float(rng.uniform(0.1, 0.4)),
        wall_kpa_per_mm=float(rng.uniform(0.02, 0.04)),
    )
    mlo = replace(
        cc,
        roll_rad=roll_rad,
        thickness_mm=min(MOST_MM, height_mm(body, roll_rad) * float(rng.uniform(0.53, 0.62))),
        shift_mm=(float(rng.uniform(-8, 8)), float(rng.uniform(0, 5))),
        lean_mm=_lean(rng, 5.0),
    )
    return cc, mlo


def _lean(rng: np.random.Generator, most_mm: float) -> Xyz:
    x, z, rim = (float(v) for v in rng.uniform(-most_mm, most_mm, 3))
    return x, z, rim / 2


def landmarks(
    body: RestBody, cc: Compression, mlo: Compression, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return points in gland that both views see, in the frames of both, (point, xyz)."""
    points = voxel_centers_mm(body.grid)
    inside = body.rest > 0.063
    tissue = np.pad(body.rest > 0.02, ((0, 0), (1, 0), (0, 0)), mode="edge")
    deep = ndi.distance_transform_edt(tissue)[:, 1:] > body.skin_mm
    places = points[inside & deep & (body.muscle(points) == 0)]
    places = places + rng.uniform(-0.5, 0.5, places.shape)
    chosen = places[rng.permutation(len(places))[: 4 * N_LANDMARKS]]
    there = [one.from_rest(chosen) for one in (cc, mlo)]
    seen = np.all([at[:, 1] > 4.0 for at in there], axis=0)
    return there[0][seen][:N_LANDMARKS], there[1][seen][:N_LANDMARKS]


def make(name: str, side: str, *, breast_mr: Path | None, scale: Scale) -> TwoViewCase:
    """Return a case; all that is random about it follows from its name."""
    return case_of(make_body(name, side, breast_mr), scale)


def case_of(body: RestBody, scale: Scale) -> TwoViewCase:
    """Return the case of a breast at rest."""
    began = time.perf_counter()
    rng = np.random.default_rng([3, *body.name.encode()])
    hows = squeezes(body, rng)
    with tempfile.TemporaryDirectory() as folder:
        pressed, solved = zip(
            *(
                press(body, how, Path(folder) / view, n_core=scale.n_core, n_layers=scale.n_layers)
                for view, how in zip(("cc", "mlo"), hows, strict=True)
            ),
            strict=True,
        )
    seen = landmarks(body, *pressed, rng)
    truths, visits = [], []
    for one, marks in zip(pressed, seen, strict=True):
        volume, grid, visit = scan(body, one, SUPPORT_MM, scale.scanning, rng)
        truths.append(
            Truth(
                volume=volume,
                grid=grid,
                landmarks_mm=marks,
                lesions_mm=one.from_rest(body.lesions_mm),
                nipple_mm=one.from_rest(body.nipple_mm),
                nodes_mm=one.moved_mm,
                thickness_mm=one.thickness_mm,
            )
        )
        visits.append(visit)
    study = Study(grid=truths[0].grid, visits=(visits[0], replace(visits[1], grid=truths[1].grid)))
    about = {
        "name": body.name,
        "side": body.side,
        "density": body.density,
        "split": body.split,
        "mlo_angle_deg": math.degrees(abs(hows[1].roll_rad)),
        "cc": asdict(hows[0]),
        "mlo": asdict(hows[1]),
        "lesion_sizes_mm": body.lesion_sizes_mm.tolist(),
        "scanning": asdict(scale.scanning),
        "mesh": {"elements": "C3D20R", "n_core": scale.n_core, "n_layers": scale.n_layers},
        "increments": [one.n_increments for one in solved],
        "iterations": [one.n_iterations for one in solved],
        "least_jacobian": min(one.least_jacobian for one in pressed),
        "volume_change": [one.volume_change for one in pressed],
        "seconds": {"solver": [one.seconds for one in solved], "all": time.perf_counter() - began},
        "versions": {
            "CalculiX": calculix.version(),
            **{package: version_of(package) for package in ("itk-rtk", "duotomo", "numpy")},
        },
    }
    return TwoViewCase(
        about=about,
        study=study,
        cc=truths[0],
        mlo=truths[1],
        rest_mm=pressed[0].rest_mm,
        tetrahedra=pressed[0].tetrahedra,
    )


def prepare(item: tuple[int, tuple[str, str]], *, out: Path, breast_mr: Path | None, scale: Scale) -> str:
    """Make the folder of one case unless it is there; return a line about it."""
    number, (name, side) = item
    folder = out / f"case_{number:02d}"
    if (folder / "case.json").is_file():
        return f"{folder.name} {name}: there"
    part = folder.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        case = make(name, side, breast_mr=breast_mr, scale=scale)
    except (DuotomoError, FileNotFoundError) as error:
        return f"{folder.name} {name}: left out: {error}"
    case.write(part)
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)
    return f"{folder.name} {line(case)}"


def line(case: TwoViewCase) -> str:
    """Return what a list says of a case."""
    about = case.about
    seconds = about["seconds"]
    solver = " + ".join(f"{s:.0f}" for s in seconds["solver"])
    return (
        f"{about['name']} {about['side']} {about['density']} {about['split']}: "
        f"{case.cc.thickness_mm:.0f} and {case.mlo.thickness_mm:.0f} mm, "
        f"{about['mlo_angle_deg']:.0f} degrees apart, "
        f"grids {case.cc.grid.shape} and {case.mlo.grid.shape}, {len(case.cc.landmarks_mm)} landmarks, "
        f"solver {solver} s of {seconds['all']:.0f} s, least det F {about['least_jacobian']:.2f}"
    )


def main() -> None:
    """Make cases, or list those of a folder."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("prepare", help="make the cases that are not there yet")
    making.add_argument("out", type=Path)
    making.add_argument("--cases", type=int, default=20)
    making.add_argument("--breast-mr", type=Path, help="folder of the women's images")
    making.add_argument("--voxel-mm", type=float, default=2.5)
    making.add_argument("--views", type=int, default=11)
    making.add_argument("--angle-deg", type=float, default=50.0, help="from the first view to the last")
    making.add_argument("--workers", type=int, default=1)
    making.add_argument("--quick", action="store_true", help="one small case")
    listing = commands.add_parser("list", help="what is there")
    listing.add_argument("out", type=Path)
    options = parser.parse_args()
    if options.command == "list":
        for path in sorted(options.out.glob("case_*/case.json")):
            about = json.loads(path.read_text())
            print(path.parent.name, *(about[key] for key in ("name", "side", "density", "split")))
        return
    scanning = Scanning(voxel_mm=options.voxel_mm, n_views=options.views, angle_deg=options.angle_deg)
    scale = Scale(scanning=scanning)
    if options.quick:
        scale = Scale(scanning=replace(scanning, voxel_mm=4.0), n_core=2, n_layers=2)
    if calculix.installed() is None:
        raise SystemExit(f"two_view_cases: the program {calculix.PROGRAM} (CalculiX) is not installed")
    options.out.mkdir(parents=True, exist_ok=True)
    items = list(enumerate(bodies(options.breast_mr)))[: 1 if options.quick else options.cases]
    call = partial(prepare, out=options.out, breast_mr=options.breast_mr, scale=scale)
    if options.workers == 1:
        for item in items:
            print(call(item), flush=True)
        return
    with ProcessPoolExecutor(options.workers) as pool:
        for said in pool.map(call, items):
            print(said, flush=True)


if __name__ == "__main__":
    main()
