"""Two visits of one body, turned and shifted between them: one volume and the motion from both.

Run as `python docs/gallery/two_visits.py`; it writes two_visits.png next to itself.
"""

from __future__ import annotations

from pathlib import Path

import torch

from duotomo.geometry import VolumeGrid, paper
from duotomo.methods import Settings, Study, Visit, simultaneous
from duotomo.phantoms import EllipticCylinder, Toroid
from duotomo.report.slices import draw_slices
from duotomo.simulate import scan
from duotomo.transforms import Motion, Rigid, Translation


def draw(path: Path, *, quick: bool = False) -> dict[str, float]:
    """Draw the slices; return the relative errors, and how far the motion found is off, in mm."""
    spacing_mm = 4.0 if quick else 2.0
    n = round(72 / spacing_mm)
    grid = VolumeGrid.on_detector((n, n, n), (spacing_mm,) * 3, gap_mm=5.0)
    detector_shape = (round(88 / spacing_mm), round(172 / spacing_mm))
    acquisition = paper(detector_shape=detector_shape, pixel_mm=spacing_mm)
    z, y, x = grid.center_mm
    body = EllipticCylinder(center_mm=(x, y, z), radii_mm=(30.0, 30.0), height_mm=60.0, value=0.046)
    ring = Toroid(center_mm=(x, y, z), major_radius_mm=15.0, minor_radius_mm=7.0, value=0.034, body=body)
    rigid = Rigid(grid)
    turned = rigid.params(rotation_deg=(0.0, 15.0, 0.0), translation_mm=(5.0, 0.0, 0.0))
    motion = Motion(rigid, turned)

    noise = torch.Generator().manual_seed(0)
    first = scan(ring, grid, acquisition, generator=noise)
    second = scan(ring, grid, acquisition, generator=noise, motion=motion)
    visits = tuple(Visit(projections=views, acquisition=acquisition) for views in (first, second))
    truth = torch.from_numpy(ring.voxels(grid)).float()

    n_steps = 20 if quick else 120
    alone = Study(grid=grid, visits=visits[:1])
    both = Study(grid=grid, visits=visits)
    one = simultaneous(alone, Settings.staged(grid, Translation, n_steps=n_steps))
    result = simultaneous(both, Settings.staged(grid, Rigid, n_steps=n_steps))

    rows = {"truth": truth, "one visit": one.volume, "both visits": result.volume}
    differences = {f"{title} - truth": volume - truth for title, volume in rows.items() if title != "truth"}
    figure = draw_slices(rows=rows, differences=differences, grid=grid, unit="1/mm")
    figure.savefig(path, format="png", dpi=110, metadata={"Software": None})

    points = torch.tensor([(x + dx, y, z + dz) for dx in (-20.0, 20.0) for dz in (-20.0, 20.0)]).double()
    off_mm = (result.motions[0].points(points) - motion.points(points)).norm(dim=1).mean()
    errors = {title: float((rows[title] - truth).norm() ** 2 / truth.norm() ** 2) for title in list(rows)[1:]}
    return {**errors, "motion off by, mm": float(off_mm)}


if __name__ == "__main__":
    print(draw(Path(__file__).with_suffix(".png")))
