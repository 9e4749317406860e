"""ASTRA's cone-beam pair on a GPU, for any acquisition and any voxels.

Its frame is ours, in mm: a view is its source, the detector's centre and the steps from pixel to pixel along
u and v; volumes are (z, y, x). Projections are (v, view, u), so ours are turned, outside the clock. Volumes
and projections are PyTorch's memory on the GPU, which ASTRA reads and writes in place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.contest import Run
from benchmarks.peers.available import Available, has_gpu, installed

if TYPE_CHECKING:
    from duotomo.geometry import Acquisition, VolumeGrid


def available(device: str) -> Available:
    """Return whether ASTRA can run on a device."""
    if device != "cuda":
        return Available("ASTRA projects volumes on a GPU only")
    return has_gpu() and installed("astra", "ASTRA")


class Astra:
    """`direct_FP3D` and `direct_BP3D` with one ray per pixel, as ASTRA does by itself."""

    def __init__(self, grid: VolumeGrid, acquisition: Acquisition, device: str) -> None:
        import astra
        import astra.experimental

        self._astra, self._device = astra, device
        n_v, n_u = acquisition.detector_shape
        projections = astra.create_proj_geom("cone_vec", n_v, n_u, vectors(acquisition))
        volume = astra.create_vol_geom(*volume_window(grid))
        self._projector = astra.create_projector("cuda3d", projections, volume)

    def runs(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Run]:
        volume, projections = x.to(self._device).contiguous(), y.transpose(0, 1).contiguous().to(self._device)
        # Not numbers, so that a call that fails without a word is seen.
        ax, aty = (torch.full_like(like, torch.nan) for like in (projections, volume))
        direct = self._astra.experimental

        def forward() -> torch.Tensor:
            direct.direct_FP3D(self._projector, self._link(volume), self._link(ax))
            return ax

        def adjoint() -> torch.Tensor:
            direct.direct_BP3D(self._projector, self._link(aty), self._link(projections))
            return aty

        return {
            "forward": Run(call=forward, read=lambda result: result.transpose(0, 1)),
            "adjoint": Run(call=adjoint),
        }

    def _link(self, array: torch.Tensor) -> Any:
        """Return ASTRA's name for memory on the GPU: address, columns, rows, slices, bytes per row."""
        n_z, n_y, n_x = array.shape
        return self._astra.data3d.GPULink(array.data_ptr(), n_x, n_y, n_z, n_x * array.element_size())


def vectors(acquisition: Acquisition) -> NDArray[np.float64]:
    """Return one row of twelve numbers per view: source, detector's centre, step along u, step along v."""
    d_v, d_u = acquisition.pixel_spacing_mm
    return np.hstack(
        [
            acquisition.sources_mm,
            acquisition.detector_centers_mm,
            acquisition.u_axes * d_u,
            acquisition.v_axes * d_v,
        ]
    )


def volume_window(grid: VolumeGrid) -> tuple[float, ...]:
    """Return the counts of rows (y), columns (x) and slices (z), then the box: low and high x, y, z."""
    n_z, n_y, n_x = grid.shape
    box = (edge for axis in (2, 1, 0) for edge in (grid.low_mm[axis], grid.high_mm[axis]))
    return n_y, n_x, n_z, *box
