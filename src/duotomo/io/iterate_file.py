"""The iterates of a solver in a checkpoint file."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import torch

from duotomo.io.checkpoint_file import CheckpointFile
from duotomo.io.paths import FileError
from duotomo.methods.level import FINEST
from duotomo.methods.state import State
from duotomo.solvers import Status
from duotomo.solvers.iterate import Iterate

EVERY = 25
"""Steps from one iterate that is kept to the next."""


@dataclass(frozen=True)
class IterateFile:
    """An `IterateStore` in a file, which a method without stages keeps its state in.

    Parameters
    ----------
    file : CheckpointFile
        Where; tensors of three axes only.
    every : int
        Steps from one iterate to the next.
    """

    file: CheckpointFile
    _: KW_ONLY
    every: int = EVERY

    def load(self) -> Iterate | None:
        """Return the last iterate saved, as `CheckpointFile.load` does a state.

        Returns
        -------
        Iterate or None
            None if there is no file.
        """
        state = self.file.load()
        if state is None:
            return None
        if len(state.params) != 1:
            raise FileError(
                f"IterateFile: {self.file.path}: expected one row of numbers in the checkpoint; got "
                f"{len(state.params)}. It is not of this run: remove it to begin anew."
            )
        numbers = tuple(state.params[0].tolist())
        return Iterate(tensors=state.volumes, numbers=numbers, history=state.history)

    def save(self, iterate: Iterate) -> None:
        """Put an iterate in place of the last one.

        Parameters
        ----------
        iterate : Iterate
            After a step.
        """
        last = iterate.history[-1]
        self.file.save(
            State(
                stage=0,
                block=last.number,
                volumes=dict(iterate.tensors),
                coarsen=FINEST,
                model="none",
                params=(torch.tensor(iterate.numbers, dtype=torch.float64),),
                status=Status.STEP_LIMIT,
                reason="Between two steps.",
                applications=last.applications,
                seconds=last.seconds,
                history=iterate.history,
            )
        )
