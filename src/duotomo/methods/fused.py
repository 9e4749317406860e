"""One volume of two views where their motion is sure enough; elsewhere that of the reference view alone."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.geometry.frame import voxel_centers_mm
from duotomo.methods.comparison import REFERENCE
from duotomo.methods.correspondence import FOUND_MM, known_covariance_mm2
from duotomo.methods.level import coarsening, interpolated
from duotomo.methods.motion_uncertainty import MAP_MM, MotionUncertainty
from duotomo.methods.result import Result
from duotomo.methods.uncertainty_summary import BREAST
from duotomo.transforms import invert_points

FUSED = "fused"
"""Name of the volume."""

SURE_MM = 1.0
"""Predicted error of the motion, below which a volume of both views is used."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Fusion:
    """A volume that is that of both views where their motion is sure.

    Parameters
    ----------
    volume : torch.Tensor
        (z, y, x), on the grid of the result, in 1/mm.
    from_both : torch.Tensor
        Where it is that of both views, (z, y, x), bool.
    share : float
        Of the breast, that is from both views.
    limit_mm : float
        Predicted error below which it is.
    reason : str
        Why nothing is from both views; empty otherwise.
    """

    volume: torch.Tensor = field(repr=False)
    from_both: torch.Tensor = field(repr=False)
    share: float
    limit_mm: float
    reason: str = ""

    @property
    def words(self) -> str:
        """The same in one line."""
        if self.reason:
            return f"the fused volume is that of visit 1 alone. {self.reason}"
        share = f"{100 * self.share:.0f} % of the breast"
        return (
            f"the fused volume is from both views in {share}, where the motion is predicted to be right to "
            f"{self.limit_mm:g} mm, and of visit 1 alone elsewhere"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return all but the arrays, as plain values.

        Returns
        -------
        dict
            `words`, `share`, `limit_mm` and `reason`.
        """
        names = ("words", "share", "limit_mm", "reason")
        return {name: getattr(self, name) for name in names}

    def put(self, result: Result) -> Result:
        """Return a result with this volume among its `others`, and where it is from both views.

        Parameters
        ----------
        result : Result
            That was fused.

        Returns
        -------
        Result
            The same, with more in it.
        """
        return replace(result, others={**result.others, FUSED: self.volume}, fused_mask=self.from_both)


@torch.no_grad()
def fused(
    result: Result, moving_grid: VolumeGrid, *, trusted: bool = True, limit_mm: float = SURE_MM
) -> Fusion:
    """Fuse the volume of two views with that of the reference alone.

    The volume of both is taken where the root of the trace of the motion's covariance, that is how far tissue
    is expected to be off, is below a limit, and the other view has data.

    Parameters
    ----------
    result : Result
        Of two views, with that of the reference alone among its `others`, as `with_visits_alone` puts it.
    moving_grid : VolumeGrid
        Of the other view.
    trusted : bool
        Whether the result is trusted; of one that is not, nothing is taken.
    limit_mm : float
        Of the predicted error.

    Returns
    -------
    Fusion
        Nowhere of both views where it is not known how sure their motion is.

    Raises
    ------
    DuotomoError
        If there are not two views, or no volume of the reference alone.
    """
    if len(result.motions) != 1 or REFERENCE not in result.others:
        raise DuotomoError(
            f"fused: expected a result of two views with {REFERENCE} among its others; got "
            f"{len(result.motions) + 1} visits and {', '.join(result.others) or 'no others'}. Pass it "
            f"through `with_visits_alone`."
        )
    alone = result.others[REFERENCE]
    reason = ""
    if not trusted:
        reason = "The result is not trusted."
    elif not result.uncertainties:
        reason = "How sure the motion is was not computed."
    elif not result.uncertainties[0].is_known:
        reason = f"How sure the motion is is not known: {result.uncertainties[0].reason}"
    both = torch.zeros(result.grid.shape, dtype=torch.bool)
    if not reason:
        both = _predicted_mm(result.uncertainties[0], result.grid, moving_grid) < limit_mm
    breast = (alone > BREAST * alone.max()).cpu()
    share = float((both & breast).sum() / breast.sum().clamp(min=1))
    if not reason and share == 0:
        reason = f"The motion is nowhere predicted to be right to {limit_mm:g} mm."
    volume = torch.where(both.to(alone.device), result.volume.to(alone), alone)
    return Fusion(volume=volume, from_both=both, share=share, limit_mm=limit_mm, reason=reason)


def _predicted_mm(known: MotionUncertainty, grid: VolumeGrid, moving: VolumeGrid) -> torch.Tensor:
    """Return how far tissue is expected to be off, (z, y, x), in mm; NaN where nothing is known of it."""
    factors = coarsening(grid, MAP_MM)
    points = torch.from_numpy(voxel_centers_mm(grid.coarsen(factors))).double()
    back = invert_points(known.motion, points, tolerance_mm=FOUND_MM / 10, max_steps=30)
    low, high = (torch.tensor(ends[::-1], dtype=torch.float64) for ends in (moving.low_mm, moving.high_mm))
    seen = (back.residual_mm <= FOUND_MM) & ((back.xyz_mm >= low) & (back.xyz_mm <= high)).all(dim=-1)
    covariance = known_covariance_mm2(known, torch.where(seen[..., None], back.xyz_mm, 0.0).detach())
    off_mm = covariance.diagonal(dim1=-2, dim2=-1).sum(dim=-1).sqrt()
    off_mm = torch.where(seen, off_mm, torch.nan)
    return interpolated(off_mm[None], factors, grid.shape)[0]
