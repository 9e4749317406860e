"""How sure a motion is: the Shepp-Logan phantom, whose inside is all but uniform, deformed between visits.

Run as `python docs/gallery/how_sure.py`; it writes how_sure.png next to itself.
"""

from __future__ import annotations

from pathlib import Path

import torch
from matplotlib.figure import Figure

from duotomo.geometry import VolumeGrid, paper
from duotomo.methods import Settings, Study, Visit, uncertainty_of, with_known_motion
from duotomo.methods.motion_uncertainty import MotionUncertainty
from duotomo.phantoms import SheppLogan
from duotomo.simulate import scan
from duotomo.transforms import BSpline, Motion

EDGE_MM = 65.0


def draw(path: Path, *, quick: bool = False) -> dict[str, float]:
    """Draw one slice; return which share of the skull, the tissue inside and the air is determined."""
    n, n_control = (13, 5) if quick else (33, 9)
    grid = VolumeGrid.on_detector((n, n, n), (EDGE_MM / n,) * 3, gap_mm=5.0)
    pixel_mm = grid.spacing_mm[0]
    acquisition = paper(detector_shape=(round(80 / pixel_mm), round(160 / pixel_mm)), pixel_mm=pixel_mm)
    z, y, x = grid.center_mm
    phantom = SheppLogan(center_mm=(x, y, z), size_mm=EDGE_MM)
    spline = BSpline.over(grid, (n_control,) * 3)
    noise = torch.Generator().manual_seed(0)
    offsets = 0.5 * torch.randn(spline.n_params, generator=noise, dtype=torch.float64)
    motion = Motion(spline, offsets)
    first = scan(phantom, grid, acquisition, generator=noise)
    second = scan(phantom, grid, acquisition, generator=noise, motion=motion)
    visits = tuple(Visit(projections=views, acquisition=acquisition) for views in (first, second))
    study = Study(grid=grid, visits=visits)

    settings = Settings.staged(grid, BSpline.shaped((n_control,) * 3))
    result = with_known_motion(study, settings, [motion])
    (found,) = uncertainty_of(study, settings, result, n_steps=10, n_modes=30 if quick else 150)
    truth = torch.from_numpy(phantom.voxels(grid)).float()
    moved = motion.warp(grid)(truth)
    _draw(path, grid, moved, found)
    return _shares(grid, moved, found)


def _draw(path: Path, grid: VolumeGrid, moved: torch.Tensor, found: MotionUncertainty) -> None:
    values = found.map_mm(grid)
    middle = grid.shape[0] // 2
    x, y = grid.center_mm[2], grid.center_mm[1]
    half = EDGE_MM / 2
    extent = (x - half, x + half, y - half, y + half)
    figure = Figure(figsize=(9.6, 3.4), layout="constrained")
    panels = figure.subplots(1, 3)
    panels[0].imshow(
        moved[middle].numpy(), cmap="gray", origin="lower", extent=extent, vmax=0.6 * float(moved.max())
    )
    in_plane = ((values[0].square() + values[1].square()) / 2).sqrt()
    most = float(values[~values.isnan()].quantile(0.95))
    titles = ("moving visit", "deviation in plane, mm", "deviation in depth, mm")
    for panel, title in zip(panels, titles, strict=True):
        panel.set(title=title, xlabel="x, mm", ylabel="y, mm")
        panel.set_facecolor("0.8")
    for panel, shown in ((panels[1], in_plane), (panels[2], values[2])):
        image = panel.imshow(
            shown[middle].numpy(), cmap="viridis", origin="lower", extent=extent, vmin=0, vmax=most
        )
        figure.colorbar(image, ax=panel, shrink=0.8)
    figure.savefig(path, format="png", dpi=110, metadata={"Software": None})


def _shares(grid: VolumeGrid, moved: torch.Tensor, found: MotionUncertainty) -> dict[str, float]:
    seen = ~found.map_mm(grid)[0].isnan()
    strong = moved > 0.6 * moved.max()
    # Within a voxel of the skull, and within three of anything.
    near = torch.nn.functional.max_pool3d(strong[None, None].float(), 3, stride=1, padding=1)[0, 0] > 0
    tissue = (moved > 0) & (moved < 0.5 * moved.max())
    reach = max(1, round(6 / grid.spacing_mm[0]))
    body = (moved > 0)[None, None].float()
    far = torch.nn.functional.max_pool3d(body, 2 * reach + 1, stride=1, padding=reach)[0, 0] == 0
    return {
        "skull determined": float(seen[near].float().mean()),
        "inside determined": float(seen[tissue & ~near].float().mean()),
        "air determined": float(seen[far].float().mean()),
    }


if __name__ == "__main__":
    print(draw(Path(__file__).with_suffix(".png")))
