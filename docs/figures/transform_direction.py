"""Draws which way a transform goes: `(T f)(x) = f(T(x))`, computed on a slice seen from above.

Run as `python docs/figures/transform_direction.py`; it writes transform_direction.png next to itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import ConnectionPatch
from matplotlib.patheffects import withStroke
from PIL import Image

from duotomo.geometry import VolumeGrid
from duotomo.geometry.frame import voxel_to_world
from duotomo.phantoms import EllipticCylinder
from duotomo.transforms import BSpline, Composition, Motion, Rigid, invert_points

LESION_MM = (-24.0, 36.0, 5.0)
TURN_DEG = 20.0
# Okabe and Ito's colours, which stay apart under the common colour-vision deficiencies.
BLUE, VERMILLION, GREEN = "#0072B2", "#D55E00", "#007A5A"
TISSUE, LESION = 0.045, 0.05


@dataclass(frozen=True, kw_only=True, eq=False)
class Scene:
    """A lesion in the reference frame, and where the moving frame shows it.

    seen_mm: T^-1 of the lesion, xyz. found_mm: the lesion's centroid in the warped volume, xyz.
    """

    grid: VolumeGrid
    transform: Composition
    params: torch.Tensor
    volume: torch.Tensor
    warped: torch.Tensor
    seen_mm: np.ndarray
    found_mm: np.ndarray


def compute(*, quick: bool = False) -> Scene:
    """Return the reference volume, a turn followed by a B-spline, and the volume that they give."""
    spacing_mm = 2.0 if quick else 0.5
    shape = (1, round(120 / spacing_mm), round(150 / spacing_mm))
    grid = VolumeGrid(shape=shape, spacing_mm=(10.0, spacing_mm, spacing_mm), center_mm=(5.0, 38.0, 0.0))
    rigid, spline = Rigid(grid, center_mm=(0.0, 30.0, 5.0)), BSpline.over(grid, (4, 7, 8))
    chain = Composition(rigid, spline)
    turn = rigid.params(rotation_deg=(0.0, 0.0, TURN_DEG), translation_mm=(-12.0, -2.0, 0.0))
    index = np.moveaxis(np.indices(spline.lattice.shape), 0, -1)
    x, y, _ = np.moveaxis(voxel_to_world(spline.lattice, index), -1, 0)
    bend = np.stack([5 * np.sin(math.pi * y / 50), 5 * np.cos(math.pi * x / 45), np.zeros_like(x)])
    params = chain.join(turn, spline.params(coefficients_mm=torch.from_numpy(bend)))
    lesion = torch.from_numpy(_disc(LESION_MM, (5.0, 5.0), LESION).voxels(grid))
    volume = torch.from_numpy(_breast(grid)) + lesion
    warp = chain.warp(params)
    return Scene(
        grid=grid,
        transform=chain,
        params=params,
        volume=volume,
        warped=warp(volume),
        seen_mm=invert_points(Motion(chain, params), torch.tensor(LESION_MM)).xyz_mm.numpy(),
        found_mm=_centroid(grid, warp(lesion).numpy()),
    )


def draw(path: Path, *, quick: bool = False) -> Scene:
    """Write the picture and return what it shows."""
    scene = compute(quick=quick)
    figure = Figure(figsize=(10.0, 5.3), dpi=60 if quick else 160)
    canvas = FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    figure.subplots_adjust(left=0.065, right=0.99, bottom=0.195, top=0.86, wspace=0.1)
    _show(left, scene.grid, scene.volume)
    _show(right, scene.grid, scene.warped)
    left.set_ylabel("y, mm (chest wall to nipple)")
    left.set_title("reference frame: the volume $f$", fontsize=12)
    right.set_title("moving frame: the warped volume $T f$", fontsize=12)
    rule = "$(T f)(x) = f(T(x))$:  $T$ takes points of the moving frame to the reference frame"
    figure.suptitle(rule, fontsize=13, y=0.975)
    caption = (
        "The straight mesh of the moving frame lies in the reference frame where $T$ takes it; there its "
        "values are read.\nThe lesion at $T(x)$ is seen at $x$: it moves by the opposite of the "
        "displacement $T(x) - x$."
    )
    figure.text(0.5, 0.085, caption, fontsize=10, ha="center", va="top", linespacing=1.4)
    _mesh(left, right, scene)
    _points(figure, left, right, scene)
    canvas.draw()
    # Few colours need a palette of 8 bits, a third of the bytes.
    Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB").quantize(128).save(path, "PNG")
    return scene


def _points(figure: Figure, left: Axes, right: Axes, scene: Scene) -> None:
    """Draw T as an arrow between the frames, and the displacement as one in the moving frame."""
    lesion, seen = np.array(LESION_MM)[:2], scene.seen_mm[:2]
    across = ConnectionPatch(
        xyA=tuple(seen),
        coordsA=right.transData,
        xyB=tuple(lesion),
        coordsB=left.transData,
        connectionstyle="arc3,rad=0.22",
        arrowstyle="-|>,head_width=0.35,head_length=0.7",
        color=VERMILLION,
        linewidth=2.2,
        shrinkA=5,
        shrinkB=5,
    )
    figure.add_artist(across)
    head = {"arrowstyle": "-|>,head_width=0.3,head_length=0.6", "color": GREEN, "linewidth": 2.2}
    right.annotate("", xy=tuple(lesion), xytext=tuple(seen), arrowprops=head)
    right.plot(*lesion, "o", color="white", markersize=8, markeredgecolor=GREEN, markeredgewidth=2)
    for axes, at in ((left, lesion), (right, seen)):
        axes.plot(*at, "o", color=VERMILLION, markersize=7, markeredgecolor="white")
    _text(left, lesion - (0, 10), f"$T(x)$ = {_pair(lesion)}", VERMILLION)
    _text(right, (seen[0] + 34, seen[1] + 2), f"$x$ = {_pair(seen)}", VERMILLION)
    _text(right, lesion - (0, 8), f"$T(x) - x$ = {_pair(lesion - seen)}", GREEN)
    _text(left, (83.5, 65), "$T$", VERMILLION, size=16)


def _pair(mm: np.ndarray) -> str:
    return f"({mm[0]:.0f}, {mm[1]:.0f}) mm".replace("-", "\N{MINUS SIGN}")


def _text(axes: Axes, at: Any, text: str, colour: str, *, size: int = 11) -> None:
    outline = [withStroke(linewidth=3, foreground="white")]
    axes.text(*at, text, color=colour, fontsize=size, ha="center", va="center", path_effects=outline)


def _mesh(left: Axes, right: Axes, scene: Scene) -> None:
    """Draw straight lines in the moving frame, and the same lines where T takes them."""
    (_, low_y, low_x), (_, high_y, high_x) = scene.grid.low_mm, scene.grid.high_mm
    part = torch.linspace(0, 1, 200, dtype=torch.float64)
    level = torch.full_like(part, LESION_MM[2])
    along_x, along_y = low_x + part * (high_x - low_x), low_y + part * (high_y - low_y)
    upright = [(torch.full_like(part, x), along_y) for x in (low_x, *range(-60, 61, 20), high_x)]
    level_with = [(along_x, torch.full_like(part, y)) for y in (low_y, *range(0, 81, 20), high_y)]
    for x, y in upright + level_with:
        line = torch.stack([x, y, level], dim=-1)
        taken = scene.transform.points(scene.params, line)
        for axes, at in ((right, line.numpy()), (left, taken.numpy())):
            axes.plot(at[:, 0], at[:, 1], color=BLUE, linewidth=0.9, alpha=0.75)


def _show(axes: Axes, grid: VolumeGrid, volume: torch.Tensor) -> None:
    (_, low_y, low_x), (_, high_y, high_x) = grid.low_mm, grid.high_mm
    extent = (low_x, high_x, low_y, high_y)
    axes.imshow(volume[0].numpy(), cmap="Greys", vmin=0, vmax=0.14, origin="lower", extent=extent)
    axes.set(xlim=(low_x, high_x), ylim=(low_y, high_y), xticks=range(-60, 61, 20), yticks=range(0, 81, 20))
    axes.set_xlabel("x, mm (along the tube's travel)")


def _breast(grid: VolumeGrid) -> np.ndarray:
    """Return half an ellipse with a nipple and some glandular tissue, (z, y, x)."""
    volume = _disc((0.0, 0.0, 5.0), (55.0, 70.0), TISSUE).voxels(grid)
    volume = np.maximum(volume, _disc((0.0, 69.0, 5.0), (6.0, 6.0), TISSUE).voxels(grid))
    for center_mm, radii_mm in (((8, 30, 5), (16, 8)), ((22, 14, 5), (9, 12)), ((-4, 52, 5), (6, 11))):
        volume += _disc(center_mm, radii_mm, 0.018).voxels(grid)
    y_mm = voxel_to_world(grid, [(0, j, 0) for j in range(grid.shape[1])])[:, 1]
    volume[:, y_mm < 0] = 0
    return volume


def _disc(center_mm: Any, radii_mm: Any, value: float) -> EllipticCylinder:
    return EllipticCylinder(center_mm=center_mm, radii_mm=radii_mm, height_mm=10.0, value=value)


def _centroid(grid: VolumeGrid, image: np.ndarray) -> np.ndarray:
    index = np.array([np.average(i, weights=image) for i in np.indices(image.shape)])
    return voxel_to_world(grid, index)


if __name__ == "__main__":
    shown = draw(Path(__file__).with_suffix(".png"))
    print(f"lesion in the reference frame     {np.round(LESION_MM, 2)} mm")
    print(f"seen in the moving frame at T^-1  {np.round(shown.seen_mm, 2)} mm")
    print(f"its centroid in the warped volume {np.round(shown.found_mm, 2)} mm")
    print(f"displacement T(x) - x             {np.round(LESION_MM - shown.seen_mm, 2)} mm")
