"""`duotomo register`: the motion under which one volume looks like another."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from duotomo.cli._options import Computing, Permissions, Talk, VolumeVoxel
from duotomo.cli._resume import CHECKPOINT, Resume, check_start, keeping
from duotomo.cli._run import Run, Saving, grid_words
from duotomo.cli._transform import HELP, parse_transform

if TYPE_CHECKING:
    import torch

    from duotomo.geometry import VolumeGrid
    from duotomo.io import CheckpointFile
    from duotomo.methods import Result, Settings

    Placed = tuple[torch.Tensor, VolumeGrid]

VOLUMES, VOLUMES_PER_PARAMETER = 12, 2
"""Copies of a volume that a step works with."""


class MisfitName(Enum):
    """What the registration minimises."""

    SQUARES = "squares"
    CORRELATION = "correlation"


def register(
    context: typer.Context,
    saving: Saving,
    allowed: Permissions,
    computing: Computing,
    talk: Talk,
    reference: Annotated[
        Path | None,
        typer.Argument(help="The volume that stays.", metavar="REFERENCE_VOLUME", show_default=False),
    ] = None,
    moving: Annotated[
        Path | None,
        typer.Argument(help="The volume that is moved.", metavar="MOVING_VOLUME", show_default=False),
    ] = None,
    transform: Annotated[str, typer.Option(help=HELP)] = "affine",
    misfit: Annotated[
        MisfitName, typer.Option(help="correlation: for volumes whose values differ by a factor.")
    ] = MisfitName.SQUARES,
    voxel_mm: VolumeVoxel = None,
    steps: Annotated[int, typer.Option(min=1, help="Most steps of every stage.")] = 30,
    bending: Annotated[float | None, typer.Option(min=0, help="Stiffness of a B-spline.")] = None,
    resume: Resume = False,
) -> None:
    """Register one volume to another.

    Example: duotomo register 2024.nii.gz 2023.nii.gz --transform bspline:25mm --out result
    """
    import torch

    from duotomo.errors import DuotomoError
    from duotomo.io import CheckpointFile, read_volume_pair
    from duotomo.io.run_fingerprint import settings_key, volumes_fingerprint
    from duotomo.methods import Priors, Settings
    from duotomo.methods.quality import moved
    from duotomo.methods.trust import trust_of_run
    from duotomo.transforms.transform import FEW_PARAMS

    if reference is None or moving is None:
        raise DuotomoError("expected two volumes; got fewer. Name them, the reference first.")
    run = Run(context, saving, computing, talk)
    model = parse_transform(transform)
    pair = read_volume_pair(reference, moving, voxel_mm=voxel_mm, allowed=allowed)
    run.warn(pair.agreement)
    grid, moving_grid = pair.grids
    n_params = model(moving_grid).n_params
    copies = VOLUMES + (VOLUMES_PER_PARAMETER * n_params if n_params <= FEW_PARAMS else 0)
    needed = 4 * copies * max(grid.n_voxels, moving_grid.n_voxels)
    run.place(needed)
    one, two = (volume.to(device=run.device, dtype=torch.float32) for volume in pair.volumes)
    fixed, other = (one, grid), (two, moving_grid)
    priors = Priors() if bending is None else Priors(bending=bending)
    settings = Settings.staged(grid, model, priors=priors)
    with run.folder():
        print_ = volumes_fingerprint(
            [fixed, other], method="register", settings=(misfit.value, steps, settings_key(settings))
        )
        checkpoint = CheckpointFile(run.out / CHECKPOINT, print_, device=run.device)
        if resume and (code := run.finished(print_, checkpoint)) is not None:
            raise typer.Exit(code)
        run.begin(
            [f"Reference {grid_words(grid)}", f"Moving {grid_words(moving_grid)}"],
            needed,
            remedy="resample the volumes to larger voxels",
        )
        check_start(talk, checkpoint, resume=resume)
        with keeping(talk, checkpoint):
            result = _solve(talk, fixed, other, settings, misfit, steps, checkpoint)
        how = moved(result.volume, grid, moving_grid, result.motions[0])
        code = run.finish(
            result,
            quality={
                "trust": trust_of_run(result, [moving_grid], folded=[how.folded_voxels]).to_dict(),
                "folded_voxels": [how.folded_voxels],
                "least_jacobian": [how.least_jacobian],
                "mean_displacement_mm": [how.mean_mm],
                "largest_displacement_mm": [how.largest_mm],
            },
            settings={
                "fingerprint": print_,
                "method": "register",
                "model": transform,
                "misfit": misfit.value,
                "settings": settings,
            },
            moving_grids=[moving_grid],
            identities=pair.identities,
            agreement=pair.agreement,
            checkpoint=checkpoint,
        )
    raise typer.Exit(code)


def _solve(
    talk: Talk,
    fixed: Placed,
    other: Placed,
    settings: Settings,
    misfit: MisfitName,
    n_steps: int,
    checkpoint: CheckpointFile,
) -> Result:
    from duotomo.cli._progress import Phase, RunProgress
    from duotomo.methods.registration import registration_stages
    from duotomo.methods.registration_run import registered
    from duotomo.objectives import CrossCorrelation, SumOfSquares

    (volume, grid), (moving, moving_grid) = fixed, other
    work = [(n_steps, float(grid.coarsen(stage.coarsen).n_voxels)) for stage in registration_stages(settings)]
    with RunProgress(talk.console, [Phase("registration", tuple(work))]) as progress:
        progress.begin("registration")
        return registered(
            volume,
            moving,
            grid=grid,
            moving_grid=moving_grid,
            settings=settings,
            n_steps=n_steps,
            misfit=SumOfSquares if misfit is MisfitName.SQUARES else CrossCorrelation,
            on_step=progress.show,
            checkpoint=checkpoint,
        )
