"""What a reconstruction algorithm is."""

from __future__ import annotations

from typing import Protocol

import torch

from duotomo.operators import Projector
from duotomo.solvers import OnStep, Solution


class Algorithm(Protocol):
    """Frozen settings that turn the projections of one visit into a volume.

    A new algorithm is one file with such a class; `reconstruct` checks the input before it calls `run`.
    """

    def run(
        self,
        projector: Projector,
        projections: torch.Tensor,
        *,
        weights: torch.Tensor | None,
        start: torch.Tensor | None,
        on_step: OnStep | None,
    ) -> Solution:
        """Return the volume (z, y, x) found from `projections` (view, v, u), as the value of a `Solution`.

        weights: inverse variances, (view, v, u), or None. start: (z, y, x), left as it is, or None.
        """
        ...
