"""Preconditioned conjugate gradients for a damped Newton step."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from duotomo.solvers._checks import dot

Product = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True, kw_only=True)
class NewtonStep:
    """A direction d, and `decrease = m(0) - m(d)` by the model `m(d) = g.d + d.H d / 2`."""

    direction: torch.Tensor
    decrease: float


def newton_step(
    gradient: torch.Tensor,
    curvature: Product,
    *,
    precondition: Product | None,
    damping: float,
    n_steps: int,
    tolerance: float,
) -> NewtonStep | None:
    """Solve `(H + mu M) d = -g` from zero; return None if not even one step can be made.

    precondition: `r -> M^-1 r`, an approximation of `H^-1`; without it M is the identity. damping: mu, in
    units of `p.H p / p.M p`, `p = -M^-1 g`. Stops once `|r|_{M^-1}` has fallen by `tolerance`, after
    `n_steps`, or where the curvature is not positive.
    """
    residual = -gradient
    preconditioned = residual if precondition is None else precondition(residual)
    gamma = dot(residual, preconditioned)
    direction, search = torch.zeros_like(residual), preconditioned.clone()
    # M p follows p by p's own recurrence, z replaced by M z = r, so M itself is never applied.
    m_search = residual.clone() if precondition is not None and damping > 0 else search
    goal, decrease, mu = tolerance**2 * gamma, 0.0, 0.0
    # |d|_M^2, <d, p>_M and |p|_M^2, by recurrence (Conn, Gould and Toint, Trust-Region Methods, 7.5.1).
    direction_sq, product, search_sq = 0.0, 0.0, gamma
    for k in range(n_steps):
        if not goal < gamma < math.inf:
            break
        image = curvature(search)
        bend = dot(search, image)
        if k == 0:
            mu = damping * bend / search_sq
        bend += mu * search_sq
        if not 0 < bend < math.inf:
            break
        if mu > 0:
            image.add_(m_search, alpha=mu)
        alpha = gamma / bend
        direction.add_(search, alpha=alpha)
        residual.sub_(image, alpha=alpha)
        decrease += alpha * gamma / 2
        direction_sq += 2 * alpha * product + alpha**2 * search_sq
        product += alpha * search_sq
        if k + 1 == n_steps:
            break
        if precondition is not None:
            preconditioned = precondition(residual)
        gamma, gamma_before = dot(residual, preconditioned), gamma
        beta = gamma / gamma_before
        search.mul_(beta).add_(preconditioned)
        if m_search is not search:
            m_search.mul_(beta).add_(residual)
        product *= beta
        search_sq = gamma + beta**2 * search_sq
    # The damped model fell by the sum of alpha gamma / 2; the undamped one also by what damping cost.
    return (
        NewtonStep(direction=direction, decrease=decrease + mu * direction_sq / 2) if decrease > 0 else None
    )
