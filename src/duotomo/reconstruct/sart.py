"""The simultaneous algebraic reconstruction technique (Andersen and Kak, 1984)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from duotomo.errors import DuotomoError
from duotomo.objectives import ProjectionMisfit
from duotomo.operators import Projector
from duotomo.operators.counted import Counted
from duotomo.reconstruct._rays import check_steps, half_square, projector_of, quotient, ray_lengths
from duotomo.reconstruct.algorithm import Algorithm
from duotomo.solvers import History, Solution, Status
from duotomo.solvers.history import OnStep
from duotomo.solvers.iterate import IterateStore

GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True, kw_only=True)
class Sart(Algorithm):
    """Correct the volume view by view, each time by the mean error of the rays through a voxel.

    `f <- f + relaxation * A_i^T (w_i (p_i - A_i f) / A_i 1) / A_i^T w_i`, then `max(f, 0)` if nonnegative, i
    over the views. Neighbouring views say nearly the same, so they are visited in an order that jumps by the
    golden ratio. Rays that cross less than half of a voxel's shortest edge are left out: they carry noise
    and little else. One volume per view is kept, the divisors.

    Parameters
    ----------
    n_sweeps : int
        Sweeps through all views.
    relaxation : float
        Above 0, below 2; smaller is slower and less noisy.
    nonnegative : bool
        Whether negative values become zero.

    Raises
    ------
    DuotomoError
        If there are no sweeps, or the relaxation is out of bounds.

    Examples
    --------
    >>> Sart(n_sweeps=3)
    Sart(n_sweeps=3, relaxation=1.0, nonnegative=True)
    """

    n_sweeps: int
    relaxation: float = 1.0
    nonnegative: bool = True

    def __post_init__(self) -> None:
        check_steps("Sart", "n_sweeps", self.n_sweeps)
        if not 0 < self.relaxation < 2:
            raise DuotomoError(
                f"Sart: expected 0 < relaxation < 2; got {self.relaxation}. From 2 on it does not converge."
            )

    @torch.no_grad()
    def run(
        self,
        misfit: ProjectionMisfit,
        start: torch.Tensor | None = None,
        on_step: OnStep | None = None,
        store: IterateStore | None = None,
    ) -> Solution:
        """Sweep through the views, a step for each sweep. Without a start, from zero.

        In the history, objective is `1/2 sum of w (A f - p)^2`, in each view as the sweep found it, before
        its correction, and an application is all views forward or all views back.
        """
        projector, projections, weights = projector_of("Sart", misfit), misfit.data, misfit.weights
        grid, acquisition = projector.grid, projector.acquisition
        whole, views = misfit.operator, [Counted(Projector(grid, one)) for one in acquisition]

        def applications() -> int:
            return whole.applications + sum(view.applications for view in views) // len(views)

        history = History(applications, on_step)
        if start is None:
            volume = torch.zeros(grid.shape, dtype=projections.dtype, device=projections.device)
            residual = projections
        else:
            volume = start.clone()
            residual = torch.cat([view(volume) for view in views]).sub_(projections)
        history.start(objective=half_square(residual, weights))
        lengths = ray_lengths("Sart", whole, projections)
        shares = (lengths > min(grid.spacing_mm) / 2).to(projections)
        if weights is not None:
            shares *= weights
        divisors = [view.adjoint(share[None]) for view, share in zip(views, shares, strict=True)]
        factors = quotient(shares, lengths).mul_(self.relaxation)
        for _ in range(self.n_sweeps):
            value = 0.0
            for i in spread_order(len(views)):
                error = projections[i] - views[i](volume)[0]
                value += half_square(error, None if weights is None else weights[i])
                volume += quotient(views[i].adjoint((error * factors[i])[None]), divisors[i])
                if self.nonnegative:
                    volume.clamp_(min=0)
            history.add(objective=value, step_size=self.relaxation)
        reason = f"All {self.n_sweeps} sweeps were done."
        return history.solution(volume, Status.STEP_LIMIT, reason)


def spread_order(n: int) -> list[int]:
    """Return 0 to n - 1 in an order whose neighbours lie far apart: the ranks of `k * golden ratio mod 1`.

    >>> spread_order(5)
    [0, 3, 1, 4, 2]
    """
    places = [k * GOLDEN % 1 for k in range(n)]
    ranks = {place: rank for rank, place in enumerate(sorted(places))}
    return [ranks[place] for place in places]
