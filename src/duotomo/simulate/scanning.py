"""Scans of phantoms: on a finer grid, analytic, and on the reconstruction's own grid."""

from __future__ import annotations

import numpy as np
import torch

from duotomo.errors import DuotomoError
from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.operators import Projector
from duotomo.phantoms import Phantom
from duotomo.phantoms.phantom import AnalyticPhantom
from duotomo.simulate.detector import check_detector, detect
from duotomo.transforms import Motion


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
    motion: Motion | None = None,
    moving_grid: VolumeGrid | None = None,
) -> torch.Tensor:
    """Return noisy line integrals of a phantom, made on a finer grid than a reconstruction's.

    `p = -log(max(n, 1) / photons)` with `n ~ Poisson(photons * B(P + S))` and `P = exp(-A T f)`: f is the
    phantom on a grid `finer` times finer than `grid`, so that no reconstruction on `grid` can explain the
    data exactly. A pixel that counts nothing is taken to have counted one photon.

    Parameters
    ----------
    phantom : Phantom
        What is scanned.
    grid : VolumeGrid
        That of the reconstruction.
    acquisition : Acquisition
        How it is scanned.
    generator : torch.Generator
        Of the noise; the projections lie on its device.
    photons : float
        Expected counts per pixel and view without anything in the beam; the default is near the 270,000 per
        square millimetre of the FDA's ReconDBT example (300,000 in seven views on pixels of 0.4 mm).
    blur_mm : float
        The detector spreads what reaches it, B, by a Gaussian of this standard deviation; the noise of its
        pixels stays independent. Zero leaves it out.
    scatter : float
        Share of scattered photons among those that arrive behind the object in each view, `sum q S /
        sum q (S + P)` with `q = A T f`; `S = c G(q exp(-q))`, G a Gaussian of 20 mm. Zero leaves it out.
    finer : int
        How many times finer the voxels of the phantom are, 2 or more.
    motion : Motion, optional
        T, the motion before this visit, moving_to_reference, `(T f)(x) = f(T(x))`; the identity unless given.
    moving_grid : VolumeGrid, optional
        Where the moved phantom is seen, like `grid` unless given; it too is refined.

    Returns
    -------
    torch.Tensor
        (view, v, u), float32, without unit.

    Raises
    ------
    DuotomoError
        If `finer` is below 2, the detector cannot exist, or `moving_grid` comes without a motion.

    Examples
    --------
    >>> from duotomo.geometry import paper
    >>> from duotomo.phantoms import Ellipsoid
    >>> from duotomo.transforms import Translation
    >>> grid = VolumeGrid.on_detector((8, 8, 8), (4.0, 4.0, 4.0))
    >>> ball = Ellipsoid(center_mm=(0.0, 16.0, 16.0), radii_mm=(8.0, 8.0, 8.0), value=0.05)
    >>> shift = Translation(grid)
    >>> moved = Motion(shift, shift.params(translation_mm=(1.0, 0.0, 0.0)))
    >>> scan(ball, grid, paper().bin(4), generator=torch.Generator().manual_seed(0), motion=moved).shape
    torch.Size([11, 32, 32])
    """
    where = "simulate.scan"
    check_detector(where, photons=photons, blur_mm=blur_mm, scatter=scatter)
    _check_motion(where, motion, moving_grid)
    if finer < 2:
        raise DuotomoError(
            f"{where}: expected finer >= 2; got {finer}. Data from the reconstruction's own grid are an "
            f"inverse crime: ask for them by name, with same_grid_noise_free."
        )
    expected = _project(
        phantom,
        grid.refine(finer),
        acquisition,
        motion=motion,
        moving_grid=moving_grid and moving_grid.refine(finer),
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
    """Return noisy line integrals of a phantom that needs no grid.

    As `scan`, with the phantom's own integrals in the place of `A T f`: neither a grid nor a projector has
    touched these data. A moved phantom is another phantom.

    Parameters
    ----------
    phantom : AnalyticPhantom
        What is scanned.
    acquisition : Acquisition
        How it is scanned.
    generator : torch.Generator
        Of the noise; the projections lie on its device.
    photons, blur_mm, scatter : float
        Those of `scan`.
    oversample : int
        Rays per pixel along v and along u, their mean taken.

    Returns
    -------
    torch.Tensor
        (view, v, u), float32, without unit.

    Raises
    ------
    DuotomoError
        If the phantom has no `line_integrals`, or the detector cannot exist.

    Examples
    --------
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
    motion: Motion | None = None,
    moving_grid: VolumeGrid | None = None,
) -> torch.Tensor:
    """Return `A T f` with f on the reconstruction's own grid: an inverse crime.

    The data then hold neither noise nor anything that the grid cannot show, and errors come out too small.
    It is here to repeat published experiments that did so, and to check solvers.

    Parameters
    ----------
    phantom, grid, acquisition
        Those of `scan`; no grid is refined.
    device : torch.device or str
        Of the projections.
    dtype : torch.dtype
        Of the projections.
    motion, moving_grid
        Those of `scan`.

    Returns
    -------
    torch.Tensor
        (view, v, u), without unit.

    Raises
    ------
    DuotomoError
        If `moving_grid` comes without a motion.
    """
    _check_motion("simulate.same_grid_noise_free", motion, moving_grid)
    return _project(
        phantom,
        grid,
        acquisition,
        motion=motion,
        moving_grid=moving_grid,
        device=torch.device(device),
        dtype=dtype,
    )


def _check_motion(where: str, motion: Motion | None, moving_grid: VolumeGrid | None) -> None:
    if motion is None and moving_grid is not None:
        raise DuotomoError(
            f"{where}: expected a motion with moving_grid; got moving_grid alone. Without motion the phantom "
            f"is seen on the reconstruction's grid: pass `grid`."
        )


def _project(
    phantom: Phantom,
    grid: VolumeGrid,
    acquisition: Acquisition,
    *,
    motion: Motion | None,
    moving_grid: VolumeGrid | None,
    device: torch.device,
    dtype: torch.dtype,
) -> torch.Tensor:
    volume = torch.from_numpy(phantom.voxels(grid, dtype=np.float64)).to(device=device, dtype=dtype)
    if motion is not None:
        volume = motion.warp(grid, moving_grid)(volume)
        grid = moving_grid or grid
    projections: torch.Tensor = Projector(grid=grid, acquisition=acquisition)(volume)
    return projections
