"""Scans of phantoms: on a finer grid, analytic, and on the reconstruction's own grid."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray

from duotomo.errors import DuotomoError
from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.operators import Projector
from duotomo.simulate.detector import check_detector, detect
from duotomo.transforms import Transform


class Phantom(Protocol):
    """Anything that can be averaged over the voxels of a grid."""

    def voxels(self, grid: VolumeGrid, *, dtype: DTypeLike = ...) -> NDArray[Any]:
        """Return attenuation, 1/mm, (z, y, x)."""
        ...


class AnalyticPhantom(Protocol):
    """Anything whose integrals along rays are known without a grid."""

    def line_integrals(self, acquisition: Acquisition, *, oversample: int = ...) -> NDArray[np.float64]:
        """Return the mean over `oversample` x `oversample` rays of each pixel, (view, v, u)."""
        ...


def scan(
    phantom: Phantom,
    grid: VolumeGrid,
    acquisition: Acquisition,
    *,
    generator: torch.Generator,
    photons: float = 250_000.0,
    blur_mm: float = 0.0,
    scatter: float = 0.0,
    finer: int = 2,
    transform: Transform | None = None,
    params: torch.Tensor | None = None,
    moving_grid: VolumeGrid | None = None,
) -> torch.Tensor:
    """Return noisy line integrals of a phantom, (view, v, u), float32, on the generator's device.

    `p = -log(max(n, 1) / photons)` with `n ~ Poisson(photons * B(P + S))` and `P = exp(-A T f)`: f is the
    phantom on a grid `finer` times finer than `grid`, so that no reconstruction on `grid` can explain the
    data exactly. A pixel that counts nothing is taken to have counted one photon.

    photons: expected counts per pixel and view without anything in the beam; the default is near the 270,000
    per square millimetre of the FDA's ReconDBT example (300,000 in seven views on pixels of 0.4 mm).
    blur_mm: the detector spreads what reaches it, B, by a Gaussian of this standard deviation; the noise of
    its pixels stays independent. scatter: the share of scattered photons among those that arrive behind the
    object in each view, `sum q S / sum q (S + P)` with `q = A T f`; `S = c G(q exp(-q))`, G a Gaussian of
    20 mm. Zero, the default, leaves either out.
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
    check_detector("simulate.scan", photons=photons, blur_mm=blur_mm, scatter=scatter)
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
    return detect(
        expected, acquisition, generator=generator, photons=photons, blur_mm=blur_mm, scatter=scatter
    )


def scan_analytic(
    phantom: AnalyticPhantom,
    acquisition: Acquisition,
    *,
    generator: torch.Generator,
    photons: float = 250_000.0,
    blur_mm: float = 0.0,
    scatter: float = 0.0,
    oversample: int = 4,
) -> torch.Tensor:
    """Return noisy line integrals of a phantom that needs no grid, (view, v, u), float32.

    As `scan`, with the phantom's own integrals in the place of `A T f`: neither a grid nor a projector has
    touched these data. A moved phantom is another phantom. They lie on the generator's device.

    photons, blur_mm, scatter: as in `scan`. oversample: rays per pixel along v and along u, their mean taken.

    >>> from duotomo.geometry import paper
    >>> from duotomo.phantoms import Ellipsoid
    >>> ball = Ellipsoid(center_mm=(0.0, 16.0, 16.0), radii_mm=(8.0, 8.0, 8.0), value=0.05)
    >>> scan_analytic(ball, paper().bin(4), generator=torch.Generator().manual_seed(0)).shape
    torch.Size([11, 32, 32])
    """
    where = "simulate.scan_analytic"
    check_detector(where, photons=photons, blur_mm=blur_mm, scatter=scatter)
    if not hasattr(phantom, "line_integrals"):
        raise DuotomoError(
            f"{where}: expected a phantom with line_integrals; got {type(phantom).__name__}. Use scan, which "
            f"needs voxels only."
        )
    expected = torch.from_numpy(phantom.line_integrals(acquisition, oversample=oversample))
    return detect(
        expected.to(generator.device),
        acquisition,
        generator=generator,
        photons=photons,
        blur_mm=blur_mm,
        scatter=scatter,
    )


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
