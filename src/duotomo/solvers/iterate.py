"""All that a solver knows between two steps, so that a run that was killed can go on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch

from duotomo.solvers.solution import Step


@dataclass(frozen=True, kw_only=True, eq=False)
class Iterate:
    """A solver between two steps; going on from it gives the same numbers as never having stopped.

    Parameters
    ----------
    tensors : mapping of str to torch.Tensor
        By name.
    numbers : tuple of float
        What is not a tensor.
    history : tuple of Step
        Every step so far, the start among them.
    """

    tensors: Mapping[str, torch.Tensor]
    numbers: tuple[float, ...]
    history: tuple[Step, ...]


class IterateStore(Protocol):
    """Storage of iterates; `every` so many steps one is saved."""

    @property
    def every(self) -> int:
        """Steps from one iterate that is saved to the next."""

    def load(self) -> Iterate | None:
        """Return the last iterate saved.

        Returns
        -------
        Iterate or None
            None if there is none.
        """

    def save(self, iterate: Iterate) -> None:
        """Keep an iterate, in place of the last one.

        Parameters
        ----------
        iterate : Iterate
            After a step.
        """
