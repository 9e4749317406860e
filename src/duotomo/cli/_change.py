"""What changed between the visits of a run: whether that can be said, and how it is shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duotomo.cli._options import Talk

if TYPE_CHECKING:
    from duotomo.change import Change, Finding
    from duotomo.cli._progress import RunProgress
    from duotomo.cli._run import Run
    from duotomo.io import ScannedStudy
    from duotomo.methods import Result, Settings

WhatChanged = Annotated[
    bool,
    typer.Option(
        "--change/--no-change",
        help="Say what changed since the other visit, the first one being the current. Research use only.",
        rich_help_panel="Estimation",
    ),
]


def check_change(run: Run, study: ScannedStudy, *, is_simultaneous: bool) -> None:
    """Raise unless what changed can be computed after the run: it is missed before, not after."""
    from duotomo.change.templates import too_coarse
    from duotomo.errors import DuotomoError
    from duotomo.io.result_files import check_libraries

    if not is_simultaneous:
        raise DuotomoError(
            "expected --change with --method simultaneous, whose volume is the one that both visits share; "
            "got another method. Leave one of them out."
        )
    if len(study.visits) > 2:
        raise DuotomoError(
            f"expected two visits, the current one and the prior; got {len(study.visits)}. Name two of them."
        )
    if coarse := too_coarse(study.grid):
        raise DuotomoError(f"expected finer voxels. {coarse} Set --voxel, or leave --change out.")
    check_libraries(run.formats, change=True)


def what_changed(
    progress: RunProgress, study: ScannedStudy, settings: Settings, result: Result, quality: Mapping[str, Any]
) -> Change:
    """Return what changed; where that cannot be said, why, at no cost."""
    from duotomo.change import Change, change_of
    from duotomo.cli._progress import CHANGE
    from duotomo.io import comparison_refusal

    reason = comparison_refusal(study.identities, [visit.projections for visit in study.visits])
    reason = reason or _refusal(result, quality)
    if reason:
        return Change.none(result.grid, result.volume, reason)
    progress.begin(CHANGE)
    return change_of(study, settings, result, on_part=progress.part)


def _refusal(result: Result, quality: Mapping[str, Any]) -> str:
    """Return why a result says nothing of what changed, "" if it does."""
    from duotomo.methods.trust import may_be_a_change

    trust = quality.get("trust")
    if trust is None:
        return f"The run ended without a result to trust: {result.reason}"
    # A change is what one volume does not explain at both visits.
    rows = [one for one in trust["checks"] if not one["passed"]]
    failed = [one["text"] for one in rows if not may_be_a_change(one["name"], one["value"])]
    if failed:
        return f"The result is not to be trusted. {' '.join(failed)}"
    unknown = [one.reason for one in result.uncertainties if not one.is_known]
    return f"How sure the motion is cannot be said. {unknown[0]}" if unknown else ""


def show_change(talk: Talk, change: Change) -> None:
    """Show findings as a table; where nothing could be said, say why, even with --quiet."""
    from duotomo.change.change import RESEARCH
    from duotomo.io.change_files import silent_rows

    if change.reason:
        talk.warn(f"Warning: nothing is said of what changed. {change.reason}")
    elif not change.findings:
        talk.say(f"No findings: no place changed with |z| of {change.threshold:.3g} or more")
    else:
        talk.show(_table(change))
    shares = {row["words"]: row["share_of_breast"] for row in silent_rows(change) if row["code"]}
    unsaid = [f"{100 * share:.0f} % {words}" for words, share in shares.items() if share and share >= 0.005]
    if unsaid and not change.reason:
        talk.say(f"Nothing is said of parts of the breast: {'; '.join(unsaid)}")
    talk.say(RESEARCH)


def change_json(change: Change) -> dict[str, Any]:
    """Return it for the JSON object that a command ends with."""
    from duotomo.io.change_files import change_dict

    return {
        name: value
        for name, value in change_dict(change).items()
        if name not in ("format", "version", "grid")
    }


def _table(change: Change) -> Any:
    from rich.box import SIMPLE
    from rich.table import Table

    title = "What changed since the prior visit"
    table = Table(title=title, title_justify="left", caption_justify="left", box=SIMPLE)
    for name in ("", "what", "x, y, z (mm)", "size (mm)", "change (1/mm)", "z", "false", "where"):
        table.add_column(name, justify="left" if name in ("what", "where") else "right", overflow="fold")
    for finding in change.findings:
        table.add_row(*_row(finding))
    table.caption = "false: findings as sure that a breast without a change would have"
    return table


def _row(finding: Finding) -> list[str]:
    low, high = finding.size_interval_mm
    return [
        str(finding.number),
        finding.kind,
        ", ".join(f"{value:.1f}" for value in finding.place_mm),
        f"{finding.size_mm:.2g} ({low:.2g} to {high:.2g})",
        f"{finding.contrast_per_mm:+.2g}",
        f"{finding.z:+.1f}",
        f"{finding.false_findings:.1g}",
        finding.words,
    ]
