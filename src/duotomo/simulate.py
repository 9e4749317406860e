"""Scans of phantoms: what a detector would have counted, as line integrals."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray

from duotomo.errors import DuotomoError
from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.operators import Projector
from duotomo.transforms import Transform

MOST_COUNTED = 1e8
"""Above this mean, counts are drawn from the normal distribution, which is then as good as Poisson's."""


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
    transform: Transform | None = None,
    params: torch.Tensor | None = None,
    moving_grid: VolumeGrid | None = None,
) -> torch.Tensor:
    """Return noisy line integrals of a phantom, (view, v, u), float32, on the generator's device.

    `p = -log(max(n, 1) / photons)` with `n ~ Poisson(photons * exp(-A T f))`: f is the phantom on a grid
    `finer` times finer than `grid`, so that no reconstruction on `grid` can explain the data exactly. A pixel
    that counts nothing is taken to have counted one photon.

    photons: expected counts per pixel and view without anything in the beam; the default is near the 270,000
    per square millimetre of the FDA's ReconDBT example (300,000 in seven views on pixels of 0.4 mm).
    transform, params: the motion before this visit, moving to reference, `(T f)(x) = f(T(x))`; none, and T is
    the identity. moving_grid: where the moved phantom is seen, like `grid` unless given; it too is refined.

    >>> from duotomo.geometry import paper
    >>> from duotomo.phantoms import Ellipsoid
    >>> from duotomo.transforms import Translation
    >>> grid = VolumeGrid.on_detector((8, 8, 8), (4.0, 4.0, 4.0))
    >>> ball = Ellipsoid(center_mm=(0.0, 16.0, 16.0), radii_mm=(8.0, 8.0, 8.0), value=0.05)
    >>> moved = Translation(grid)
    >>> scan(ball, grid, paper().bin(4), generator=torch.Generator().manual_seed(0), transform=moved,
    ...      params=moved.identity()).shape
    torch.Size([11, 32, 32])
    """
    if not photons > 0:
        raise DuotomoError(f"simulate.scan: expected photons > 0; got {photons}. Give counts per pixel.")
    if finer < 2:
        raise DuotomoError(
            f"simulate.scan: expected finer >= 2; got {finer}. Data from the reconstruction's own grid are "
            f"an inverse crime: ask for them by name, with same_grid_noise_free."
        )
    expected = _project(
        phantom,
        grid.refine(finer),
        acquisition,
        motion=_motion("simulate.scan", transform, params, moving_grid, refine=finer),
        device=generator.device,
        dtype=torch.float32,
    )
    counts = _count(photons * torch.exp(-expected.double()), generator)
    return -torch.log(counts.clamp(min=1) / photons).float()


def same_grid_noise_free(
    phantom: Phantom,
    grid: VolumeGrid,
    acquisition: Acquisition,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    transform: Transform | None = None,
    params: torch.Tensor | None = None,
    moving_grid: VolumeGrid | None = None,
) -> torch.Tensor:
    """Return `A T f` with f on the reconstruction's own grid: an inverse crime, (view, v, u).

    The data then hold neither noise nor anything that the grid cannot show, and errors come out too small.
    It is here to repeat published experiments that did so, and to check solvers.

    transform, params, moving_grid: as in `scan`.
    """
    motion = _motion("simulate.same_grid_noise_free", transform, params, moving_grid, refine=1)
    return _project(phantom, grid, acquisition, motion=motion, device=torch.device(device), dtype=dtype)


def _count(mean: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return Poisson counts of these means, as float64."""
    if float(mean.max()) <= MOST_COUNTED:
        return torch.poisson(mean, generator=generator)
    # On a GPU, torch.poisson counts in 32 bits and silently stops at 2^32.
    many = mean > MOST_COUNTED
    few = torch.poisson(torch.where(many, 0.0, mean), generator=generator)
    spread = torch.randn(mean.shape, generator=generator, device=mean.device, dtype=mean.dtype)
    return torch.where(many, mean + torch.sqrt(mean) * spread, few)


_Motion = tuple[Transform, torch.Tensor, VolumeGrid | None]


def _motion(
    where: str,
    transform: Transform | None,
    params: torch.Tensor | None,
    moving_grid: VolumeGrid | None,
    *,
    refine: int,
) -> _Motion | None:
    if transform is not None and params is not None:
        return transform, params, moving_grid and moving_grid.refine(refine)
    if transform is not None or params is not None:
        given, missing = ("transform", "params") if params is None else ("params", "transform")
        raise DuotomoError(
            f"{where}: expected transform and params together; got {given} alone. Add {missing}, or leave "
            f"both out for a visit without motion."
        )
    if moving_grid is not None:
        raise DuotomoError(
            f"{where}: expected a transform with moving_grid; got moving_grid alone. Without motion the "
            f"phantom is seen on grid: pass that one as grid."
        )
    return None


def _project(
    phantom: Phantom,
    grid: VolumeGrid,
    acquisition: Acquisition,
    *,
    motion: _Motion | None,
    device: torch.device,
    dtype: torch.dtype,
) -> torch.Tensor:
    volume = torch.from_numpy(phantom.voxels(grid, dtype=np.float64)).to(device=device, dtype=dtype)
    if motion is not None:
        transform, params, moving_grid = motion
        volume = transform.warp(params, grid, moving_grid)(volume)
        grid = moving_grid or grid
    projections: torch.Tensor = Projector(grid=grid, acquisition=acquisition)(volume)
    return projections
