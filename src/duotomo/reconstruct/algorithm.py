"""What a reconstruction algorithm is."""

from __future__ import annotations

from typing import Protocol

import torch

from duotomo.objectives import ProjectionMisfit
from duotomo.solvers import Solution
from duotomo.solvers.history import OnStep
from duotomo.solvers.iterate import IterateStore


class Algorithm(Protocol):
    """Frozen settings that turn the projections of one visit into a volume.

    A new algorithm is one file with such a class; `reconstruct` checks the input before it calls `run`.
    """

    def run(
        self,
        misfit: ProjectionMisfit,
        start: torch.Tensor | None = None,
        on_step: OnStep | None = None,
        store: IterateStore | None = None,
    ) -> Solution:
        """Reconstruct a volume from the projections of one visit.

        Parameters
        ----------
        misfit : ProjectionMisfit
            The projector A as `operator`, the line integrals p, (view, v, u), as `data`, and their inverse
            variances, (view, v, u), or None, as `weights`.
        start : torch.Tensor, optional
            Initial guess, (z, y, x) in 1/mm; left as it is.
        on_step : callable, optional
            Called with each `Step`.
        store : IterateStore, optional
            Keeps iterates, from which a run that was killed goes on. Algorithms of few steps leave it alone
            and start anew.

        Returns
        -------
        Solution
            Its value is the volume, (z, y, x) in 1/mm.

        Raises
        ------
        DuotomoError
            If the algorithm has no use for the start or the weights, or these are none it can work with.
        """
        ...
