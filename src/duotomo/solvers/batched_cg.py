"""Preconditioned conjugate gradients for many right-hand sides at once."""

from __future__ import annotations

from collections.abc import Callable

import torch

Product = Callable[[torch.Tensor], torch.Tensor]


def solve_batch(
    product: Product,
    right: torch.Tensor,
    *,
    precondition: Product,
    n_steps: int,
    tolerance: float,
) -> torch.Tensor:
    """Solve `H y = b` for each b of a batch, from zero.

    Each solve is a recurrence of its own; they share the calls, which on a GPU cost more than the numbers.

    Parameters
    ----------
    product : callable
        `y -> H y`, symmetric and positive semidefinite, on a batch.
    right : torch.Tensor
        b, (batch, ...).
    precondition : callable
        `r -> P r`, near the inverse of H up to a factor, on a batch.
    n_steps : int
        At most.
    tolerance : float
        A solve ends once `r^T P r` has fallen by the square of this; the batch with its last solve.

    Returns
    -------
    torch.Tensor
        y, of the shape of `right`; zero where b is.
    """
    found, residual = torch.zeros_like(right), right.clone()
    preconditioned = precondition(residual)
    search, size = preconditioned.clone(), _dots(residual, preconditioned)
    goal = tolerance**2 * size
    for _ in range(n_steps):
        active = size > goal
        if not bool(active.any()):
            break
        image = product(search)
        bend = _dots(search, image)
        length = torch.where(active & (bend > 0), size / bend, 0.0)
        found += _times(length, search)
        residual -= _times(length, image)
        preconditioned = precondition(residual)
        size, before = torch.where(active, _dots(residual, preconditioned), size), size
        search = preconditioned + _times(torch.where(before > 0, size / before, 0.0), search)
    return found


def _dots(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return (one.flatten(1) * other.flatten(1)).sum(dim=1, dtype=torch.float64)


def _times(factors: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
    return factors.to(batch).view(-1, *(1,) * (batch.ndim - 1)) * batch
