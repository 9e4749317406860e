"""`duotomo joint`: the visits of one breast become one volume, and the motion between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from duotomo.cli._change import WhatChanged, check_change, what_changed
from duotomo.cli._options import Computing, Permissions, Scans, Talk
from duotomo.cli._resume import CHECKPOINT, Resume, check_start, keeping
from duotomo.cli._run import DryRun, Run, Saving, grid_words
from duotomo.cli._transform import AUTOMATIC, HELP, is_recompression, parse_control_mm, parse_transform
from duotomo.cli._uncertainty import HowSure, check_asked, how_sure, quality_rows

if TYPE_CHECKING:
    from duotomo.cli._progress import RunProgress
    from duotomo.io import Allowed, CheckpointFile
    from duotomo.io.visits import ScannedStudy
    from duotomo.methods import Result, Settings, Stage, Study

PANEL = "Estimation"


class MethodName(Enum):
    """How reconstruction and registration go together."""

    SIMULTANEOUS = "simultaneous"
    ITERATIVE = "iterative"
    SEQUENTIAL = "sequential"


class SolverName(Enum):
    """How volume and motion step."""

    COUPLED = "coupled"
    ALTERNATING = "alternating"


@dataclass(frozen=True, kw_only=True)
class Estimation:
    """How volume and motion are estimated."""

    method: Annotated[
        MethodName, typer.Option(help="How the two problems go together.", rich_help_panel=PANEL)
    ] = MethodName.SIMULTANEOUS
    transform: Annotated[str, typer.Option(help=HELP, rich_help_panel=PANEL)] = AUTOMATIC
    roll: Annotated[
        float | None,
        typer.Option(
            min=-90,
            max=90,
            help="Degrees by which the breast is turned in the second view, as from CC to MLO: the two scans "
            "are then two views of one breast, and a model of its compressions leads from one to the other. "
            "A positive roll takes the direction towards the tube to that of the tube's travel, x. Read from "
            "DICOM unless given.",
            rich_help_panel=PANEL,
        ),
    ] = None
    solver: Annotated[
        SolverName | None, typer.Option(help="How volume and motion step.", rich_help_panel=PANEL)
    ] = None
    plain: Annotated[
        bool, typer.Option("--plain", help="The paper's algorithm to the letter.", rich_help_panel=PANEL)
    ] = False
    steps: Annotated[
        int | None,
        typer.Option(
            min=1, help="Steps of the last stage, and most steps of the others.", rich_help_panel=PANEL
        ),
    ] = None
    total_variation: Annotated[
        float | None,
        typer.Option(
            min=0, help="Weight of total variation, in units of the noise gradient.", rich_help_panel=PANEL
        ),
    ] = None
    bending: Annotated[
        float | None, typer.Option(min=0, help="Stiffness of a B-spline.", rich_help_panel=PANEL)
    ] = None

    def settings(self, study: ScannedStudy) -> Settings:
        """Return the settings of the method, as they were asked for."""
        from duotomo.errors import DuotomoError
        from duotomo.methods import Alternating, Priors, Settings, two_view_settings
        from duotomo.methods.priors import TWO_VIEW_PRIORS
        from duotomo.methods.settings import AUTOMATIC_MM

        automatic = self.transform == AUTOMATIC
        model = parse_transform("affine" if automatic or self.roll is not None else self.transform)
        if self.plain:
            if self.solver is SolverName.COUPLED or self.total_variation or self.bending:
                raise DuotomoError(
                    "expected --plain alone, for the plain algorithm alternates and has no priors; got "
                    "--solver coupled, --total-variation or --bending too. Leave them out."
                )
            settings = Settings.plain(model)
        else:
            solver = Alternating() if self.solver is SolverName.ALTERNATING else None
            weights = {"total_variation": self.total_variation, "bending": self.bending}
            given = {name: value for name, value in weights.items() if value is not None}
            priors = replace(TWO_VIEW_PRIORS if self.roll is not None else Priors(), **given)
            if self.roll is not None:
                control_mm = AUTOMATIC_MM if automatic else parse_control_mm(self.transform)
                settings = two_view_settings(
                    study,
                    roll_deg=self.roll,
                    plates_mm=study.plates_mm or None,
                    control_mm=control_mm,
                    solver=solver,
                    priors=priors,
                )
            elif automatic:
                settings = Settings.automatic(study, solver=solver, priors=priors)
            else:
                settings = Settings.for_study(study, model, solver=solver, priors=priors)
        if self.steps is None:
            return settings
        stages, stiffer = (_stepping(one, self.steps) for one in (settings.stages, settings.stiffer))
        return replace(settings, stages=stages, stiffer=stiffer)

    def may_be_views(self, n_scans: int, allowed: Allowed, *, change: bool) -> bool:
        """Return whether scans may be two views: where that is asked for, or nothing speaks against it.

        Raise where what is asked for does not suit two views. change: whether visits are to be compared.
        """
        self._check_views()
        plainly = self.transform == AUTOMATIC and self.method is MethodName.SIMULTANEOUS and not self.plain
        otherwise = change or allowed.allow_different_views
        return self._asks_for_views or (plainly and n_scans == 2 and not otherwise)

    def of_scans(self, study: ScannedStudy) -> Estimation:
        """Return the same with the roll that the files of two views say, unless it is given."""
        if not (self._asks_for_views or study.views_differ):
            return self
        return replace(self, roll=study.roll_deg(self.roll))

    @property
    def _asks_for_views(self) -> bool:
        return self.roll is not None or is_recompression(self.transform)

    def _check_views(self) -> None:
        """Raise unless what is asked for suits two views, or two visits."""
        from duotomo.errors import DuotomoError

        if not self._asks_for_views:
            return
        if not (is_recompression(self.transform) or self.transform == AUTOMATIC):
            raise DuotomoError(
                f"expected --transform recompression, or none, with --roll; got {self.transform}. Two views "
                f"are two compressions."
            )
        if self.plain or self.method is not MethodName.SIMULTANEOUS:
            raise DuotomoError(
                "expected --method simultaneous, without --plain, for two views; got another one. Leave it "
                "out."
            )


def _stepping(stages: tuple[Stage, ...], n_steps: int) -> tuple[Stage, ...]:
    """Return stages of which the last has so many steps, and the others no more."""
    return tuple(
        replace(stage, n_steps=n_steps if stage is stages[-1] else min(n_steps, stage.n_steps))
        for stage in stages
    )


def joint(
    context: typer.Context,
    saving: Saving,
    estimation: Estimation,
    scans: Scans,
    allowed: Permissions,
    computing: Computing,
    talk: Talk,
    inputs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="REFERENCE OTHER...",
            help="Scans of the visits, the reference first; or one study (.h5).",
            show_default=False,
        ),
    ] = None,
    resume: Resume = False,
    uncertainty: HowSure = None,
    change: WhatChanged = False,
    dry_run: DryRun = False,
) -> None:
    """Reconstruct one breast from several visits, and find how it moved between them.

    Example: duotomo joint 2023.dcm 2024.dcm --transform bspline:25mm --out result
    """
    from duotomo.change import for_change
    from duotomo.change.memory import change_bytes
    from duotomo.cli._progress import CHECKS, RunProgress, joint_phases
    from duotomo.errors import DuotomoError
    from duotomo.io import CheckpointFile, fingerprint, read_visits
    from duotomo.methods import fused, memory_bytes, quality_of, summaries_of, trust_of, with_tissue_behind
    from duotomo.methods.uncertainty_cost import most_uncertainty_bytes
    from duotomo.solvers import Status

    if not inputs:
        raise DuotomoError("expected scans, or a study; got none. Name them, the reference first.")
    simultaneous = estimation.method is MethodName.SIMULTANEOUS
    check_asked(uncertainty, simultaneous)
    run = Run(context, saving, computing, talk)
    views = estimation.may_be_views(len(inputs), allowed, change=change)
    study = read_visits(
        inputs, scans, allowed=allowed, two_views=views, device=run.first_device, on_note=run.note
    )
    run.warn(study.agreement)
    if not study.moving:
        raise DuotomoError(
            "expected at least two visits; got one. Name the other scans too, or use duotomo reconstruct."
        )
    estimation = estimation.of_scans(study) if views else estimation
    if estimation.roll is not None:
        study = with_tissue_behind(study)
        run.note(f"Two views of one breast, which is turned by {estimation.roll:.4g} degrees in the second")
        run.note("Compressions in both views are computed by finite elements first: a minute or two")
    settings, method = estimation.settings(study), estimation.method.value
    if change:
        check_change(run, study, is_simultaneous=simultaneous)
        settings = for_change(settings, study)
    needed = memory_bytes(study, settings)
    if uncertainty:
        needed = max(needed, most_uncertainty_bytes(study, settings))
    if change:
        needed = max(needed, change_bytes(study))
    device = run.place(needed)
    if dry_run:
        run.show_plan(_plan(study, settings, estimation, device), needed, work=_work(study, settings))
        return
    study = study.to(device)
    with run.folder():
        print_ = fingerprint(study, method=method, settings=settings)
        checkpoint = CheckpointFile(run.out / CHECKPOINT, print_, device=run.device)
        if resume and (code := run.finished(print_, checkpoint)) is not None:
            raise typer.Exit(code)
        run.begin(_plan(study, settings, estimation, run.device), needed)
        check_start(talk, checkpoint, resume=resume)
        sure = simultaneous and uncertainty is not False
        phases = joint_phases(study, settings, method, sure=sure, change=change)
        with keeping(talk, checkpoint), RunProgress(talk.console, phases) as progress:
            result = _solve(progress, study, settings, estimation.method, checkpoint)
            progress.begin(CHECKS)
            checked = quality_of(study, result.volume, result.grid, result.motions)
            quality = checked.to_dict()
            if result.status is not Status.DIVERGED:
                quality["trust"] = trust_of(study, settings, result, quality=checked).to_dict()
            if sure:
                asked = uncertainty is True
                result = how_sure(talk, run, progress, study, settings, result, checkpoint, asked=asked)
            summaries = summaries_of(result, [study.grid_of(visit) for visit in study.moving])
            quality |= quality_rows(summaries)
            if estimation.roll is not None and result.status is not Status.DIVERGED:
                fusion = fused(result, study.grid_of(study.moving[0]), trusted=quality["trust"]["trusted"])
                result, quality["fused"] = fusion.put(result), fusion.to_dict()
            found = what_changed(progress, study, settings, result, quality) if change else None
        code = run.finish(
            result,
            quality=quality,
            settings={
                "fingerprint": print_,
                "visits": list(study.described),
                "method": method,
                "model": estimation.transform,
                "plain": estimation.plain,
                "solver": type(settings.solver).__name__,
                "settings": settings,
            },
            study=study,
            identities=study.identities,
            agreement=study.agreement,
            checkpoint=checkpoint,
            change=found,
            summaries=summaries,
        )
    raise typer.Exit(code)


def _plan(study: Study, settings: Settings, estimation: Estimation, device: str) -> list[str]:
    lines = [f"Volume {grid_words(study.grid)}"]
    for number, visit in enumerate(study.visits, start=1):
        role = "reference" if number == 1 else "moving"
        weights = "with" if visit.weights is not None else "without"
        lines.append(f"Visit {number} ({role}): {visit.acquisition.shape} (view, v, u), {weights} weights")
    solver = "plain" if estimation.plain else type(settings.solver).__name__.lower()
    what = f"Method {estimation.method.value}, transform {estimation.transform}, solver {solver}"
    return [*lines, f"{what}, on {device}; {len(settings.stages)} stages"]


def _work(study: Study, settings: Settings) -> float:
    """Return the most that there is to do: steps times voxels times views."""
    from duotomo.cli._progress import alone_work, stage_work

    everyone = range(len(study.visits))
    both = stage_work(study, settings), alone_work(study, settings, everyone)
    return sum(n_steps * cost for work in both for n_steps, cost in work)


def _solve(
    progress: RunProgress, study: Study, settings: Settings, method: MethodName, checkpoint: CheckpointFile
) -> Result:
    """Return the method's result, with what each visit shows alone beside it."""
    from duotomo.cli._progress import ALONE, alone_work
    from duotomo.methods import iterative, sequential, simultaneous, with_visits_alone
    from duotomo.methods.comparison import visits_wanted

    functions: dict[MethodName, Callable[..., Result]] = {
        MethodName.SIMULTANEOUS: simultaneous,
        MethodName.ITERATIVE: iterative,
        MethodName.SEQUENTIAL: sequential,
    }
    progress.begin(method.value)
    result = functions[method](study, settings, on_step=progress.show, checkpoint=checkpoint)
    wanted = visits_wanted(study, result)
    if not wanted:
        return with_visits_alone(study, settings, result)
    progress.begin(ALONE, work=alone_work(study, settings, wanted))
    return with_visits_alone(study, settings, result, on_step=progress.show)
