"""How sure the motion of a run is: whether that is computed, and what is said of it beforehand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duotomo.cli._memory import GB
from duotomo.cli._options import Talk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duotomo.cli._progress import RunProgress
    from duotomo.cli._run import Run
    from duotomo.io import CheckpointFile
    from duotomo.methods import Result, Settings, Study, UncertaintyCost, UncertaintySummary

HowSure = Annotated[
    bool | None,
    typer.Option(
        "--uncertainty/--no-uncertainty",
        help="Say how sure the motion is. Unless given: on a GPU, or if it costs less than half of the run.",
        rich_help_panel="Estimation",
        show_default=False,
    ),
]


def check_asked(asked: bool | None, is_simultaneous: bool) -> None:
    """Raise if it is asked for where it would mean nothing."""
    from duotomo.errors import DuotomoError

    if asked and not is_simultaneous:
        raise DuotomoError(
            "expected --uncertainty with --method simultaneous, whose motion is where the joint objective is "
            "least; got another method. Leave one of them out."
        )


def how_sure(
    talk: Talk,
    run: Run,
    progress: RunProgress,
    study: Study,
    settings: Settings,
    result: Result,
    checkpoint: CheckpointFile,
    *,
    asked: bool,
) -> Result:
    """Return the result with how sure its motions are, unless that costs too much and was not asked for.

    The cost is said first, and how far it is. Where the run did not converge, there is a reason at no cost.
    Solves are kept beside the checkpoint, and those of a run that was killed are used.
    """
    from duotomo.cli._progress import SURE
    from duotomo.methods import uncertainty_cost, uncertainty_of
    from duotomo.solvers import Status

    if result.status is not Status.CONVERGED:
        return replace(result, uncertainties=uncertainty_of(study, settings, result))
    cost = uncertainty_cost(study, settings, result)
    words = f"How sure the motion is: {_cost_words(cost)}"
    if not run.has_memory(cost.n_bytes):
        # The run is not lost for it.
        words += " of memory, which is not there or not allowed: left out"
        talk.warn(f"Warning: {words}") if asked else talk.progress(words)
        return result
    if not asked and run.device == "cpu" and not cost.is_affordable:
        talk.progress(f"{words}: left out, ask for it with --uncertainty")
        return result
    talk.progress(words)
    store = replace(checkpoint.solves, on_note=lambda text: talk.progress(f"Note: {text}"))
    progress.begin(SURE, work=[(1, cost.share * progress.done)] if math.isfinite(cost.share) else None)
    known = uncertainty_of(study, settings, result, on_part=progress.part, store=store)
    return replace(result, uncertainties=known)


def quality_rows(summaries: Sequence[UncertaintySummary]) -> dict[str, Any]:
    """Return what the quality of a result says of it; nothing where it was not computed."""
    rows = [{"words": one.words, **one.to_dict()} for one in summaries]
    return {"uncertainty": rows} if rows else {}


def _cost_words(cost: UncertaintyCost) -> str:
    """Return what it costs, for people.

    >>> from duotomo.methods import UncertaintyCost
    >>> _cost_words(UncertaintyCost(applications=540.0, share=0.25, seconds=130.0, n_bytes=400_000_000))
    'about 2.2 min, 25 % of the run, and 0.4 GB'
    """
    memory = f"{cost.n_bytes / GB:.3g} GB"
    if not math.isfinite(cost.seconds):
        return f"about {cost.applications:.0f} projector applications and {memory}"
    time = f"{cost.seconds:.0f} s" if cost.seconds < 100 else f"{cost.seconds / 60:.1f} min"
    return f"about {time}, {100 * cost.share:.0f} % of the run, and {memory}"
