"""Total variation without smoothing, by the primal-dual method of Chambolle and Pock (2011)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from duotomo.errors import DuotomoError, ShapeError, check_same, check_tensor
from duotomo.geometry import VolumeGrid
from duotomo.objectives.priors.differences import Differences
from duotomo.operators import Counted, LinearOperator
from duotomo.solvers._checks import check_counts, check_tolerances
from duotomo.solvers._progress import Progress
from duotomo.solvers.history import OnStep
from duotomo.solvers.solution import Solution, Status

_WHERE = "PrimalDual.solve"


@dataclass(frozen=True, kw_only=True)
class PrimalDual:
    """Minimise `1/2 sum w (A x - b)^2 + tv_weight * sum |D x|` over `x >= 0`, |D x| per voxel.

    D x are the differences of `objectives.TotalVariation`. With y = (p, q), the duals of the misfit and of
    the variation, K = (A, D), and diagonal steps T and S (Pock and Chambolle, 2011),

        x <- max(0, x - T K^T y),    y <- prox(y + S K (2 x - x_before)).

    The entries of A may not be negative: then `A 1` and `A^T 1` give the steps. Whichever of the primal and
    the dual residual is larger gets longer steps (Goldstein et al., 2013). The objective need not fall in
    every step. In the history, gradient_norm is the larger of the two residuals, relative to the gradient
    at zero and to the data, and 1 at the start; step_size is the mean of T.

    n_steps: at most so many, two applications each. tolerance: converged once gradient_norm is as small.

    >>> PrimalDual(n_steps=200)
    PrimalDual(n_steps=200, tolerance=0.0001)
    """

    n_steps: int
    tolerance: float = 1e-4

    def __post_init__(self) -> None:
        check_counts("PrimalDual", n_steps=self.n_steps)
        check_tolerances("PrimalDual", tolerance=self.tolerance)

    @torch.no_grad()
    def solve(
        self,
        operator: LinearOperator,
        data: torch.Tensor,
        *,
        tv_weight: float,
        grid: VolumeGrid,
        weights: torch.Tensor | None = None,
        depth_weight: float = 1.0,
        start: torch.Tensor | None = None,
        on_step: OnStep | None = None,
    ) -> Solution:
        """Return the `Solution` for `operator` A on `grid` and `data` b, from `start` (zero if not given).

        data, weights: of shape `operator.range`; weights >= 0, ones if not given. start: (z, y, x); left as
        it is. depth_weight: of the differences along z. on_step is called after each step.
        """
        _check(operator, data, tv_weight, grid, weights, start)
        counted = Counted(operator)
        progress = Progress(n_steps=self.n_steps, applications=lambda: counted.applications, on_step=on_step)
        differences = Differences(grid, depth_weight=depth_weight, where=_WHERE)
        w = torch.ones_like(data) if weights is None else weights
        steps = _Steps(counted, data, w, differences)
        gradient_at_zero = counted.adjoint(w * data)
        if start is None:
            x, image = data.new_zeros(operator.domain), torch.zeros_like(data)
        else:
            x = start.clamp_min(0)
            image = counted(x)
        # At a solution p = w (A x - b).
        p = w * (image - data)
        q = tuple(torch.zeros_like(x) for _ in grid.shape)
        back = -gradient_at_zero if start is None else counted.adjoint(p)
        if solution := progress.begin(x, _objective(image - data, w, x, differences, tv_weight), 1.0):
            return solution
        while progress.goes_on:
            tau, sigma, sigma_q = steps.now()
            x_new = torch.addcmul(x, tau, back, value=-1).clamp_min_(0)
            image_new = counted(x_new)
            value = _objective(image_new - data, w, x_new, differences, tv_weight)
            # Before the operator meets what is not finite, which it would refuse.
            if not math.isfinite(value):
                return progress.stop(x, Status.DIVERGED, "The objective is not finite any more.")
            moved, seen = x_new - x, image_new - image
            p_new = torch.addcmul(p, sigma, image_new + seen - data)
            p_new *= w / (w + sigma)
            q_new = differences.of(x_new + moved)
            for part, before in zip(q_new, q, strict=True):
                part.mul_(sigma_q).add_(before)
            shrink = tv_weight / _lengths(q_new, differences).clamp_min_(max(tv_weight, 1e-30))
            for part in q_new:
                part *= shrink
            back_new = counted.adjoint(p_new).add_(differences.transposed(q_new))
            # What is missing from -K^T y in dG(x), and from K x in dF*(y), at the new x and y.
            primal = _size(moved / tau + (back - back_new), tau)
            dual = math.hypot(
                _size((p - p_new).div_(sigma).add_(seen), sigma),
                _size_of_parts(q, q_new, differences.of(moved), sigma_q, differences),
            )
            if not math.isfinite(primal + dual):
                return progress.stop(x, Status.DIVERGED, "The residuals are not finite any more.")
            residual = max(
                _relative(primal, _size(gradient_at_zero, tau)), _relative(dual, _size(data, sigma))
            )
            x, image, p, q, back = x_new, image_new, p_new, q_new, back_new
            progress.record(value, residual, float(tau.mean()))
            if residual <= self.tolerance:
                reason = f"The primal and the dual residual are below {self.tolerance:g} of the data's."
                return progress.stop(x, Status.CONVERGED, reason)
            steps.balance(primal, dual)
        return progress.out_of_steps(x)


class _Steps:
    """The diagonal steps, and the ratio between dual and primal ones."""

    def __init__(
        self, operator: LinearOperator, data: torch.Tensor, weights: torch.Tensor, differences: Differences
    ) -> None:
        scales = [math.sqrt(scale_sq) for scale_sq in differences.scales_sq]
        rows = operator(data.new_ones(operator.domain))
        columns = operator.adjoint(torch.ones_like(data))
        # Every voxel takes part in two differences along each axis, and every difference has two voxels.
        self._tau = (columns + 2 * sum(scales)).reciprocal_()
        self._sigma = torch.where(rows > 0, rows, rows.max()).clamp_min_(1e-30).reciprocal_()
        self._sigma_q = 1 / (2 * max(scales))
        # The first step is then about as long as one of SIRT, whatever the weights.
        self._ratio = float((weights * rows).mean(dtype=torch.float64)) or 1.0
        self._pace = 0.5

    def now(self) -> tuple[torch.Tensor, torch.Tensor, float]:
        """Return T, the steps of p and that of q."""
        return self._tau / self._ratio, self._sigma * self._ratio, self._sigma_q * self._ratio

    def balance(self, primal: float, dual: float) -> None:
        """Lengthen the steps on the side of the larger residual; less and less, so that they settle."""
        if primal > 1.5 * dual:
            self._ratio *= 1 - self._pace
        elif dual > 1.5 * primal:
            self._ratio /= 1 - self._pace
        else:
            return
        self._pace *= 0.95


def _check(
    operator: LinearOperator,
    data: torch.Tensor,
    tv_weight: float,
    grid: VolumeGrid,
    weights: torch.Tensor | None,
    start: torch.Tensor | None,
) -> None:
    if operator.domain != grid.shape:
        raise ShapeError(
            f"{_WHERE}: expected an operator on volumes (z, y, x) = {grid.shape}, the grid's; got "
            f"{operator.domain}. Build it for this grid."
        )
    if not 0 <= tv_weight < math.inf:
        raise DuotomoError(
            f"{_WHERE}: expected tv_weight >= 0 and finite; got {tv_weight}. Zero leaves only x >= 0."
        )
    check_tensor(_WHERE, "data", data, shape=operator.range, axes=operator.range_axes, batch_ok=False)
    for name, tensor, shape, axes in (
        ("weights", weights, operator.range, operator.range_axes),
        ("start", start, operator.domain, operator.domain_axes),
    ):
        if tensor is not None:
            check_tensor(_WHERE, name, tensor, shape=shape, axes=axes, batch_ok=False)
            check_same(_WHERE, name, tensor, device=data.device, dtype=data.dtype)
    if weights is not None and float(weights.min()) < 0:
        raise DuotomoError(
            f"{_WHERE}: expected weights >= 0; got {float(weights.min())}. They are inverse variances."
        )


def _objective(
    residual: torch.Tensor, weights: torch.Tensor, x: torch.Tensor, differences: Differences, tv_weight: float
) -> float:
    misfit = float((weights * residual).mul_(residual).sum(dtype=torch.float64)) / 2
    return misfit + tv_weight * float(_lengths(differences.of(x), differences).sum(dtype=torch.float64))


def _lengths(parts: tuple[torch.Tensor, ...], differences: Differences) -> torch.Tensor:
    # q is kept as q / s, s the weights of the differences: `transposed` then gives D^T q.
    lengths = torch.zeros_like(parts[0])
    for part, scale_sq in zip(parts, differences.scales_sq, strict=True):
        lengths.addcmul_(part, part, value=scale_sq)
    return lengths.sqrt_()


def _size(tensor: torch.Tensor, step: torch.Tensor) -> float:
    """Return the norm in which primal and dual residuals have one unit."""
    return float(torch.linalg.vector_norm(tensor * step.sqrt(), dtype=torch.float64))


def _size_of_parts(
    before: tuple[torch.Tensor, ...],
    after: tuple[torch.Tensor, ...],
    seen: tuple[torch.Tensor, ...],
    step: float,
    differences: Differences,
) -> float:
    total = 0.0
    for old, new, part, scale_sq in zip(before, after, seen, differences.scales_sq, strict=True):
        missing = part.add_(old - new, alpha=1 / step)
        total += scale_sq * step * float(torch.linalg.vector_norm(missing, dtype=torch.float64)) ** 2
    return math.sqrt(total)


def _relative(size: float, scale: float) -> float:
    return size / scale if scale > 0 else (math.inf if size > 0 else 0.0)
