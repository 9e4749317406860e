"""What a method keeps between two blocks of steps, so that a run can be resumed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import torch

from duotomo.methods.level import Factors
from duotomo.solvers import Status, Step


@dataclass(frozen=True, kw_only=True, eq=False)
class State:
    """The state of a method after a block of steps: checkpointable, resuming is deterministic.

    Parameters
    ----------
    stage, block : int
        The next block to compute: its stage in the schedule, and its number within the stage, from 0.
    volumes : dict of str to torch.Tensor
        (z, y, x), 1/mm, on the grid of the stage before.
    coarsen : tuple of int
        The factors of that grid, (z, y, x).
    model : str
        Name of the model of the stage before, as `model_name` gives it.
    params : tuple of torch.Tensor
        Of each moving visit, for that model, (n_params,).
    status : Status
        Of the last block.
    reason : str
        The same in one sentence.
    applications : int
        Of projectors or adjoints, one visit each, since the start.
    seconds : float
        Of computing, since the start.
    history : tuple of Step
        All steps since the start.
    """

    stage: int
    block: int
    volumes: dict[str, torch.Tensor] = field(repr=False)
    coarsen: Factors
    model: str
    params: tuple[torch.Tensor, ...]
    status: Status
    reason: str
    applications: int
    seconds: float
    history: tuple[Step, ...] = field(repr=False)


class Checkpoint(Protocol):
    """Where states are kept, so that a run that was killed can go on."""

    def load(self) -> State | None:
        """Return the last state saved.

        Returns
        -------
        State or None
            None if there is none.
        """

    def save(self, state: State) -> None:
        """Keep a state, in place of the last one.

        Parameters
        ----------
        state : State
            After a block of steps.
        """
