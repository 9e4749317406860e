"""`duotomo reconstruct`: the scan of one visit becomes a volume."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from duotomo.cli._options import Computing, Scans, Talk
from duotomo.cli._resume import CHECKPOINT, Resume, check_start, keeping
from duotomo.cli._run import Run, Saving, grid_words

if TYPE_CHECKING:
    from duotomo.io.iterate_file import IterateFile
    from duotomo.methods import Result, Study
    from duotomo.reconstruct import Algorithm

VOLUMES, PROJECTIONS = 12, 6
"""Copies of the volume, and of the projections, that the most demanding algorithm works with."""


class AlgorithmName(Enum):
    """How to reconstruct."""

    TV = "tv"
    SART = "sart"
    CGLS = "cgls"
    ML_CONVEX = "ml-convex"
    FBP = "fbp"
    BACK_PROJECTION = "bp"


STEPS = {
    AlgorithmName.TV: 1500,
    AlgorithmName.SART: 3,
    AlgorithmName.CGLS: 15,
    AlgorithmName.ML_CONVEX: 30,
    AlgorithmName.FBP: 1,
    AlgorithmName.BACK_PROJECTION: 1,
}
"""Steps of each algorithm unless they are given; sweeps through all views for SART."""

TO_THE_END = (AlgorithmName.TV,)
"""Algorithms that look for a minimum; the others are stopped early, or take one step."""


def reconstruct(
    context: typer.Context,
    saving: Saving,
    scans: Scans,
    computing: Computing,
    talk: Talk,
    scan: Annotated[
        Path | None, typer.Argument(help="A scan, or a study (.h5).", metavar="SCAN", show_default=False)
    ] = None,
    visit: Annotated[int, typer.Option(min=1, help="Of a study: which visit.")] = 1,
    method: Annotated[AlgorithmName, typer.Option(help="How to reconstruct.")] = AlgorithmName.TV,
    steps: Annotated[int | None, typer.Option(min=1, help="Of the method, at most; sweeps for sart.")] = None,
    tv_weight: Annotated[
        float | None, typer.Option(min=0, help="Of total variation. Unless given: from the noise.")
    ] = None,
    resume: Resume = False,
) -> None:
    """Reconstruct one visit.

    Example: duotomo reconstruct scan.dcm --method sart --voxel 1,0.2,0.2 --out result
    """
    from duotomo.errors import DuotomoError
    from duotomo.io import CheckpointFile, fingerprint, read_visits
    from duotomo.io.iterate_file import IterateFile
    from duotomo.methods import quality_of
    from duotomo.methods.sequential import one_visit
    from duotomo.methods.trust import trust_of_run
    from duotomo.solvers import Status

    if scan is None:
        raise DuotomoError("expected a scan; got none. Name it.")
    if tv_weight is not None and method is not AlgorithmName.TV:
        raise DuotomoError(
            f"expected --tv-weight only with --method tv; got it with {method.value}. Leave it out."
        )
    run = Run(context, saving, computing, talk)
    found = read_visits([scan], scans, device=run.first_device, on_note=run.note)
    if visit > len(found.visits):
        raise DuotomoError(f"expected --visit from 1 to {len(found.visits)}; got {visit}. Choose another.")
    study, n_steps = one_visit(found, visit - 1), steps or STEPS[method]
    algorithm = _algorithm(method, n_steps, tv_weight)
    data, acquisition = study.reference.projections, study.reference.acquisition
    needed = (VOLUMES * study.grid.n_voxels + PROJECTIONS * data.numel()) * data.element_size()
    study = study.to(run.place(needed))
    with run.folder():
        print_ = fingerprint(study, method=method.value, settings=algorithm)
        checkpoint = CheckpointFile(run.out / CHECKPOINT, print_, device=run.device)
        if resume and (code := run.finished(print_, checkpoint)) is not None:
            raise typer.Exit(code)
        plan = [
            f"Volume {grid_words(study.grid)}",
            f"Scan {acquisition.shape} (view, v, u), on {run.device}",
        ]
        run.begin(plan, needed)
        check_start(talk, checkpoint, resume=resume)
        with keeping(talk, checkpoint):
            result = _solve(talk, study, method, algorithm, n_steps, IterateFile(checkpoint))
        quality = quality_of(study, result.volume, study.grid).to_dict()
        if method in TO_THE_END and result.status is not Status.DIVERGED:
            quality["trust"] = trust_of_run(result).to_dict()
        code = run.finish(
            result,
            quality=quality,
            settings={
                "fingerprint": print_,
                "visits": list(found.described),
                "method": method.value,
                "python": repr(algorithm),
            },
            study=study,
            identities=[found.identities[visit - 1]],
            checkpoint=checkpoint,
        )
    raise typer.Exit(code)


def _algorithm(name: AlgorithmName, n_steps: int, tv_weight: float | None) -> Algorithm:
    from duotomo import reconstruct as library

    algorithms: dict[AlgorithmName, Algorithm] = {
        AlgorithmName.TV: library.TvLeastSquares(n_steps=n_steps, tv_weight=tv_weight),
        AlgorithmName.SART: library.Sart(n_sweeps=n_steps),
        AlgorithmName.CGLS: library.LeastSquares(n_steps=n_steps),
        AlgorithmName.ML_CONVEX: library.MlConvex(n_steps=n_steps),
        AlgorithmName.FBP: library.FilteredBackProjection(),
        AlgorithmName.BACK_PROJECTION: library.BackProjection(),
    }
    return algorithms[name]


def _solve(
    talk: Talk, study: Study, name: AlgorithmName, algorithm: Algorithm, n_steps: int, store: IterateFile
) -> Result:
    """Return the reconstruction as the result of a method without motion."""
    from duotomo.cli._progress import Phase, RunProgress
    from duotomo.methods import Result
    from duotomo.reconstruct import reconstruct as solve

    visit, what = study.reference, f"{name.value} at {min(study.grid.spacing_mm):g} mm"
    with RunProgress(talk.console, [Phase(what, ((n_steps, 1.0),))]) as progress:
        progress.begin(what)
        solution = solve(
            visit.projections,
            grid=study.grid,
            acquisition=visit.acquisition,
            algorithm=algorithm,
            weights=visit.weights,
            on_step=lambda step: progress.show(replace(step, what=what)),
            store=store,
        )
    last = solution.history[-1]
    return Result(
        method=name.value,
        grid=study.grid,
        volume=solution.value,
        motions=(),
        status=solution.status,
        reason=solution.reason,
        applications=last.applications,
        seconds=last.seconds,
        history=tuple(replace(step, what=what) for step in solution.history[1:]),
    )
