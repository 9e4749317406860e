"""What the solvers share: checks of settings and starts, and inner products."""

from __future__ import annotations

import math

import torch

from duotomo.errors import DuotomoError, check_same, check_tensor
from duotomo.objectives import ProjectionMisfit


def check_counts(where: str, **counts: int) -> None:
    """Raise unless every count is at least one."""
    for name, count in counts.items():
        if count < 1:
            raise DuotomoError(f"{where}: expected {name} >= 1; got {count}. Allow at least one.")


def check_tolerances(where: str, **tolerances: float) -> None:
    """Raise unless every tolerance is finite and not negative."""
    for name, tolerance in tolerances.items():
        if not 0 <= tolerance < math.inf:
            raise DuotomoError(
                f"{where}: expected {name} >= 0 and finite; got {tolerance}. Zero turns it off."
            )


def check_first_step(where: str, first_step: float) -> None:
    """Raise unless the length of the first trial is positive and finite."""
    if not 0 < first_step < math.inf:
        raise DuotomoError(
            f"{where}: expected first_step > 0 and finite; got {first_step}. "
            f"Use about the distance that x has to go."
        )


def check_start(
    where: str, start: torch.Tensor, shape: tuple[int, ...], axes: tuple[str, ...] | None = None
) -> torch.Tensor:
    """Return a contiguous copy of the start, without history; raise if it does not fit the objective."""
    axes = axes or tuple(f"axis {i}" for i in range(len(shape)))
    check_tensor(where, "start", start, shape=shape, axes=axes, batch_ok=False)
    return start.detach().clone(memory_format=torch.contiguous_format)


def check_data_term(where: str, objective: object, instead: str) -> ProjectionMisfit:
    """Return the objective; raise unless it is the misfit of projections. instead: what to do otherwise."""
    if not isinstance(objective, ProjectionMisfit):
        raise DuotomoError(f"{where}: expected a ProjectionMisfit; got {objective!r}. {instead}")
    return objective


def start_or_none(where: str, start: torch.Tensor | None, misfit: ProjectionMisfit) -> torch.Tensor | None:
    """Return a copy of the start, if there is one; raise unless it is such as the data are."""
    if start is None:
        return None
    x = check_start(where, start, misfit.shape, misfit.axes)
    check_same(where, "start", x, device=misfit.data.device, dtype=misfit.data.dtype)
    return x


def norm(tensor: torch.Tensor) -> float:
    """Return the Euclidean norm, accumulated in double: it decides when to stop."""
    return float(torch.linalg.vector_norm(tensor, dtype=torch.float64))


def dot(one: torch.Tensor, other: torch.Tensor) -> float:
    """Return the inner product of two tensors of one shape."""
    return float(torch.dot(one.reshape(-1), other.reshape(-1)))


def rounding(x: torch.Tensor) -> float:
    """Return the relative change of an objective of `x` that may be rounding."""
    return 10 * torch.finfo(x.dtype).eps
