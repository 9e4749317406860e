"""How far two rows of numbers rise and fall together."""

from __future__ import annotations

import torch

_EVEN = 1e-10
"""Share of the squares below which what is left of a constant is rounding."""


def correlation(one: torch.Tensor, other: torch.Tensor) -> float:
    """Return Pearson's correlation, from -1 to 1; 0 where a row is even, or there is none.

    >>> round(correlation(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([3.0, 5.0, 9.0])), 6)
    1.0
    >>> correlation(torch.tensor([2.0, 2.0]), torch.tensor([3.0, 5.0]))
    0.0
    """
    if len(one) == 0:
        return 0.0
    one, other = one.double(), other.double()
    first, second = one - one.mean(), other - other.mean()
    norm = float(first.norm() * second.norm())
    if norm <= _EVEN * float(one.square().sum() + other.square().sum()):
        return 0.0
    return float(first @ second) / norm
