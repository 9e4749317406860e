"""Total variation without smoothing, by the primal-dual method of Chambolle and Pock (2011)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from duotomo.errors import DuotomoError
from duotomo.objectives import Objective, ProjectionMisfit, TotalVariation
from duotomo.objectives.objective import Sum, Weighted
from duotomo.operators import Gradient, LinearOperator
from duotomo.operators.counted import Counted
from duotomo.solvers._checks import check_data_term, start_or_none
from duotomo.solvers._progress import Progress
from duotomo.solvers.history import OnStep
from duotomo.solvers.iterate import Iterate, IterateStore
from duotomo.solvers.solution import Solution, Status, Step
from duotomo.solvers.solver import Solver

_WHERE = "PrimalDual.minimise"

BALANCE = 0.25
"""Share of the differences in the inverse step of a voxel, relative to that of the rays through a mean voxel.

Of breasts at 4 mm voxels and of a scan at 1.6 mm, 0.2 to 0.4 took the fewest steps, 0.1 and 1 some more. It
is 0.01 and less if both count as they are: then 300 steps are too few."""

_TENSORS = ("x", "image", "p", "back", "q_z", "q_y", "q_x")
"""Names of what an iterate consists of."""


@dataclass(frozen=True, kw_only=True)
class PrimalDual(Solver[Objective]):
    """Minimise `1/2 sum w (A x - b)^2 + c * sum |D x|` over `x >= 0`, |D x| per voxel.

    The objective is `misfit + c * TotalVariation(grid)`, without smoothing; D is its `Gradient`. With
    y = (p, q), the duals of the misfit and of the variation, K = (A, D), and diagonal step sizes T and S
    (Pock and Chambolle, 2011),

        x <- max(0, x - T K^T y),    y <- prox(y + S K (2 x - x_before)).

    The entries of A may not be negative: then `A 1` and `A^T 1` give the step sizes. Whichever of the primal
    and the dual residual is larger gets longer steps (Goldstein et al., 2013). The objective need not fall in
    every step. In the history, gradient_norm is the larger of the two residuals, relative to the gradient
    at zero and to the data, and 1 at the start; step_size is the mean of T.

    Parameters
    ----------
    n_steps : int
        Steps, at most, two applications each.
    tolerance : float
        Converged once gradient_norm is as small.

    Examples
    --------
    >>> PrimalDual(n_steps=200)
    PrimalDual(n_steps=200, tolerance=0.0001)
    """

    tolerance: float = 1e-4

    @torch.no_grad()
    def minimise(
        self,
        objective: Objective,
        start: torch.Tensor | None = None,
        *,
        on_step: OnStep | None = None,
        store: IterateStore | None = None,
    ) -> Solution:
        """Minimise misfit and total variation over `x >= 0`, from zero if no start is given.

        Parameters
        ----------
        objective : Objective
            `misfit + c * TotalVariation(grid)`, a `ProjectionMisfit` and an unsmoothed total variation.
        start : torch.Tensor, optional
            Initial guess, (z, y, x) in 1/mm; left as it is.
        on_step : callable, optional
            Called with each `Step`.
        store : IterateStore, optional
            Keeps iterates; a run goes on from the one there.

        Returns
        -------
        Solution
            Its value is the volume, (z, y, x) in 1/mm.
        """
        misfit, tv_weight, differences = _parts(objective)
        guess = start_or_none(_WHERE, start, misfit)
        counted, data, weights = misfit.operator, misfit.data, misfit.weights
        kept = None if store is None else store.load()
        progress = self._progress(counted, on_step)
        w = torch.ones_like(data) if weights is None else weights
        steps = _Steps(counted, data, w, differences)
        gradient_at_zero = counted.adjoint(w * data)
        if kept is not None:
            # What had to be computed once more is not counted again.
            progress = self._progress(counted, on_step, kept.history)
            _check_kept(kept, counted.domain, tuple(data.shape))
            steps.ratio, steps.pace = kept.numbers
            x, image, p, back, *parts = (kept.tensors[name] for name in _TENSORS)
            q = tuple(parts)
        elif guess is None:
            x, image = data.new_zeros(counted.domain), torch.zeros_like(data)
        else:
            x = guess.clamp_min_(0)
            image = counted(x)
        if kept is None:
            # At a solution p = w (A x - b).
            p = w * (image - data)
            q = tuple(torch.zeros_like(x) for _ in x.shape)
            back = -gradient_at_zero if guess is None else counted.adjoint(p)
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
            # Kept without the weights of the differences, as q / s: D^T q is then `weighted_transpose`.
            q_new = differences.unweighted(x_new + moved)
            for part, before in zip(q_new, q, strict=True):
                part.mul_(sigma_q).add_(before)
            shrink = tv_weight / differences.lengths(q_new).clamp_min_(max(tv_weight, 1e-30))
            for part in q_new:
                part *= shrink
            back_new = counted.adjoint(p_new).add_(differences.weighted_transpose(q_new))
            # What is missing from -K^T y in dG(x), and from K x in dF*(y), at the new x and y.
            primal = _size(moved / tau + (back - back_new), tau)
            dual = math.hypot(
                _size((p - p_new).div_(sigma).add_(seen), sigma),
                _size_of_parts(q, q_new, differences.unweighted(moved), sigma_q, differences),
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
            if store is not None and progress.steps[-1].number % store.every == 0:
                tensors = dict(zip(_TENSORS, (x, image, p, back, *q), strict=True))
                numbers = steps.ratio, steps.pace
                store.save(Iterate(tensors=tensors, numbers=numbers, history=progress.steps))
        return progress.out_of_steps(x)

    def _progress(self, counted: Counted, on_step: OnStep | None, earlier: tuple[Step, ...] = ()) -> Progress:
        return Progress(
            n_steps=self.n_steps,
            applications=lambda: counted.applications,
            on_step=on_step,
            earlier=earlier,
        )


class _Steps:
    """The diagonal step sizes, and the ratio between dual and primal ones."""

    def __init__(
        self, operator: LinearOperator, data: torch.Tensor, weights: torch.Tensor, differences: Gradient
    ) -> None:
        scales = [math.sqrt(scale_sq) for scale_sq in differences.scales_sq]
        rows = operator(data.new_ones(operator.domain))
        columns = operator.adjoint(torch.ones_like(data))
        # Every voxel takes part in two differences along each axis, and every difference has two voxels. The
        # bound holds for (A, b D) with any b, whose dual is q / b. Rays are long beside a difference: with
        # b = 1, q would be left far behind p.
        share = max(2 * sum(scales), BALANCE * float(columns.mean(dtype=torch.float64)))
        self._tau = (columns + share).reciprocal_()
        self._sigma = torch.where(rows > 0, rows, rows.max()).clamp_min_(1e-30).reciprocal_()
        self._sigma_q = share / (2 * sum(scales)) / (2 * max(scales))
        # The first step is then about as long as one of SIRT, whatever the weights.
        self.ratio = float((weights * rows).mean(dtype=torch.float64)) or 1.0
        self.pace = 0.5

    def now(self) -> tuple[torch.Tensor, torch.Tensor, float]:
        """Return T, the steps of p and that of q."""
        return self._tau / self.ratio, self._sigma * self.ratio, self._sigma_q * self.ratio

    def balance(self, primal: float, dual: float) -> None:
        """Lengthen the steps on the side of the larger residual; less and less, so that they settle."""
        if primal > 1.5 * dual:
            self.ratio *= 1 - self.pace
        elif dual > 1.5 * primal:
            self.ratio /= 1 - self.pace
        else:
            return
        # Not slower: residuals lag behind the steps; late changes threw runs back that had nearly converged.
        self.pace *= 0.85


def _check_kept(kept: Iterate, domain: tuple[int, ...], codomain: tuple[int, ...]) -> None:
    """Raise unless an iterate, whoever kept it, can be one of this problem."""
    expected = {name: codomain if name in ("image", "p") else domain for name in _TENSORS}
    found = {name: tuple(tensor.shape) for name, tensor in kept.tensors.items()}
    if found != expected:
        raise _unfit(f"tensors of the shapes {expected}", str(found)[:400])
    if len(kept.numbers) != 2 or not kept.history:
        came = f"{len(kept.numbers)} numbers and {len(kept.history)} steps"
        raise _unfit("two numbers, and the steps so far", came)
    sizes = *kept.numbers, *(float(tensor.abs().sum()) for tensor in kept.tensors.values())
    if min(kept.numbers) <= 0 or not all(map(math.isfinite, sizes)):
        raise _unfit("step sizes above 0, and finite tensors", f"step sizes {kept.numbers}, or NaN elsewhere")


def _unfit(expected: str, got: str) -> DuotomoError:
    return DuotomoError(
        f"{_WHERE}: expected {expected} in the checkpoint; got {got}. It is not of this run: remove it to "
        f"begin anew."
    )


def _parts(objective: Objective) -> tuple[ProjectionMisfit, float, Gradient]:
    """Return the data term, the weight of total variation, and its differences."""
    terms = objective.terms if isinstance(objective, Sum) else (objective,)
    # Whichever way round they were added.
    first, *others = sorted(terms, key=lambda term: not isinstance(term, ProjectionMisfit))
    wanted = "Pass misfit + c * TotalVariation(grid), with c = 0 for x >= 0 alone."
    if len(others) != 1:
        raise DuotomoError(
            f"{_WHERE}: expected the sum of a misfit and a total variation; got {objective!r} of "
            f"{len(terms)} terms. {wanted}"
        )
    misfit, prior, weight = check_data_term(_WHERE, first, wanted), others[0], 1.0
    while isinstance(prior, Weighted):
        weight, prior = weight * prior.factor, prior.objective
    if not isinstance(prior, TotalVariation) or prior.smoothing > 0:
        smoothing = f", smoothing={prior.smoothing}" if isinstance(prior, TotalVariation) else ""
        raise DuotomoError(
            f"{_WHERE}: expected a TotalVariation without smoothing, which this solver does not need; got "
            f"{prior!r}{smoothing}. {wanted}"
        )
    return misfit, weight, prior.differences


def _objective(
    residual: torch.Tensor, weights: torch.Tensor, x: torch.Tensor, differences: Gradient, tv_weight: float
) -> float:
    misfit = float((weights * residual).mul_(residual).sum(dtype=torch.float64)) / 2
    return misfit + tv_weight * float(differences.lengths(differences.unweighted(x)).sum(dtype=torch.float64))


def _size(tensor: torch.Tensor, step: torch.Tensor) -> float:
    """Return the norm in which primal and dual residuals have one unit."""
    return float(torch.linalg.vector_norm(tensor * step.sqrt(), dtype=torch.float64))


def _size_of_parts(
    before: tuple[torch.Tensor, ...],
    after: tuple[torch.Tensor, ...],
    seen: tuple[torch.Tensor, ...],
    step: float,
    differences: Gradient,
) -> float:
    total = 0.0
    for old, new, part, scale_sq in zip(before, after, seen, differences.scales_sq, strict=True):
        missing = part.add_(old - new, alpha=1 / step)
        total += scale_sq * step * float(torch.linalg.vector_norm(missing, dtype=torch.float64)) ** 2
    return math.sqrt(total)


def _relative(size: float, scale: float) -> float:
    return size / scale if scale > 0 else (math.inf if size > 0 else 0.0)
