"""How `duotomo joint` estimates: the method that was chosen, its settings, and its run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duotomo.cli._common import Device, Talk
    from duotomo.cli._outputs import Format
    from duotomo.io import CheckpointFile
    from duotomo.methods import Result, Settings, Study


class Method(Enum):
    """How reconstruction and registration go together."""

    SIMULTANEOUS = "simultaneous"
    ITERATIVE = "iterative"
    SEQUENTIAL = "sequential"


class Solver(Enum):
    """How volume and motion step."""

    COUPLED = "coupled"
    ALTERNATING = "alternating"


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What was asked for on the command line, beside the scans."""

    method: Method
    transform: str
    solver: Solver | None
    plain: bool
    steps: int | None
    total_variation: float | None
    bending: float | None
    formats: tuple[Format, ...]
    device: Device
    resume: bool
    max_memory: float | None


def settings_of(where: str, study: Study, choice: Choice) -> Settings:
    """Return the settings of the method, as they were asked for."""
    from duotomo.errors import DuotomoError
    from duotomo.methods import Alternating, Coupled, Model, Priors, Settings

    model = Model.parse(choice.transform)
    if choice.plain:
        changed = (choice.solver is Solver.COUPLED, choice.total_variation, choice.bending)
        if any(changed):
            raise DuotomoError(
                f"{where}: expected --plain alone, for the plain algorithm alternates and has no priors; got "
                f"--solver coupled, --total-variation or --bending too. Leave them out."
            )
        settings = Settings.plain(model)
    else:
        solver = Alternating() if choice.solver is Solver.ALTERNATING else Coupled()
        given = {"total_variation": choice.total_variation, "bending": choice.bending}
        priors = Priors(**{name: value for name, value in given.items() if value is not None})
        settings = Settings.for_study(study, model, solver=solver, priors=priors)
    if choice.steps is None:
        return settings
    most = choice.steps
    stages = tuple(replace(stage, n_steps=min(most, stage.n_steps)) for stage in settings.stages)
    return replace(settings, stages=stages)


def say_plan(talk: Talk, study: Study, settings: Settings, choice: Choice) -> None:
    """Say what is about to be computed."""
    z, y, x = study.grid.spacing_mm
    talk.progress(f"Volume {study.grid.shape} (z, y, x), voxels of {z:g} x {y:g} x {x:g} mm")
    for number, visit in enumerate(study.visits, start=1):
        role = "reference" if number == 1 else "moving"
        weights = "with" if visit.weights is not None else "without"
        talk.progress(f"Visit {number} ({role}): {visit.acquisition.shape} (view, v, u), {weights} weights")
    kind = "plain" if choice.plain else type(settings.solver).__name__.lower()
    talk.progress(
        f"Method {choice.method.value}, transform {choice.transform}, solver {kind}, on "
        f"{choice.device.value}; {len(settings.stages)} stages"
    )


def solve(talk: Talk, study: Study, settings: Settings, choice: Choice, checkpoint: CheckpointFile) -> Result:
    """Return the method's result, with what each visit shows alone beside it."""
    from duotomo.cli._progress import StageProgress, alone_work, stage_work
    from duotomo.methods.comparison import visits_wanted, with_visits_alone

    with StageProgress(talk.console, stage_work(study, settings)) as progress:
        result = _function(choice.method)(study, settings, on_step=progress.show, checkpoint=checkpoint)
    wanted = visits_wanted(study, result)
    if not wanted:
        return with_visits_alone(study, settings, result)
    with StageProgress(talk.console, alone_work(study, settings, wanted)) as progress:
        return with_visits_alone(study, settings, result, on_step=progress.show)


def _function(method: Method) -> Callable[..., Result]:
    from duotomo.methods import iterative, sequential, simultaneous

    functions: dict[Method, Callable[..., Result]] = {
        Method.SIMULTANEOUS: simultaneous,
        Method.ITERATIVE: iterative,
        Method.SEQUENTIAL: sequential,
    }
    return functions[method]
