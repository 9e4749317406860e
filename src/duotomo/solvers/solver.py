"""What a solver is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch

from duotomo.solvers._checks import check_counts, check_tolerances
from duotomo.solvers.history import OnStep
from duotomo.solvers.solution import Solution

Goal = TypeVar("Goal", contravariant=True)
"""The kind of objective that a solver takes."""


@dataclass(frozen=True, kw_only=True)
class Solver(ABC, Generic[Goal]):
    """Frozen settings that minimise an objective; a new solver is one file with such a class.

    Parameters
    ----------
    n_steps : int
        Steps, at most.
    tolerance : float
        How little is left to gain once it has converged; each solver says of what. Zero turns it off.

    Raises
    ------
    DuotomoError
        If a setting is out of bounds.
    """

    n_steps: int
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        where = type(self).__name__
        check_counts(where, n_steps=self.n_steps)
        check_tolerances(where, tolerance=self.tolerance)

    @abstractmethod
    def minimise(self, objective: Goal, start: torch.Tensor, *, on_step: OnStep | None = None) -> Solution:
        """Minimise an objective from an initial guess.

        Parameters
        ----------
        objective : Objective
            What is minimised.
        start : torch.Tensor
            Initial guess, of the objective's shape; left as it is. Solvers of linear problems start from zero
            without it.
        on_step : callable, optional
            Called with each `Step`.

        Returns
        -------
        Solution
            Whatever happened: not converging is a status.

        Raises
        ------
        ShapeError, DtypeError, DeviceError, NonFiniteError
            If the start does not fit the objective.
        DuotomoError
            If the solver cannot minimise such an objective.
        """
