"""Runs that were stopped or killed, and go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from duotomo.cli._options import Talk

if TYPE_CHECKING:
    from duotomo.io import CheckpointFile

CHECKPOINT = "checkpoint.h5"
"""The file in the folder of a result from which a run can go on."""

Resume = Annotated[bool, typer.Option("--resume", help="Go on where a run was stopped or killed.")]


def check_start(talk: Talk, checkpoint: CheckpointFile, *, resume: bool) -> None:
    """Say from where the run goes on; raise if an unfinished one would be lost."""
    from duotomo.io.seal import UNSEALED, is_sealed

    kept = Path(checkpoint.path)
    if not kept.exists():
        if resume:
            talk.progress("Nothing to resume: starting from the beginning")
        return
    if not resume:
        check_finished(kept)
    state = checkpoint.load()
    if not is_sealed(kept):
        talk.progress(f"Note: {kept}: {UNSEALED}")
    if state is not None:
        done = f"{len(state.starts)} starts" if state.starts else f"{len(state.history)} steps"
        talk.progress(f"Resuming in stage {state.stage + 1}, after {done} and {state.seconds:.0f} s")


def check_finished(kept: Path) -> None:
    """Raise if a run was stopped or killed. kept: where its checkpoint would be."""
    from duotomo.errors import DuotomoError

    if kept.exists():
        raise DuotomoError(
            f"expected a folder without an unfinished run; got {kept}. Pass --resume to go on "
            f"with it, or choose another folder."
        )


@contextmanager
def keeping(talk: Talk, checkpoint: CheckpointFile) -> Iterator[None]:
    """Say, where Ctrl-C ends a computation, how it goes on."""
    try:
        yield
    except KeyboardInterrupt:
        if Path(checkpoint.path).exists():
            talk.say(f"Go on with --resume: {checkpoint.path} holds the last block of steps.")
        raise
