"""What noise does to a motion by the Hessian: its covariance, and draws solved for to their very end."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from duotomo.methods.blocks import Block
from duotomo.methods.bootstrap import Redrawn
from duotomo.objectives import Objective
from duotomo.solvers import Status
from duotomo.solvers.batched_cg import solve_batch

STEP = 1e-4
"""Of central differences of the gradient: parameters are in voxels; in the volume it is nearly linear."""

TOLERANCE, N_STEPS = 1e-8, 2000
"""Of the solves for the volume."""

LEFT, MOST_STEPS = 1e-9, 100
"""What the last step may lower the objective by, in which a deviation of the noise is 1/2; steps at most."""


def rows_of_hessian(objective: Objective, x: torch.Tensor, first: int = 0) -> torch.Tensor:
    """Return the rows of the Hessian from one on, (row, element)."""
    rows = []
    for i in range(first, len(x)):
        step = torch.zeros_like(x)
        step[i] = STEP
        after, before = (objective.value_and_gradient(x + sign * step)[1] for sign in (1, -1))
        rows.append((after - before) / (2 * STEP))
    return torch.stack(rows)


def covariance_by_hessian(redrawn: Redrawn, block: Block) -> torch.Tensor:
    """Return the covariance of the parameters at a solution without noise, `(H^-1 M H^-1)_zz`.

    H is the Hessian of the joint objective, second derivatives of residuals included, M the curvature of its
    misfit by Gauss and Newton, which is the covariance of its slope.
    """
    problem, volume = redrawn.drawn(None), block.volume
    objective, _ = problem.of_both(redrawn.base.volume, redrawn.base.params)
    x, n = problem.misfit.join(volume, block.params), volume.numel()
    rows = rows_of_hessian(objective, x, first=n)
    along_volume = problem.of_volume(block.params).curvature(volume)
    change = -solve_batch(
        lambda batch: torch.stack([along_volume(one) for one in batch]),
        rows[:, :n].reshape(-1, *volume.shape),
        precondition=problem.volume_preconditioner(volume, block.params),
        n_steps=N_STEPS,
        tolerance=TOLERANCE,
    ).flatten(1)
    curvature = rows[:, n:] + rows[:, :n] @ change.T
    directions = torch.cat([change, torch.eye(len(rows), dtype=x.dtype)], dim=1)
    product = problem.misfit.curvature(x)
    slopes = directions @ torch.stack([product(one) for one in directions]).T
    inverse = torch.linalg.inv((curvature + curvature.T) / 2)
    covariance: torch.Tensor = inverse @ slopes @ inverse
    return covariance


@dataclass(frozen=True, kw_only=True, eq=False)
class NewtonDraws:
    """Draws of a case so small that its Hessian is a matrix; that without noise serves all.

    Parameters
    ----------
    redrawn : Redrawn
        The result that noise is drawn from.
    still : torch.Tensor
        Volume and parameters of the solution without noise, (element,).
    factor : torch.Tensor
        Of Cholesky, of the Hessian there.
    """

    redrawn: Redrawn = field(repr=False)
    still: torch.Tensor = field(repr=False)
    factor: torch.Tensor = field(repr=False)

    @classmethod
    def of(cls, redrawn: Redrawn) -> NewtonDraws:
        """Return the draws of a result."""
        block, problem = redrawn.solved(None), redrawn.drawn(None)
        x = problem.misfit.join(block.volume, block.params)
        hessian = rows_of_hessian(problem.of_both(redrawn.base.volume, redrawn.base.params)[0], x)
        factor = torch.linalg.cholesky((hessian + hessian.T) / 2)
        return cls(redrawn=redrawn, still=x, factor=factor)

    def covariance(self) -> torch.Tensor:
        """Return the covariance of the parameters at the solution without noise, by dense matrices."""
        product = self.redrawn.drawn(None).misfit.curvature(self.still)
        slopes = torch.stack([product(unit) for unit in torch.eye(len(self.still), dtype=self.still.dtype)])
        answered = torch.cholesky_solve(slopes, self.factor)
        n = self.redrawn.base.volume.numel()
        covariance: torch.Tensor = torch.cholesky_solve(answered.T, self.factor)[n:, n:]
        return (covariance + covariance.T) / 2

    def solved(self, seed: int | None) -> Block:
        """Return volume and motions that the noise of a seed leads to; none adds no noise."""
        problem, x = self.redrawn.drawn(seed), self.still
        objective, _ = problem.of_both(self.redrawn.base.volume, self.redrawn.base.params)
        status, reason = Status.STEP_LIMIT, f"The limit of {MOST_STEPS} steps was reached."
        for _ in range(MOST_STEPS):
            value, gradient = objective.value_and_gradient(x)
            step = torch.cholesky_solve(gradient[:, None], self.factor)[:, 0]
            x = x - step
            if float(gradient @ step) < LEFT:
                status, reason = Status.CONVERGED, "A step had nothing left to gain."
                break
        volume, params = problem.misfit.split(x)
        return Block(
            volume=volume.clone(), params=tuple(params), status=status, reason=reason, objective=value
        )
