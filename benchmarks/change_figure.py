"""A figure of one case of the trial of change detection: both visits, the lesion marked, one view each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from benchmarks.change_cases import ChangeCase
from duotomo.change.finding import Xyz
from duotomo.geometry.frame import world_to_voxel


def draw(case: ChangeCase, path: Path) -> None:
    """Draw slices of the truth of both visits through the lesion, or the middle, and the middle view."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 4, figsize=(18, 7))
    truths, places = (case.truth, case.prior_truth), (case.lesion_mm, case.prior_lesion_mm)
    for row, name, truth, place, visit in zip(
        axes, ("current", "prior"), truths, places, case.study.visits, strict=True
    ):
        _slices(row[:3], truth.cpu(), case, place)
        middle = visit.projections.shape[0] // 2
        row[3].imshow(visit.projections[middle].cpu(), origin="lower", cmap="gray")
        row[0].set_ylabel(f"{name}\ny")
        row[3].set_title("line integrals, middle view")
    lesion = f"{case.lesion_size_mm:g} mm, {case.lesion_contrast_per_mm:+.4f} /mm in {case.tissue}"
    figure.suptitle(f"{case.name} ({case.density}, {case.split})" + (f": {lesion}" if case.lesion_mm else ""))
    figure.tight_layout()
    figure.savefig(path, dpi=70)
    plt.close(figure)


def _slices(row: Any, truth: torch.Tensor, case: ChangeCase, place_mm: Xyz | None) -> None:
    """Draw slices along z, y and x of one visit."""
    grid = case.study.grid
    at = [n / 2 for n in grid.shape] if place_mm is None else world_to_voxel(grid, place_mm).tolist()
    z, y, x = (min(max(round(i), 0), n - 1) for i, n in zip(at, grid.shape, strict=True))
    pictures = (
        (truth[z], f"z = {z} (x, y)", (at[2], at[1])),
        (truth[:, y], f"y = {y} (x, z)", (at[2], at[0])),
        (truth[:, :, x], f"x = {x} (y, z)", (at[1], at[0])),
    )
    radius = (case.lesion_size_mm / 2 + 3) / grid.spacing_mm[0]
    for axis, (picture, title, middle) in zip(row, pictures, strict=True):
        axis.imshow(picture, origin="lower", cmap="gray", vmin=0.03, vmax=0.09)
        axis.set_title(title)
        if place_mm is not None:
            axis.add_patch(_circle(middle, radius))


def _circle(middle: tuple[float, float], radius: float) -> Any:
    from matplotlib.patches import Circle

    return Circle(middle, radius, fill=False, edgecolor="tab:red")
