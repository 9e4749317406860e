"""How sure a motion is over the breast, in a few numbers and one line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from duotomo.geometry import VolumeGrid
from duotomo.geometry.frame import voxel_to_world
from duotomo.methods.least_determined import LeastDetermined
from duotomo.methods.motion_uncertainty import MotionUncertainty
from duotomo.methods.result import Result
from duotomo.transforms.transform import FEW_PARAMS

BREAST = 0.1
"""Voxels above this share of the largest attenuation, as a visit sees it, belong to the breast."""

MOST_POINTS = 2000
"""Of the breast, at which deviations are looked at."""

UPPER = 0.95
"""The quantile beside the median."""


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Median and 95th percentile of standard deviations over points, in mm."""

    median_mm: float
    upper_mm: float


@dataclass(frozen=True, kw_only=True, eq=False)
class UncertaintySummary:
    """How sure the motion of one visit is, over the breast.

    Parameters
    ----------
    model : str
        Class of the transform.
    form : str
        How the covariance was computed; "none" where there are no numbers.
    reason : str
        Why there are no numbers; empty if there are.
    n_params, n_modes : int
        Parameters of the model, and directions among them that the covariance is kept along.
    covariance : torch.Tensor, optional
        Of the parameters, (n_params, n_params), float64; only of models with at most 64.
    n_points : int
        Of the breast, that the following is about.
    determined : float
        Share of these points at which the data determine the motion.
    in_plane, in_depth : Spread, optional
        Of the deviations at those: `sqrt((vx + vy) / 2)`, and along z; none without such points.
    least_determined : tuple of LeastDetermined
        How the motion may be wrong, the likeliest first.
    """

    model: str
    form: str
    reason: str
    n_params: int
    n_modes: int
    covariance: torch.Tensor | None = field(default=None, repr=False)
    n_points: int = 0
    determined: float = 0.0
    in_plane: Spread | None = None
    in_depth: Spread | None = None
    least_determined: tuple[LeastDetermined, ...] = ()

    @property
    def words(self) -> str:
        """The same in one line.

        >>> few = {"model": "Rigid", "form": "sandwich", "reason": "", "n_params": 6, "n_modes": 6}
        >>> least = (LeastDetermined(words="shift along depth", deviation_mm=1.0, share=0.8),)
        >>> spreads = {"in_plane": Spread(median_mm=0.21, upper_mm=0.4)}
        >>> spreads["in_depth"] = Spread(median_mm=1.1, upper_mm=1.6)
        >>> UncertaintySummary(**few, n_points=9, determined=1.0, **spreads, least_determined=least).words
        '0.21 mm in plane, 1.1 mm in depth (median over the breast); least determined: shift along depth'
        >>> UncertaintySummary(**few | {"reason": "The run did not converge."}).words
        'not known. The run did not converge.'
        """
        if self.reason:
            return f"not known. {self.reason}"
        if self.in_plane is None or self.in_depth is None:
            return "the data determine the motion nowhere in the breast"
        text = f"{deviation_words(self.in_plane.median_mm, self.in_depth.median_mm)} (median over the breast"
        text += ")" if self.determined > 0.995 else f", determined in {100 * self.determined:.0f} % of it)"
        if self.least_determined:
            text += f"; least determined: {self.least_determined[0].words}"
        return text

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as plain values, which JSON can hold.

        Returns
        -------
        dict
            By name; the covariance is left out.
        """
        names = ("model", "form", "reason", "n_params", "n_modes", "n_points", "determined")
        return {
            **{name: getattr(self, name) for name in names},
            "in_plane": None if self.in_plane is None else asdict(self.in_plane),
            "in_depth": None if self.in_depth is None else asdict(self.in_depth),
            "least_determined": [asdict(one) for one in self.least_determined],
        }


def deviation_words(in_plane_mm: float, in_depth_mm: float) -> str:
    """Return two deviations with the digits that they deserve.

    >>> deviation_words(0.213, 11.4)
    '0.21 mm in plane, 11 mm in depth'
    """
    plane, depth = (f"{mm:.2g}" if mm < 10 else f"{mm:.0f}" for mm in (in_plane_mm, in_depth_mm))
    return f"{plane} mm in plane, {depth} mm in depth"


def summaries_of(result: Result, moving_grids: Sequence[VolumeGrid]) -> tuple[UncertaintySummary, ...]:
    """Summarise how sure the motions of a result are.

    Parameters
    ----------
    result : Result
        Whose `uncertainties` are known, one for each motion; without, there are no summaries either.
    moving_grids : sequence of VolumeGrid
        Of the moving visits.

    Returns
    -------
    tuple of UncertaintySummary
        Of each moving visit.
    """
    return tuple(
        _summary(one, result, grid)
        for one, grid in zip(result.uncertainties, moving_grids if result.uncertainties else (), strict=True)
    )


@torch.no_grad()
def _summary(uncertainty: MotionUncertainty, result: Result, grid: VolumeGrid) -> UncertaintySummary:
    motion = uncertainty.motion
    summary: dict[str, Any] = {
        "model": type(motion.transform).__name__,
        "form": uncertainty.form,
        "reason": uncertainty.reason,
        "n_params": len(motion.params),
        "n_modes": uncertainty.modes.shape[1] if uncertainty.is_known else 0,
    }
    if not uncertainty.is_known:
        return UncertaintySummary(**summary)
    if uncertainty.prior is None and len(motion.params) <= FEW_PARAMS:
        summary["covariance"] = uncertainty.covariance()
    points = _breast_points(result.volume, result.grid, uncertainty, grid)
    along = uncertainty.along(points)
    determined = uncertainty.is_determined(points, along=along)
    if bool(determined.any()):
        covariance = uncertainty.covariance_mm2(points[determined], along=along[determined])
        x, y, z = covariance.diagonal(dim1=-2, dim2=-1).unbind(-1)
        summary |= {"in_plane": _spread(((x + y) / 2).sqrt()), "in_depth": _spread(z.sqrt())}
    return UncertaintySummary(
        **summary,
        n_points=len(points),
        determined=float(determined.double().mean()),
        least_determined=tuple(uncertainty.least_determined(points, along=along)),
    )


def _breast_points(
    volume: torch.Tensor, grid: VolumeGrid, uncertainty: MotionUncertainty, moving_grid: VolumeGrid
) -> torch.Tensor:
    """Return centres of voxels of the breast in the moving frame, (point, xyz), in mm."""
    seen = uncertainty.motion.warp(grid, moving_grid)(volume).cpu()
    inside = torch.nonzero(seen > BREAST * seen.max())
    if len(inside) == 0:
        inside = torch.nonzero(torch.ones_like(seen))
    stride = math.ceil(len(inside) / MOST_POINTS)
    return torch.from_numpy(voxel_to_world(moving_grid, inside[::stride].numpy()).copy())


def _spread(deviations_mm: torch.Tensor) -> Spread:
    median_mm, upper_mm = deviations_mm.quantile(torch.tensor([0.5, UPPER], dtype=torch.float64)).tolist()
    return Spread(median_mm=median_mm, upper_mm=upper_mm)
