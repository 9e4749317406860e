"""The methods that an experiment compares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from duotomo.geometry import VolumeGrid
from duotomo.methods import (
    Checkpoint,
    Result,
    Settings,
    averaged,
    iterative,
    sequential,
    simultaneous,
    with_known_motion,
)
from duotomo.methods.settings import N_STEPS
from duotomo.objectives import SumOfSquares
from duotomo.reproduction.case import Case
from duotomo.reproduction.plan import DataLevel, Plan
from duotomo.solvers.history import OnStep
from duotomo.transforms import Model
from duotomo.transforms.models import LatticeModel

QUICK_N_STEPS = 120
"""At full resolution, at most, of experiments of reduced size; others have as many as need be."""

UNBROKEN = 200
"""Steps of the iterative method before an update, in stages that have so many."""

N_TURNS, STEPS_OF_TURN, TURN_STIFFNESS = 6, 15, 10.0
"""Turns at the end of the iterative method, the steps of each, and how much stiffer a B-spline is in them."""

Run = Callable[[Case, Settings, OnStep | None, Checkpoint | None], Result]


@dataclass(frozen=True, kw_only=True)
class ComparedMethod:
    """One method with its settings, as an experiment compares it with others.

    Parameters
    ----------
    name : str
        Of its files.
    label : str
        In tables and figures.
    family : str
        Which of the paper's methods it is: "sequential", "iterative", "simultaneous" or "known motion".
    origin : str
        "paper" for its own plain algorithm, "ours" for the staged one with priors.
    settings : Settings
        Of the method.
    run : callable
        Takes the case, the settings, `on_step` and a checkpoint, and returns the `Result`.
    passes : int
        How often the stages are gone through, such as once for each visit, for the time left.
    """

    name: str
    label: str
    family: str
    origin: str
    settings: Settings
    run: Run
    passes: int = 1


def _sequential(
    case: Case,
    settings: Settings,
    on_step: OnStep | None,
    checkpoint: Checkpoint | None,
    **options: Any,
) -> Result:
    return sequential(case.study, settings, on_step=on_step, checkpoint=checkpoint, **options)


def _simultaneous(
    case: Case, settings: Settings, on_step: OnStep | None, checkpoint: Checkpoint | None
) -> Result:
    return simultaneous(case.study, settings, on_step=on_step, checkpoint=checkpoint)


def _known(case: Case, settings: Settings, on_step: OnStep | None, checkpoint: Checkpoint | None) -> Result:
    return with_known_motion(case.study, settings, [case.motion], on_step=on_step, checkpoint=checkpoint)


def _iterative(
    case: Case,
    settings: Settings,
    on_step: OnStep | None,
    checkpoint: Checkpoint | None,
    **options: Any,
) -> Result:
    return iterative(case.study, settings, on_step=on_step, checkpoint=checkpoint, **options)


def staged_methods(
    plan: Plan, grid: VolumeGrid, model: Model, *, suffix: str = ""
) -> tuple[ComparedMethod, ...]:
    """Return our three methods with one model."""
    settings = _staged(plan, grid, model)
    tail = f"-{suffix}" if suffix else ""
    words = f", {suffix}" if suffix else ""

    def ours(family: str, settings: Settings, run: Run, passes: int = 1) -> ComparedMethod:
        return ComparedMethod(
            name=family + tail,
            label=family + words,
            family=family,
            origin="ours",
            settings=settings,
            run=run,
            passes=passes,
        )

    in_turns = partial(_iterative, update=averaged, volume_steps=UNBROKEN)
    return (
        ours("sequential", settings, _sequential, 2),
        ours("iterative", _in_turns(settings), in_turns, 2),
        ours("simultaneous", settings, _simultaneous),
    )


def _staged(plan: Plan, grid: VolumeGrid, model: Model) -> Settings:
    return Settings.staged(grid, model, n_steps=QUICK_N_STEPS if plan.quick else N_STEPS)


def without_iterative(methods: Sequence[ComparedMethod]) -> tuple[ComparedMethod, ...]:
    """Return all methods but the iterative ones: with a B-spline, every update would invert it."""
    return tuple(method for method in methods if method.family != "iterative")


def _in_turns(settings: Settings) -> Settings:
    """Return the settings of the iterative method: short turns once the volumes are there.

    Long turns on one visit's data forget what the other has brought in; short ones from the start never
    converge, since every turn begins its quasi-Newton memory anew.
    """
    # The last stage finishes the volume, and has no model.
    *before, last = settings.stages
    model = before[-1].model
    stiffness = TURN_STIFFNESS if isinstance(model, LatticeModel) else 1.0
    finish = replace(last, n_steps=min(last.n_steps, 2 * UNBROKEN))
    turn = replace(last, model=model, n_steps=STEPS_OF_TURN, stiffness=stiffness)
    return replace(settings, stages=(*before, finish, *(turn,) * N_TURNS))


def compared_methods(
    plan: Plan, grid: VolumeGrid, model: Model, *, with_iterative: bool = False
) -> tuple[ComparedMethod, ...]:
    """Return our methods and the oracle; as published, the paper's own algorithms before them.

    with_iterative: as in `plain_methods`.
    """
    ours = (*staged_methods(plan, grid, model), oracle(plan, grid, model))
    if plan.level is not DataLevel.AS_PUBLISHED:
        return ours
    n_total = 100 if plan.quick else 1000
    return (*plain_methods(model, n_total=n_total, with_iterative=with_iterative), *ours)


def oracle(plan: Plan, grid: VolumeGrid, model: Model) -> ComparedMethod:
    """Return our solver, told the true motion: what the data allow."""
    return ComparedMethod(
        name="known-motion",
        label="known motion",
        family="known motion",
        origin="ours",
        settings=_staged(plan, grid, model),
        run=_known,
    )


def plain_methods(
    model: Model, *, n_total: int, n_volume: int = 5, n_motion: int = 5, with_iterative: bool = False
) -> tuple[ComparedMethod, ...]:
    """Return the paper's own algorithms: no prior, one resolution, zero volume, identity, alternation.

    n_total: steps in all. n_volume, n_motion: steps of a turn. with_iterative: the iterative method too,
    which the paper ran on its first data set only.
    """
    n_turns = n_total // (n_volume + n_motion)
    settings = Settings.plain(model, n_turns=n_turns, volume_steps=n_volume, motion_steps=n_motion)
    if isinstance(model, LatticeModel):
        # Thousands of central differences, one projection each, are beyond anyone's patience.
        settings = replace(settings, central_step=None)

    def plain(family: str, run: Run) -> ComparedMethod:
        name, label = f"plain-{family}", f"{family}, plain"
        return ComparedMethod(
            name=name, label=label, family=family, origin="paper", settings=settings, run=run
        )

    # The paper registers by the sum of squared differences.
    in_turns = partial(_iterative, volume_steps=n_volume, motion_steps=n_motion, misfit=SumOfSquares)
    between = [plain("iterative", in_turns)] if with_iterative else []
    one_by_one = partial(_sequential, misfit=SumOfSquares)
    return plain("sequential", one_by_one), *between, plain("simultaneous", _simultaneous)


def splits(
    plan: Plan, grid: VolumeGrid, model: Model, n_total: int, turns: Sequence[tuple[int, int]]
) -> tuple[ComparedMethod, ...]:
    """Return the paper's alternation with turns of unlike lengths, and our coupled method beside them.

    turns: steps of the volume and of the motion in one turn, `n_total` of both together in each method.
    """
    plain = (
        ComparedMethod(
            name=f"split-{n_volume}-{n_motion}",
            label=f"{n_volume} volume + {n_motion} motion",
            family="simultaneous",
            origin="paper",
            settings=Settings.plain(
                model,
                n_turns=max(1, n_total // (n_volume + n_motion)),
                volume_steps=n_volume,
                motion_steps=n_motion,
            ),
            run=_simultaneous,
        )
        for n_volume, n_motion in turns
    )
    return (*plain, staged_methods(plan, grid, model)[-1])
