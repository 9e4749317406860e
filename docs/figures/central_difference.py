"""Draws how far a central difference is from the analytic derivative of a warped volume.

`(T(p + h d) f - T(p - h d) f) / (2 h)` against `grad f(T(x)) . dT(x)`, for a turn about y of the toroid.
Run as `python docs/figures/central_difference.py`; it prints the numbers and writes central_difference.png
next to itself.
"""

from __future__ import annotations

import time
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
SHOWN_STEP = 1.0
TURN_DEG, SHIFT_MM = (4.0, -12.0, 7.0), (2.0, 1.0, -1.0)
# Okabe and Ito's colours, which stay apart under the common colour-vision deficiencies.
COLOURS = {"linear": "#D55E00", "cubic": "#0072B2"}
STYLES = {torch.float64: ("o-", "float64"), torch.float32: ("s--", "float32")}
CAPTION = (
    "Where a step takes a voxel across a voxel centre of the reference grid, it meets another piece of the "
    "interpolant, with another\nslope (linear: error $h^{1/2}$ over all voxels) or curvature (cubic: "
    "$h^{3/2}$). The typical voxel crosses none, and has the textbook's $h^2$;\nbelow $h = 10^{-4}$ hardly "
    "any voxel crosses one. At small $h$ rounding takes over. Images: rotation about y, linear, float64, "
    "middle slice\nalong y. Cost of a gradient: two warps for each parameter, against one pass for all."
)


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
    params = rigid.params(rotation_deg=TURN_DEG, translation_mm=SHIFT_MM)
    turn = torch.eye(rigid.n_params, dtype=torch.float64)[ABOUT_Y]
    steps = 10.0 ** -np.arange(0, 8.1, 1 if quick else 0.5)
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
    body = EllipticCylinder(center_mm=(x, y, z), radii_mm=(27.0, 27.0), height_mm=46.0, value=0.046)
    ring = Toroid(center_mm=(x, y, z), major_radius_mm=16.0, minor_radius_mm=7.0, value=0.034, body=body)
    return grid, torch.from_numpy(ring.voxels(grid))


def seconds(*, n_runs: int = 5) -> tuple[float, float]:
    """Return the time of a gradient in all parameters, analytic and by central differences."""
    grid, volume = toroid(70)
    rigid = Rigid(grid)
    params = rigid.params(rotation_deg=TURN_DEG, translation_mm=SHIFT_MM)
    f = volume.float()
    best = []
    for step in (None, SHOWN_STEP):
        times = []
        for _ in range(n_runs + 1):
            start = time.perf_counter()
            rigid.vjp(params, f, f, central_step=step)
            times.append(time.perf_counter() - start)
        # The first run loads the kernels.
        best.append(min(times[1:]))
    return best[0], best[1]


def draw(path: Path, *, quick: bool = False) -> Comparison:
    """Write the picture and return what it shows."""
    found = compare(quick=quick)
    figure = Figure(figsize=(10.0, 9.0), dpi=60 if quick else 160)
    canvas = FigureCanvasAgg(figure)
    title = "Derivative of a warped volume: central difference against analytic"
    figure.suptitle(title, fontsize=13, y=0.985)
    _curves(figure, found)
    _images(figure, found)
    figure.text(0.025, 0.115, CAPTION, fontsize=10, va="top", linespacing=1.45)
    canvas.draw()
    # Without the alpha channel, which holds nothing and makes the file a tenth larger.
    Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB").save(path, "PNG", optimize=True)
    return found


def _curves(figure: Figure, found: Comparison) -> None:
    places = figure.add_gridspec(1, 2, left=0.085, right=0.985, bottom=0.585, top=0.9, wspace=0.06)
    all_voxels, typical = places.subplots(sharex=True, sharey=True)
    for (name, dtype), curve in found.curves.items():
        marker, precision = STYLES[dtype]
        label = f"{name}, {precision}"
        for axes, errors in ((all_voxels, curve.rms), (typical, curve.median)):
            axes.loglog(curve.steps, errors, marker, color=COLOURS[name], label=label, markersize=4)
        if dtype == torch.float32:
            all_voxels.axhline(curve.analytic_rms, color=COLOURS[name], linestyle=":")
    all_voxels.text(1.3, 4e-7, "dotted: analytic, float32", fontsize=9, ha="right", va="top")
    _guide(all_voxels, 0.5, 1.0, "$h^{1/2}$", text_at=(0.03, 0.9))
    _guide(all_voxels, 1.5, 0.02, "$h^{3/2}$", text_at=(0.09, 5e-5))
    _guide(typical, 2.0, 0.0001, "$h^2$", text_at=(0.1, 1e-7))
    all_voxels.set_title("a. All voxels: root mean square", fontsize=11, loc="left")
    typical.set_title("b. The typical voxel: median", fontsize=11, loc="left")
    all_voxels.set_ylabel("error / rms of the derivative")
    for axes in (all_voxels, typical):
        axes.set(xlim=(5e-9, 2), ylim=(2e-11, 100))
        axes.set_xlabel("step $h$ (1 moves the grid's corners by about a voxel)")
        axes.grid(alpha=0.3)
    handles, labels = typical.get_legend_handles_labels()
    at = (0.53, 0.965)
    figure.legend(handles, labels, loc="upper center", bbox_to_anchor=at, ncols=4, frameon=False)


def _guide(axes: Axes, slope: float, at_one: float, label: str, *, text_at: tuple[float, float]) -> None:
    steps = np.array([3e-3, 0.3])
    axes.loglog(steps, at_one * steps**slope, color="black", linewidth=1)
    axes.text(*text_at, label, fontsize=12, ha="center", va="center")


def _images(figure: Figure, found: Comparison) -> None:
    panels = {
        "c. Analytic": found.analytic,
        f"d. Central difference, $h$ = {SHOWN_STEP:g}": found.central,
        "e. Difference, d \N{MINUS SIGN} c": found.central - found.analytic,
    }
    most = float(found.analytic.abs().max())
    grid = found.grid
    middle = grid.shape[1] // 2
    extent = (grid.low_mm[2], grid.high_mm[2], grid.low_mm[0], grid.high_mm[0])
    places = figure.add_gridspec(1, 3, left=0.085, right=0.865, bottom=0.185, top=0.495, wspace=0.08)
    all_axes = places.subplots(sharex=True, sharey=True)
    for axes, (title, image) in zip(all_axes, panels.items(), strict=True):
        shown = axes.imshow(
            image[:, middle].numpy(), cmap="PuOr_r", vmin=-most, vmax=most, origin="lower", extent=extent
        )
        axes.set_title(title, fontsize=11, loc="left")
        axes.set_xlabel("x, mm")
    all_axes[0].set_ylabel("z, mm")
    bar = figure.add_axes((0.885, 0.2, 0.015, 0.28))
    figure.colorbar(shown, cax=bar, label="1/mm per unit of the parameter")


if __name__ == "__main__":
    shown = draw(Path(__file__).with_suffix(".png"))
    print("error / rms of the derivative (root mean square, median) by step")
    for (name, dtype), curve in shown.curves.items():
        print(f"{name}, {STYLES[dtype][1]}; the analytic derivative: {curve.analytic_rms:.1e}")
        for step, rms, median in zip(curve.steps, curve.rms, curve.median, strict=True):
            print(f"  {step:8.1e}  {rms:8.1e}  {median:8.1e}")
    analytic_s, central_s = seconds()
    print(f"gradient in 6 parameters: analytic {1e3 * analytic_s:.0f} ms, central {1e3 * central_s:.0f} ms")
