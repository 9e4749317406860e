"""Rows of steps and of changes, by PyTorch."""

from __future__ import annotations

import torch


def products(
    moved: torch.Tensor, changed: torch.Tensor, one: torch.Tensor, other: torch.Tensor
) -> torch.Tensor:
    """Return `s_i . a`, `r_i . a`, `s_i . b` and `r_i . b`, (4, row), float64.

    moved, changed: the rows s and r, (row, element). one, other: a and b, (element,).
    """
    rows = [pairs @ vector for vector in (one, other) for pairs in (moved, changed)]
    return torch.stack(rows).double()


def combine(
    base: torch.Tensor,
    moved: torch.Tensor,
    changed: torch.Tensor,
    along: torch.Tensor,
    scale: float,
    total: torch.Tensor,
) -> None:
    """Write `-scale (base + sum of c_i r_i) + sum of d_i s_i` to `total`, (element,).

    along: c and d, (2, row), float64. `total` may be a row of `moved` whose d is zero.
    """
    c, d = along.to(base)
    total.copy_(torch.addmv(base, changed.T, c).mul_(-scale).addmv_(moved.T, d))
