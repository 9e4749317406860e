"""Five women, two visits each, with one call: which motions a cohort finds, and how sure it is of them.

Run as `python docs/gallery/five_women.py`; it writes five_women.png next to itself. It needs the extra
`cluster`.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from matplotlib.figure import Figure
from PIL import Image

from duotomo.cohort import Case, Resources, Row, cohort
from duotomo.cohort.thumbnail import draw_thumbnail
from duotomo.geometry import VolumeGrid, paper
from duotomo.io import read_result, write_study
from duotomo.methods import Study, Visit
from duotomo.phantoms import Breast, BreastShape, Density
from duotomo.simulate import scan
from duotomo.transforms import Motion, Rigid

DENSITIES = (Density.A, Density.B, Density.C, Density.D, Density.B)


def draw(path: Path, *, quick: bool = False) -> dict[str, float]:
    """Draw the cases; return how far a motion is off at the worst, in mm, and how many have a result."""
    spacing_mm = 6.0 if quick else 3.0
    numbers = range(1) if quick else range(len(DENSITIES))
    options = {"transform": "rigid", "uncertainty": True, **({"steps": 20} if quick else {})}
    with TemporaryDirectory() as folder:
        scans, out = Path(folder, "scans"), Path(folder, "results")
        scans.mkdir()
        studies = {f"woman-{number + 1}": two_visits(number, spacing_mm) for number in numbers}
        cases = []
        for name, (study, _) in studies.items():
            write_study(scans / f"{name}.h5", study)
            cases.append(Case(name=name, visits=(scans / f"{name}.h5",)))
        rows = cohort(cases, out, options=options, resources=Resources(device="cpu"))
        finished = [row for row in rows if row.folder]
        off_mm = {row.case: _off_mm(out / row.folder, *studies[row.case]) for row in finished}
        _draw(path, out, finished, off_mm)
    return {"motion off by at most, mm": max(off_mm.values()), "cases": float(len(finished))}


def two_visits(number: int, spacing_mm: float) -> tuple[Study, Motion]:
    """Return what two visits of a woman see, and how she stood otherwise at the second."""
    n_z, n_y, n_x = (round(size / spacing_mm) for size in (48, 60, 96))
    grid = VolumeGrid.on_detector((n_z, n_y, n_x), (spacing_mm,) * 3, gap_mm=5.0)
    detector_shape = (round(78 / spacing_mm), round(150 / spacing_mm))
    acquisition = paper(detector_shape=detector_shape, pixel_mm=spacing_mm)
    z, _, x = grid.center_mm
    shape = BreastShape(center_mm=(x, 12.0, z), radii_mm=(36.0, 40.0, 19.0))
    breast = Breast(shape=shape, density=DENSITIES[number], seed=number)
    draw = torch.Generator().manual_seed(number)
    turn, shift = (12 * torch.rand(3, generator=draw) - 6).tolist(), (8 * torch.rand(3, generator=draw) - 4)
    rigid = Rigid(grid)
    motion = Motion(rigid, rigid.params(rotation_deg=turn, translation_mm=shift.tolist()))
    views = [scan(breast, grid, acquisition, generator=draw, motion=one) for one in (None, motion)]
    return Study(
        grid=grid, visits=tuple(Visit(projections=p, acquisition=acquisition) for p in views)
    ), motion


def _off_mm(folder: Path, study: Study, motion: Motion) -> float:
    """Return the mean distance of where the breast's voxels go from where they went."""
    saved = read_result(folder)
    inside = torch.nonzero(saved.volume > 0.02)
    low, spacing = (torch.tensor(one).double() for one in (study.grid.low_mm, study.grid.spacing_mm))
    points_mm = (low + (inside + 0.5) * spacing).flip(1)
    missed = saved.motions[0].points(points_mm) - motion.points(points_mm)
    return float(missed.norm(dim=1).mean())


def _draw(path: Path, out: Path, rows: list[Row], off_mm: dict[str, float]) -> None:
    figure = Figure(figsize=(2.2 * max(len(rows), 2), 3.6), layout="constrained")
    for number, row in enumerate(rows):
        axes = figure.add_subplot(1, len(rows), number + 1)
        picture = path.with_name(f"{row.case}.png")
        draw_thumbnail(out / row.folder, picture)
        with Image.open(picture) as image:
            axes.imshow(image.convert("L"), cmap="gray")
        picture.unlink()
        axes.set_axis_off()
        words = [row.case, row.status, f"moved by {row.mean_displacement_mm:.1f} mm"]
        if row.tre_in_plane_mm is not None:
            words.append(f"expected {row.tre_in_plane_mm:.2f}, {row.tre_in_depth_mm:.2f} mm")
        axes.set_title("\n".join([*words, f"off by {off_mm[row.case]:.2f} mm"]), fontsize=9)
    figure.savefig(path, format="png", dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    print(draw(Path(__file__).with_suffix(".png")))
