"""Where a volume has structure that a motion can be seen by."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from duotomo.geometry import VolumeGrid

STRONG = 0.95
"""Quantile over the voxels that structure is relative to."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Structure:
    """Mean square of a volume's slopes about each voxel, relative to where it is strong.

    Parameters
    ----------
    grid : VolumeGrid
        Of the volume.
    values : torch.Tensor
        (z, y, x), float32 on the CPU: about 1 at strong edges, 0 where all is uniform.
    """

    grid: VolumeGrid
    values: torch.Tensor = field(repr=False)

    @classmethod
    def of(cls, volume: torch.Tensor, grid: VolumeGrid, width_mm: float) -> Structure:
        """Return that of a volume, (z, y, x), in a window of a standard deviation."""
        values = volume.detach().float().cpu()
        energy = torch.zeros_like(values)
        for axis, edge_mm in enumerate(grid.spacing_mm):
            if values.shape[axis] > 1:
                energy += torch.gradient(values, spacing=edge_mm, dim=axis)[0].square()
        for axis, edge_mm in enumerate(grid.spacing_mm):
            energy = _blurred(energy, axis, width_mm / edge_mm)
        strong = float(energy.flatten().kthvalue(max(1, round(STRONG * energy.numel()))).values)
        return cls(grid=grid, values=energy / strong if strong > 0 else energy)

    def at(self, xyz_mm: torch.Tensor) -> torch.Tensor:
        """Return the structure at points, (n, xyz), interpolated linearly; zero outside of the grid."""
        half_mm = torch.tensor(self.grid.size_mm[::-1], dtype=torch.float64) / 2
        middle_mm = torch.tensor(self.grid.center_mm[::-1], dtype=torch.float64)
        at = ((xyz_mm.double().cpu() - middle_mm) / half_mm).float()
        found: torch.Tensor = torch.nn.functional.grid_sample(
            self.values[None, None], at[None, None, None], align_corners=False
        )
        return found.flatten()


def _blurred(values: torch.Tensor, axis: int, width: float) -> torch.Tensor:
    """Return values blurred along one axis by a Gaussian window, which is cut off at three widths."""
    reach = max(1, round(3 * width))
    window = torch.exp(-0.5 * (torch.arange(-reach, reach + 1) / max(width, 0.3)) ** 2)
    rows = values.movedim(axis, -1)
    flat = rows.reshape(-1, 1, rows.shape[-1])
    blurred = torch.nn.functional.conv1d(flat, (window / window.sum())[None, None], padding=reach)
    return blurred.reshape(rows.shape).movedim(-1, axis)
