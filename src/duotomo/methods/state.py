"""State of a method between two blocks of steps, from which a run can be resumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch

from duotomo.methods.level import Factors
from duotomo.solvers import Status, Step
from duotomo.transforms import Translation, model_name


@dataclass(frozen=True, kw_only=True, eq=False)
class State:
    """State of a method after a block of steps: checkpointable; resuming is deterministic.

    Parameters
    ----------
    stage, block : int
        The next block to compute: its stage in the schedule, and its number within the stage, from 0.
    volumes : dict of str to torch.Tensor
        By name, (z, y, x) in 1/mm, on the grid of the stage before.
    coarsen : tuple of int
        The factors of that grid, (z, y, x).
    model : str
        Name of the model of the stage before, as `model_name` gives it.
    params : tuple of torch.Tensor
        Of each moving visit, for that model, (n_params,).
    status, reason
        As for `Result`, of the last block.
    applications, seconds, history
        As for `Result`, since the start.
    starts : tuple of State
        While several starts are tried: those that have ended, in their order.
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
    starts: tuple[State, ...] = field(default=(), repr=False)

    @classmethod
    def initial(
        cls,
        volumes: dict[str, torch.Tensor],
        *,
        coarsen: Factors,
        params: Sequence[torch.Tensor],
        stage: int = 0,
    ) -> State:
        """Return the state before anything has been computed.

        Parameters
        ----------
        volumes : dict of str to torch.Tensor
            To start from, (z, y, x), 1/mm.
        coarsen : tuple of int
            The factors of their grid, (z, y, x).
        params : sequence of torch.Tensor
            Of a translation of each moving visit, (3,).
        stage : int
            The first stage.

        Returns
        -------
        State
            Without a history.
        """
        return cls(
            stage=stage,
            block=0,
            volumes=volumes,
            coarsen=coarsen,
            model=model_name(Translation),
            params=tuple(params),
            status=Status.STEP_LIMIT,
            reason="Nothing has been computed yet.",
            applications=0,
            seconds=0.0,
            history=(),
        )


class Checkpoint(Protocol):
    """Storage of states, from which an interrupted run can be resumed."""

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
