"""Blocks of steps: the pieces of a run between two checkpoints."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch

from duotomo.methods.following import Following
from duotomo.methods.preconditioner import diagonal_estimate
from duotomo.methods.problem import Problem
from duotomo.methods.settings import Alternating, Coupled
from duotomo.objectives import Objective
from duotomo.objectives.embedded import Embedded
from duotomo.solvers import GaussNewton, Lbfgs, LevenbergMarquardt, Solution, Status
from duotomo.solvers.history import OnStep
from duotomo.transforms.transform import FEW_PARAMS

WINDOW = 10
"""Steps over which a decrease of the objective, or a change of the motion, is judged."""

FIRST_STEP = 0.02
"""Length of the first trial step of a block, relative to the norm of the volume."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Block:
    """Volume, (z, y, x) in 1/mm, and parameters of each moving visit after a block; how its solver ended."""

    volume: torch.Tensor = field(repr=False)
    params: tuple[torch.Tensor, ...]
    status: Status
    reason: str
    objective: float


def volume_block(
    problem: Problem,
    volume: torch.Tensor,
    params: Sequence[torch.Tensor],
    *,
    memory: int,
    n_steps: int,
    tolerance: float,
    on_step: OnStep | None,
) -> Block:
    """Update the volume by L-BFGS, for fixed motions; with splines as its basis, preconditioned.

    Of voxels it is the paper's own algorithm, which has no preconditioner.
    """
    solver = Lbfgs(
        n_steps=n_steps, memory=memory, tolerance=tolerance, window=WINDOW, first_step=_first(volume)
    )
    precondition = None if problem.level.basis is None else problem.volume_preconditioner(volume, params)
    solution = solver.minimise(problem.of_volume(params), volume, precondition=precondition, on_step=on_step)
    return _block(solution, solution.value, tuple(params))


def coupled_block(
    problem: Problem,
    volume: torch.Tensor,
    params: Sequence[torch.Tensor],
    *,
    solver: Coupled,
    n_steps: int,
    tolerance: float,
    on_step: OnStep | None,
    settles: float | None = None,
) -> Block:
    """Update volume and motions together, by preconditioned L-BFGS.

    With `settles`, also until the motions change by less, in voxels, within as many steps as the tolerance
    is judged over.
    """
    objective, preconditioner = problem.of_both(volume, params)
    start = problem.misfit.join(volume, params)
    following = None
    if max(map(len, params)) > FEW_PARAMS:
        # With few parameters, the steps that L-BFGS remembers tell how the volume follows.
        objective = following = Following(objective, problem.misfit, start)
    minimiser = Lbfgs(
        n_steps=n_steps, memory=solver.memory, tolerance=tolerance, window=WINDOW, first_step=_first(volume)
    )
    at_rest = None if settles is None else _at_rest(volume.numel(), settles)
    first = start if following is None else torch.zeros_like(start)
    solution = minimiser.minimise(
        objective, first, precondition=preconditioner, at_rest=at_rest, on_step=on_step
    )
    end = solution.value if following is None else following.point(solution.value)
    value, rows = problem.misfit.split(end)
    return _block(solution, value.clone(), tuple(rows))


def alternating_block(
    problem: Problem,
    volume: torch.Tensor,
    params: Sequence[torch.Tensor],
    *,
    solver: Alternating,
    n_steps: int,
    tolerance: float,
    on_step: OnStep | None,
) -> Block:
    """Update volume and motions in turn, the others held fixed, until the volume has made `n_steps` steps.

    The volume by L-BFGS, the motions by the Levenberg-Marquardt method, or by Gauss-Newton if they have many
    parameters. Steps are reported with the objective of both.
    """
    rows = tuple(params)
    sizes = [len(row) for row in rows]
    bending: Sequence[Objective | None] = [None] * len(rows)
    if max(sizes) > FEW_PARAMS:
        diagonals = [diagonal_estimate(problem.misfit, i, volume, rows) for i in range(len(rows))]
        bending = problem.bending(diagonals)
    objective = math.inf
    n_turns = max(1, n_steps // solver.volume_steps)
    status, reason = Status.STEP_LIMIT, f"The limit of {n_turns} turns was reached."
    for _ in range(n_turns):
        bent = sum(prior.value(row) for row, prior in zip(rows, bending, strict=True) if prior is not None)
        block = volume_block(
            problem,
            volume,
            rows,
            memory=solver.memory,
            n_steps=solver.volume_steps,
            tolerance=0.0,
            on_step=_raised(on_step, bent),
        )
        if block.status is Status.DIVERGED:
            return block
        volume, before, objective = block.volume, objective, block.objective
        solution = _motion_steps(problem, volume, rows, bending, solver.motion_steps)
        if solution.status is Status.DIVERGED:
            return _block(solution, volume, rows)
        rows = tuple(row.clone() for row in solution.value.split_with_sizes(sizes))
        # What does not depend on the motion was left out of it.
        note = _raised(on_step, objective + bent - solution.history[0].objective)
        if note is not None:
            for step in solution.history[1:]:
                note(step)
        # As many steps as a turn has volume steps, each within the tolerance.
        if before - objective <= tolerance * solver.volume_steps * abs(objective):
            reason = f"A turn lowered the objective by no more than {tolerance:g} of it per step."
            status = Status.CONVERGED
            break
    return Block(volume=volume, params=rows, status=status, reason=reason, objective=objective)


def _motion_steps(
    problem: Problem,
    volume: torch.Tensor,
    rows: Sequence[torch.Tensor],
    bending: Sequence[Objective | None],
    n_steps: int,
) -> Solution:
    start = torch.cat(list(rows))
    part = problem.misfit.params_part(volume)
    if len(start) <= FEW_PARAMS:
        return LevenbergMarquardt(n_steps=n_steps).minimise(part, start)
    objective: Objective = part
    at = 0
    for row, prior in zip(rows, bending, strict=True):
        if prior is not None:
            objective = objective + Embedded(prior, length=len(start), start=at)
        at += len(row)
    solver = GaussNewton(n_steps=n_steps, inner_steps=10, damping=1e-3)
    return solver.minimise(objective, start)


def _raised(on_step: OnStep | None, by: float) -> OnStep | None:
    """Return a callback that reports a step with its objective increased by a constant."""
    if on_step is None:
        return None
    return lambda step: on_step(replace(step, objective=step.objective + by))


def _at_rest(n_voxels: int, most: float) -> Callable[[torch.Tensor], bool]:
    """Return a test of whether the parameters, in voxels, moved by less than `most` (RMS) in a window."""
    rows: deque[torch.Tensor] = deque(maxlen=WINDOW + 1)

    def at_rest(x: torch.Tensor) -> bool:
        rows.append(x[n_voxels:].to(device="cpu", dtype=torch.float64, copy=True))
        change = (rows[-1] - rows[0]).square().mean().sqrt()
        return len(rows) == rows.maxlen and float(change) < most

    return at_rest


def _first(volume: torch.Tensor) -> float:
    norm = float(torch.linalg.vector_norm(volume, dtype=torch.float64))
    return FIRST_STEP * norm if norm > 0 else 1.0


def _block(solution: Solution, volume: torch.Tensor, params: tuple[torch.Tensor, ...]) -> Block:
    return Block(
        volume=volume,
        params=params,
        status=solution.status,
        reason=solution.reason,
        objective=solution.history[-1].objective,
    )
