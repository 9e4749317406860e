"""Conjugate gradients for many right-hand sides solve each of them."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from duotomo.solvers.batched_cg import solve_batch

SEEDS = st.integers(0, 10_000)


def drawn(seed: int, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a positive definite matrix and right-hand sides, of which the second is zero."""
    generator = torch.Generator().manual_seed(seed)
    root = torch.randn(n, n, dtype=torch.float64, generator=generator)
    right = torch.randn(4, n, dtype=torch.float64, generator=generator)
    right[1] = 0
    return root @ root.T + 0.5 * torch.eye(n, dtype=torch.float64), right


@given(seed=SEEDS, n=st.integers(1, 9))
def test_as_a_direct_solver(seed: int, n: int) -> None:
    matrix, right = drawn(seed, n)
    scale = matrix.diagonal()
    found = solve_batch(
        lambda rows: rows @ matrix,
        right,
        precondition=lambda rows: rows / scale,
        n_steps=200,
        tolerance=1e-12,
    )
    torch.testing.assert_close(found, torch.linalg.solve(matrix, right.T).T, rtol=1e-8, atol=1e-9)
    assert not found[1].any()


@given(seed=SEEDS)
def test_each_solve_is_as_if_it_were_alone(seed: int) -> None:
    matrix, right = drawn(seed, 8)

    def solved(rows: torch.Tensor) -> torch.Tensor:
        return solve_batch(
            lambda some: some @ matrix, rows, precondition=torch.clone, n_steps=4, tolerance=0.0
        )

    alone = torch.cat([solved(row[None]) for row in right])
    torch.testing.assert_close(solved(right), alone, rtol=1e-9, atol=1e-12)


def test_the_tolerance_ends_it_and_so_do_the_steps() -> None:
    matrix, right = drawn(0, 9)
    calls = []

    def product(rows: torch.Tensor) -> torch.Tensor:
        calls.append(len(rows))
        return rows @ matrix

    solve_batch(product, right, precondition=torch.clone, n_steps=3, tolerance=0.0)
    assert len(calls) == 3
    calls.clear()
    solve_batch(product, right, precondition=torch.clone, n_steps=50, tolerance=0.5)
    assert 0 < len(calls) < 9
