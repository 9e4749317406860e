"""`duotomo change`: what changed in a breast between two visits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from duotomo.cli._flatten import Fields
from duotomo.cli._options import Computing, Permissions, Scans, Talk
from duotomo.cli._resume import Resume
from duotomo.cli._run import DryRun, Saving
from duotomo.cli._uncertainty import HowSure
from duotomo.cli.joint import Estimation, joint

HOW = Fields(only=("transform", "solver", "steps", "total_variation", "bending"))
"""There is one method: the motion has to be where the joint objective is least."""


def change(
    context: typer.Context,
    saving: Saving,
    estimation: Annotated[Estimation, HOW],
    scans: Scans,
    allowed: Permissions,
    computing: Computing,
    talk: Talk,
    inputs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="CURRENT PRIOR",
            help="Scans of the two visits, the current one first; or one study (.h5).",
            show_default=False,
        ),
    ] = None,
    resume: Resume = False,
    uncertainty: HowSure = None,
    dry_run: DryRun = False,
) -> None:
    """Find what changed between two visits of one breast. Research use only: not for diagnosis.

    It is `duotomo joint`, and what changed as the last step.

    Example: duotomo change 2024.dcm 2023.dcm --dicom --out result
    """
    joint(
        context,
        saving=saving,
        estimation=estimation,
        scans=scans,
        allowed=allowed,
        computing=computing,
        talk=talk,
        inputs=inputs,
        resume=resume,
        uncertainty=uncertainty,
        change=True,
        dry_run=dry_run,
    )
