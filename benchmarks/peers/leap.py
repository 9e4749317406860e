"""LEAP's modular beam, on a GPU or a CPU, for any acquisition and cubic voxels.

Its arrays are (z, y, x) and (view, row, column): ours. What it does, and how fast, depends on the axes, so it
takes part in several frames. Where the detector's rows climb along its z, it uses separable footprints on a
GPU; elsewhere Joseph's interpolation. On a CPU it shifts such detectors twice: that frame is for a GPU only.
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
    """Return whether LEAP can run on a device."""
    gpu = has_gpu() if device == "cuda" else Available()
    return gpu and installed("leapctype", "LEAP")


def footprints_available(device: str) -> Available:
    """Return whether LEAP has separable footprints on a device."""
    if device != "cuda":
        return Available("LEAP's separable footprints for a modular beam run on a GPU only")
    return available(device)


class Leap:
    """`project` and `backproject` with the source up LEAP's z: our frame, its origin in the grid's middle."""

    TURN = np.eye(3)

    def __init__(self, grid: VolumeGrid, acquisition: Acquisition, device: str) -> None:
        self._device = device
        self._model = self._set_up(grid, acquisition)

    def own(self, volume: torch.Tensor) -> torch.Tensor:
        """Return one of our volumes in LEAP's frame."""
        return volume

    def ours(self, volume: torch.Tensor) -> torch.Tensor:
        """Return one of LEAP's volumes in our frame."""
        return volume

    def runs(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Run]:
        volume, projections = self.own(x).contiguous().to(self._device), y.contiguous().to(self._device)
        # Not numbers, so that a call that fails without a word is seen.
        ax, aty = (torch.full_like(like, torch.nan) for like in (projections, volume))
        return {
            "forward": Run(call=lambda: self._model.project(ax, volume)),
            "adjoint": Run(call=lambda: self._model.backproject(projections, aty), read=self.ours),
        }

    def _set_up(self, grid: VolumeGrid, acquisition: Acquisition) -> Any:
        from leapctype import tomographicModels

        edge_mm = grid.spacing_mm[0]
        if not np.allclose(grid.spacing_mm, edge_mm, rtol=1e-6):
            raise ValueError(f"LEAP's modular beam wants cubic voxels; got {grid.spacing_mm} mm (z, y, x)")
        model = tomographicModels()
        if model.libprojectors is None:
            raise OSError("leapctype finds no library of LEAP beside it")
        n_z, n_y, n_x = self.own(torch.empty(grid.shape, device="meta")).shape
        # A mask of LEAP's own takes what lies beyond a circle; none here.
        everything_mm = 4 * float(np.linalg.norm(grid.size_mm))
        middle_mm = np.array(grid.center_mm[::-1])
        places_mm = (acquisition.sources_mm - middle_mm, acquisition.detector_centers_mm - middle_mm)
        vectors = [self._turned(v) for v in (*places_mm, acquisition.v_axes, acquisition.u_axes)]
        set_up = {
            "set_gpu": model.set_gpu(0 if self._device == "cuda" else -1),
            "set_modularbeam": model.set_modularbeam(
                *acquisition.shape, *acquisition.pixel_spacing_mm, *vectors
            ),
            "set_volume": model.set_volume(n_x, n_y, n_z, edge_mm, edge_mm),
            "set_diameterFOV": model.set_diameterFOV(everything_mm),
        }
        if refused := [name for name, done in set_up.items() if not done]:
            raise RuntimeError(f"LEAP refuses {', '.join(refused)}")
        return model

    def _turned(self, vectors: NDArray[np.float64]) -> NDArray[np.float32]:
        return np.ascontiguousarray(vectors @ self.TURN.T, dtype=np.float32)


class LeapAlongY(Leap):
    """The same with the source along LEAP's y: its y is our z, its z our -y."""

    TURN = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]])

    def own(self, volume: torch.Tensor) -> torch.Tensor:
        return volume.transpose(0, 1).flip(0)

    def ours(self, volume: torch.Tensor) -> torch.Tensor:
        return volume.flip(0).transpose(0, 1)


class LeapFootprints(Leap):
    """The same with the detector's rows up LEAP's z: its y is our -z, its z our y."""

    TURN = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])

    def own(self, volume: torch.Tensor) -> torch.Tensor:
        return volume.flip(0).transpose(0, 1)

    def ours(self, volume: torch.Tensor) -> torch.Tensor:
        return volume.transpose(0, 1).flip(0)
