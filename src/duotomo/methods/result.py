"""What a method returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from duotomo.geometry import VolumeGrid
from duotomo.methods.state import State
from duotomo.methods.study import Study
from duotomo.notebook import Picture
from duotomo.solvers import Status, Step
from duotomo.transforms import Motion

if TYPE_CHECKING:
    from duotomo.methods.motion_uncertainty import MotionUncertainty


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """Volume and motions found by a method.

    Parameters
    ----------
    method : str
        Its name.
    grid : VolumeGrid
        Of the volume.
    volume : torch.Tensor
        In the reference frame, (z, y, x) on `grid`, in 1/mm.
    others : dict of str to torch.Tensor
        Further volumes by name, such as those of the moving visits; (z, y, x), in 1/mm.
    grids : dict of str to VolumeGrid
        Of those among `others` that do not lie on `grid`.
    motions : tuple of Motion
        moving_to_reference, of each moving visit.
    status : Status
        How the method ended.
    reason : str
        The same in one sentence.
    applications : int
        Of projectors or adjoints, one visit each.
    seconds : float
        Of computing.
    history : tuple of Step
        Every step.
    uncertainties : tuple of MotionUncertainty
        How sure each motion is, as `uncertainty_of` returns them; empty unless that was asked for.
    fused_mask : torch.Tensor, optional
        Where the volume "fused" among `others` is that of both views, (z, y, x), bool; of two views alone.
    """

    method: str
    grid: VolumeGrid
    volume: torch.Tensor = field(repr=False)
    others: dict[str, torch.Tensor] = field(default_factory=dict, repr=False)
    grids: dict[str, VolumeGrid] = field(default_factory=dict)
    motions: tuple[Motion, ...]
    status: Status
    reason: str
    applications: int
    seconds: float
    history: tuple[Step, ...] = field(repr=False)
    uncertainties: tuple[MotionUncertainty, ...] = field(default=(), repr=False)
    fused_mask: torch.Tensor | None = field(default=None, repr=False)

    @classmethod
    def of_state(
        cls, method: str, study: Study, state: State, motions: Sequence[Motion], volume: torch.Tensor
    ) -> Result:
        """Return the result that a last state stands for.

        Parameters
        ----------
        method : str
            Its name.
        study : Study
            The visits.
        state : State
            After the last block of steps.
        motions : sequence of Motion
            moving_to_reference, of each moving visit.
        volume : torch.Tensor
            Of the reference visit, (z, y, x), 1/mm.

        Returns
        -------
        Result
            On the grid of the state, without further volumes.
        """
        return cls(
            method=method,
            grid=study.grid.coarsen(state.coarsen),
            volume=volume,
            motions=tuple(motions),
            status=state.status,
            reason=state.reason,
            applications=state.applications,
            seconds=state.seconds,
            history=state.history,
        )

    def _repr_html_(self) -> str:
        facts = {
            "status": f"{self.status.value}: {self.reason}",
            "motion": ", ".join(self._model_names()) or "none",
            "cost": f"{self.applications} projector applications, {self.seconds:.1f} s",
        }
        picture = Picture(volume=self.volume, spacing_mm=self.grid.spacing_mm, title=self.method, facts=facts)
        return picture._repr_html_()

    def _model_names(self) -> tuple[str, ...]:
        return tuple(type(motion.transform).__name__ for motion in self.motions)
