"""The volume of one visit, from its projections, behind one call."""

from __future__ import annotations

import torch

from duotomo.errors import DuotomoError, check_same, check_tensor
from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.objectives import ProjectionMisfit
from duotomo.operators import Projector
from duotomo.reconstruct.algorithm import Algorithm
from duotomo.solvers import Solution
from duotomo.solvers.history import OnStep
from duotomo.solvers.iterate import IterateStore

_WHERE = "reconstruct"


def reconstruct(
    projections: torch.Tensor,
    *,
    grid: VolumeGrid,
    acquisition: Acquisition,
    algorithm: Algorithm,
    weights: torch.Tensor | None = None,
    start: torch.Tensor | None = None,
    on_step: OnStep | None = None,
    store: IterateStore | None = None,
) -> Solution:
    """Reconstruct the volume of one visit: f with `A f = p`, as `algorithm` means it.

    Parameters
    ----------
    projections : torch.Tensor
        p, line integrals, (view, v, u), of `acquisition.shape`.
    grid : VolumeGrid
        Where the volume lives.
    acquisition : Acquisition
        How the projections were taken.
    algorithm : Algorithm
        Such as `Sart(n_sweeps=3)`.
    weights : torch.Tensor, optional
        Inverse variance of each ray, (view, v, u); zero leaves a ray out.
    start : torch.Tensor, optional
        Initial guess, (z, y, x) in 1/mm, for algorithms that iterate.
    on_step : callable, optional
        Called with each `Step`.
    store : IterateStore, optional
        Keeps iterates, from which a run that was killed goes on: those of `TvLeastSquares`. The other
        algorithms take few steps, and start anew.

    Returns
    -------
    Solution
        Its value is the volume, (z, y, x) in 1/mm, of the precision and on the device of the projections.

    Raises
    ------
    ShapeError, DtypeError, DeviceError, NonFiniteError
        If the tensors do not fit the geometry or each other.
    DuotomoError
        If there is nothing in the beam, a weight is negative, or all are zero.

    Examples
    --------
    >>> from duotomo.geometry import paper
    >>> from duotomo.phantoms import Ellipsoid
    >>> from duotomo.reconstruct import Sart
    >>> from duotomo.simulate import scan
    >>> grid, machine = VolumeGrid.on_detector((8, 8, 8), (4.0, 4.0, 4.0)), paper().bin(4)
    >>> ball = Ellipsoid(center_mm=(0.0, 16.0, 16.0), radii_mm=(12.0, 12.0, 12.0), value=0.05)
    >>> projections = scan(ball, grid, machine, generator=torch.Generator().manual_seed(0))
    >>> solution = reconstruct(projections, grid=grid, acquisition=machine, algorithm=Sart(n_sweeps=2))
    >>> solution.value.shape, bool(solution.value[4, 4, 4] > 0.03)
    (torch.Size([8, 8, 8]), True)
    """
    axes = ("view", "v", "u")
    check_tensor(_WHERE, "projections", projections, shape=acquisition.shape, axes=axes, batch_ok=False)
    if not bool(projections.any()):
        raise DuotomoError(
            f"{_WHERE}: expected projections of an object; got zeros only: nothing in the beam. "
            f"Check the file, and that line integrals, not counts, were passed."
        )
    device, dtype = projections.device, projections.dtype
    if weights is not None:
        check_tensor(_WHERE, "weights", weights, shape=acquisition.shape, axes=axes, batch_ok=False)
        check_same(_WHERE, "weights", weights, device=device, dtype=dtype)
        if bool((weights < 0).any()) or not bool((weights > 0).any()):
            raise DuotomoError(
                f"{_WHERE}: expected weights >= 0, some of them positive; got values from "
                f"{float(weights.min()):.6g} to {float(weights.max()):.6g}. Pass inverse variances; zero "
                f"leaves a ray out."
            )
    if start is not None:
        check_tensor(_WHERE, "start", start, shape=grid.shape, axes=("z", "y", "x"), batch_ok=False)
        check_same(_WHERE, "start", start, device=device, dtype=dtype)
    misfit = ProjectionMisfit(Projector(grid, acquisition), projections, weights)
    return algorithm.run(misfit, start, on_step, store)
