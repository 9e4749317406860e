"""What the algorithms share: lengths of rays, means over rays, misfits, and checks."""

from __future__ import annotations

import torch

from duotomo.errors import DuotomoError, GeometryError
from duotomo.objectives import ProjectionMisfit
from duotomo.operators import LinearOperator, Projector


def ray_lengths(where: str, operator: LinearOperator, like: torch.Tensor) -> torch.Tensor:
    """Return `A 1`: the length in mm of every ray inside the grid, (view, v, u), as `like` is stored."""
    lengths = operator(torch.ones(operator.domain, dtype=like.dtype, device=like.device))
    check_seen(where, lengths)
    return lengths


def check_seen(where: str, sums: torch.Tensor) -> None:
    """Raise unless some sum of ray lengths is positive: unless a ray meets the grid."""
    if not bool((sums > 0).any()):
        raise GeometryError(
            f"{where}: expected the grid's footprint on the detector; got no ray that meets the grid. "
            f"Check the grid's center_mm against the acquisition."
        )


def quotient(over: torch.Tensor, under: torch.Tensor) -> torch.Tensor:
    """Return `over / under`, and zero where `under` is not positive."""
    return torch.where(under > 0, over / under, torch.zeros((), dtype=over.dtype, device=over.device))


def half_square(residual: torch.Tensor, weights: torch.Tensor | None) -> float:
    """Return `1/2 sum of w r^2`, accumulated in double."""
    square = residual * residual
    if weights is not None:
        square *= weights
    return 0.5 * float(square.sum(dtype=torch.float64))


def projector_of(where: str, misfit: ProjectionMisfit) -> Projector:
    """Return the projector of a misfit; raise if it has another operator, which has no views."""
    operator = misfit.operator.operator
    if not isinstance(operator, Projector):
        raise DuotomoError(
            f"{where}: expected the misfit of a Projector, whose views it looks at; got {operator!r}. "
            f"Pass ProjectionMisfit(Projector(grid, acquisition), projections)."
        )
    return operator


def check_steps(where: str, name: str, count: int) -> None:
    """Raise unless there is at least one step."""
    if count < 1:
        raise DuotomoError(f"{where}: expected {name} >= 1; got {count}. Allow at least one.")


def refuse_start(where: str, start: torch.Tensor | None) -> None:
    """Raise if a direct method is given a start."""
    if start is not None:
        raise DuotomoError(
            f"{where}: expected no start; got one. A direct method has no use for it: leave it out, or "
            f"choose an iterative algorithm."
        )
