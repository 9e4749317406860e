"""How far errors of a motion reach with which probability, in units of their covariance."""

from __future__ import annotations

import torch

from duotomo.errors import DuotomoError

FREEDOM = 5.0
"""Degrees of freedom: blocks of residuals estimate variances, and some breasts are worse than others.

Fitted on development women, as the scales of `uncertainty_of` are."""


def quantile(level: float) -> float:
    """Return the squared radius, in units of the covariance, that holds a share of three-dimensional errors.

    They are taken to follow Student's distribution, whose covariance is that which is given: its tails are
    heavier than a normal distribution's, because variances are estimated too.
    """
    if not 0 < level < 1:
        raise DuotomoError(f"ellipsoids: expected a level between 0 and 1; got {level}. Use 0.68 or 0.95.")
    from scipy.stats import f as f_distribution  # Takes longer to import than all else.

    return float(3 * f_distribution.ppf(level, 3, FREEDOM)) * (FREEDOM - 2) / FREEDOM


def level_within(squared: torch.Tensor) -> torch.Tensor:
    """Return the levels whose `quantile` squared radii are, in units of the covariance.

    >>> level_within(torch.tensor([0.0, quantile(0.9)]))
    tensor([0.0000, 0.9000], dtype=torch.float64)
    """
    from scipy.stats import f as f_distribution

    scaled = squared.double().numpy() / 3 * FREEDOM / (FREEDOM - 2)
    return torch.from_numpy(f_distribution.cdf(scaled, 3, FREEDOM))
