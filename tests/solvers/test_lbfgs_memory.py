"""What L-BFGS remembers gives the directions of the textbook's two-loop recursion on vectors."""

from __future__ import annotations

import pytest
import torch

from duotomo.solvers._lbfgs_memory import Memory

N, SIZE = 37, 4

Pair = tuple[torch.Tensor, torch.Tensor]


def definite(seed: int) -> torch.Tensor:
    """Return a symmetric, positive definite matrix."""
    drawn = torch.randn(N, N, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return drawn @ drawn.T / N + 0.1 * torch.eye(N, dtype=torch.float64)


def by_recursion(pairs: list[Pair], gradient: torch.Tensor, preconditioner: torch.Tensor) -> torch.Tensor:
    """Return `-B g` by algorithm 7.4 of Nocedal and Wright; pairs: (s, y), oldest first."""
    vector, shares = gradient.clone(), []
    for s, y in reversed(pairs):
        shares.append((s @ vector) / (s @ y))
        vector = vector - shares[-1] * y
    scale = 1.0
    if pairs:
        s, y = pairs[-1]
        scale = float((s @ y) / (y @ preconditioner @ y))
    vector = scale * (preconditioner @ vector)
    for (s, y), share in zip(pairs, reversed(shares), strict=True):
        vector = vector + s * (share - (y @ vector) / (s @ y))
    return -vector


@pytest.mark.parametrize("preconditioned", [False, True])
def test_directions_are_those_of_the_recursion(preconditioned: bool) -> None:
    hessian = definite(0)
    preconditioner = definite(1) if preconditioned else torch.eye(N, dtype=torch.float64)
    x = torch.randn(N, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    gradient = hessian @ x
    memory = Memory(SIZE, gradient, (lambda one: preconditioner @ one) if preconditioned else None)
    pairs: list[Pair] = []
    for number in range(20):
        direction = memory.descent().clone()
        expected = by_recursion(pairs, gradient, preconditioner)
        torch.testing.assert_close(direction, expected, rtol=1e-10, atol=1e-12)
        assert memory.n_pairs == len(pairs)
        if number == 12:
            # As after a search that met no lower point: the next direction is the steepest one.
            memory.clear()
            pairs = []
            continue
        step = 0.1 + 0.05 * number
        x = x + step * direction
        # Now and then the slope grows along the step, as where an objective is not convex.
        changed = (-0.5 if number in (6, 7, 15) else 1.0) * (hessian @ (step * direction))
        gradient = gradient + changed
        assert memory.add(step, changed.clone(), gradient) == pytest.approx(float(gradient.norm()))
        if float(direction @ changed) > 0:
            pairs = [*pairs, (step * direction, changed)][-SIZE:]
            assert memory.last_length == pytest.approx(step * float(direction.norm()))
