"""Scans of phantoms: what a detector would have counted, as line integrals."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray

from duotomo.errors import DuotomoError
from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.operators import Projector


class Phantom(Protocol):
    """Anything that can be averaged over the voxels of a grid."""

    def voxels(self, grid: VolumeGrid, *, dtype: DTypeLike = ...) -> NDArray[Any]:
        """Return attenuation, 1/mm, (z, y, x)."""
        ...


def scan(
    phantom: Phantom,
    grid: VolumeGrid,
    acquisition: Acquisition,
    *,
    generator: torch.Generator,
    photons: float = 250_000.0,
    finer: int = 2,
) -> torch.Tensor:
    """Return noisy line integrals of a phantom, (view, v, u), float32, on the generator's device.

    `p = -log(max(n, 1) / photons)` with `n ~ Poisson(photons * exp(-A f))`: f is the phantom on a grid
    `finer` times finer than `grid`, so that no reconstruction on `grid` can explain the data exactly. A pixel
    that counts nothing is taken to have counted one photon.

    photons: expected counts per pixel and view without anything in the beam; the default is near the 270,000
    per square millimetre of the FDA's ReconDBT example (300,000 in seven views on pixels of 0.4 mm).
    """
    if not photons > 0:
        raise DuotomoError(f"simulate.scan: expected photons > 0; got {photons}. Give counts per pixel.")
    if finer < 2:
        raise DuotomoError(
            f"simulate.scan: expected finer >= 2; got {finer}. Data from the reconstruction's own grid are "
            f"an inverse crime: ask for them by name, with same_grid_noise_free."
        )
    expected = _project(
        phantom, grid.refine(finer), acquisition, device=generator.device, dtype=torch.float32
    )
    counts = torch.poisson(photons * torch.exp(-expected.double()), generator=generator)
    return -torch.log(counts.clamp(min=1) / photons).float()


def same_grid_noise_free(
    phantom: Phantom,
    grid: VolumeGrid,
    acquisition: Acquisition,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> torch.Tensor:
    """Return `A f` with f on the reconstruction's own grid: an inverse crime, (view, v, u).

    The data then hold neither noise nor anything that the grid cannot show, and errors come out too small.
    It is here to repeat published experiments that did so, and to check solvers.
    """
    return _project(phantom, grid, acquisition, device=torch.device(device), dtype=dtype)


def _project(
    phantom: Phantom, grid: VolumeGrid, acquisition: Acquisition, *, device: torch.device, dtype: torch.dtype
) -> torch.Tensor:
    volume = torch.from_numpy(phantom.voxels(grid, dtype=np.float64)).to(device=device, dtype=dtype)
    projections: torch.Tensor = Projector(grid=grid, acquisition=acquisition)(volume)
    return projections
