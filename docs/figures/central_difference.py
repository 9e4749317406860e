"""Draws how far a central difference is from the analytic derivative of a warped volume.

`(T(p + h d) f - T(p - h d) f) / (2 h)` against `grad f(T(x)) . dT(x)`, for a turn about y of the toroid.
Run as `python docs/figures/central_difference.py`; it prints the numbers and writes central_difference.png
next to itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from duotomo.geometry import VolumeGrid
from duotomo.phantoms import EllipticCylinder, Toroid
from duotomo.transforms import Rigid

ABOUT_Y = 1
SHOWN_STEP = 0.1
# Okabe and Ito's colours, which stay apart under the common colour-vision deficiencies.
COLOURS = {"linear": "#D55E00", "cubic": "#0072B2"}
STYLES = {torch.float64: ("o-", "float64"), torch.float32: ("s--", "float32")}


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """Errors of central differences, relative to the derivative's root mean square, by step.

    rms: over all voxels. median: over the voxels where the derivative is above 1 % of its largest value.
    analytic_rms: the error of the analytic derivative in this precision.
    """

    steps: np.ndarray
    rms: np.ndarray
    median: np.ndarray
    analytic_rms: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """Curves by interpolation and precision, and the images at one step, (z, y, x), linear, float64."""

    grid: VolumeGrid
    curves: dict[tuple[str, torch.dtype], Curve]
    analytic: torch.Tensor
    central: torch.Tensor


def compare(*, quick: bool = False) -> Comparison:
    """Return the errors over a range of steps; a unit step moves the grid's corners by about a voxel."""
    grid, volume = toroid(20 if quick else 70)
    rigid = Rigid(grid)
    params = rigid.params(rotation_deg=(4.0, -12.0, 7.0), translation_mm=(3.0, 1.0, -2.0))
    turn = torch.eye(rigid.n_params, dtype=torch.float64)[ABOUT_Y]
    steps = 10.0 ** -np.arange(0, 9, 2 if quick else 0.5)
    curves = {}
    for name, cubic in (("linear", False), ("cubic", True)):
        truth = rigid.jvp(params, volume, turn, cubic=cubic)
        scale = float(truth.square().mean().sqrt())
        steep = truth.abs() > 0.01 * truth.abs().max()
        for dtype in STYLES:
            f = volume.to(dtype)
            off = rigid.jvp(params, f, turn, cubic=cubic).double() - truth
            rms, median = [], []
            for step in steps:
                image = rigid.jvp(params, f, turn, cubic=cubic, central_step=float(step))
                error = image.double() - truth
                rms.append(float(error.square().mean().sqrt()) / scale)
                median.append(float(error[steep].abs().median()) / scale)
            curves[name, dtype] = Curve(
                steps=steps,
                rms=np.array(rms),
                median=np.array(median),
                analytic_rms=float(off.square().mean().sqrt()) / scale,
            )
    return Comparison(
        grid=grid,
        curves=curves,
        analytic=rigid.jvp(params, volume, turn),
        central=rigid.jvp(params, volume, turn, central_step=SHOWN_STEP),
    )


def toroid(n: int) -> tuple[VolumeGrid, torch.Tensor]:
    """Return a cube of 70 mm with n voxels along an edge, and a ring in soft tissue on it, float64."""
    grid = VolumeGrid.on_detector((n, n, n), (70 / n, 70 / n, 70 / n))
    z, y, x = grid.center_mm
    body = EllipticCylinder(center_mm=(x, y, z), radii_mm=(30.0, 30.0), height_mm=50.0, value=0.046)
    ring = Toroid(center_mm=(x, y, z), major_radius_mm=16.0, minor_radius_mm=7.0, value=0.034, body=body)
    return grid, torch.from_numpy(ring.voxels(grid))


def draw(path: Path, *, quick: bool = False) -> Comparison:
    """Write the picture and return what it shows."""
    found = compare(quick=quick)
    figure = Figure(figsize=(10.0, 8.4), dpi=60 if quick else 160, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    upper, lower = figure.subfigures(2, 1, height_ratios=(1, 0.95))
    figure.suptitle("The derivative of a warped volume: central difference against analytic", fontsize=13)
    all_voxels, typical = upper.subplots(1, 2, sharex=True, sharey=True)
    for (name, dtype), curve in found.curves.items():
        marker, precision = STYLES[dtype]
        for axes, errors in ((all_voxels, curve.rms), (typical, curve.median)):
            label = f"{name}, {precision}"
            axes.loglog(curve.steps, errors, marker, color=COLOURS[name], label=label, markersize=4)
    _guide(all_voxels, 0.5, 0.7, r"$h^{1/2}$")
    _guide(all_voxels, 1.5, 0.03, r"$h^{3/2}$")
    _guide(typical, 2.0, 0.003, r"$h^2$")
    all_voxels.set_title("all voxels: root mean square", fontsize=11)
    typical.set_title("the typical voxel: median", fontsize=11)
    all_voxels.set_ylabel("error / rms of the derivative")
    for axes in (all_voxels, typical):
        axes.set(xlabel="step h (1 moves the grid's corners by about a voxel)", ylim=(1e-12, 30))
        axes.grid(alpha=0.3)
    all_voxels.legend(fontsize=9)
    _images(lower, found)
    canvas.draw()
    # Few colours need a palette of 8 bits, a third of the bytes.
    Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB").quantize(256).save(path, "PNG")
    return found


def _guide(axes: Axes, slope: float, at_one: float, label: str) -> None:
    steps = np.array([1e-3, 0.3])
    axes.loglog(steps, at_one * steps**slope, color="black", linewidth=1)


def _images(lower: Figure, found: Comparison) -> None:
    panels = {
        "analytic": found.analytic,
        f"central difference, h = {SHOWN_STEP}": found.central,
        "central difference - analytic": found.central - found.analytic,
    }
    most = float(found.analytic.abs().max())
    grid = found.grid
    middle = grid.shape[1] // 2
    y_mm = grid.low_mm[1] + (middle + 0.5) * grid.spacing_mm[1]
    extent = (grid.low_mm[2], grid.high_mm[2], grid.low_mm[0], grid.high_mm[0])
    all_axes = lower.subplots(1, 3, sharex=True, sharey=True)
    for axes, (title, image) in zip(all_axes, panels.items(), strict=True):
        shown = axes.imshow(
            image[:, middle], cmap="PuOr_r", vmin=-most, vmax=most, origin="lower", extent=extent
        )
        axes.set_title(title, fontsize=11)
        axes.set_xlabel("x, mm")
    all_axes[0].set_ylabel("z, mm")
    lower.colorbar(shown, ax=all_axes, label="1/mm per unit step")


if __name__ == "__main__":
    shown = draw(Path(__file__).with_suffix(".png"))
    for (name, dtype), curve in shown.curves.items():
        print(name, dtype, curve.analytic_rms)
        for h,a,b in zip(curve.steps,curve.rms,curve.median): print(f"{h:.1e} {a:.2e} {b:.2e}")
