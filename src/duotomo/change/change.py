"""What changed between two visits: a map of scores, findings, and where nothing can be said."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import IntEnum

import torch

from duotomo.change.finding import Finding
from duotomo.geometry import VolumeGrid

RESEARCH = "Research use only: not for diagnosis."
"""Stands on every output."""

LITRE_MM3 = 1e6


class Silent(IntEnum):
    """Why no statement is made about a voxel; 0 where one is."""

    STATED = 0
    OUTSIDE_BREAST = 1
    OUTSIDE_VIEW = 2
    MOTION_UNDETERMINED = 3
    CHEST_WALL = 4
    NOT_COMPARED = 5


SILENT_WORDS = {
    Silent.OUTSIDE_BREAST: "outside of the breast, or at its skin",
    Silent.OUTSIDE_VIEW: "outside of the field of view of a visit",
    Silent.MOTION_UNDETERMINED: "the motion is not determined",
    Silent.CHEST_WALL: "at the chest wall",
    Silent.NOT_COMPARED: "the visits were not compared",
}


def stated_litres(silent: torch.Tensor, grid: VolumeGrid) -> float:
    """Return the volume that statements are made about; silent: a `Silent` for every voxel."""
    return float((silent == int(Silent.STATED)).sum()) * math.prod(grid.spacing_mm) / LITRE_MM3


@dataclass(frozen=True, kw_only=True)
class FalseFindings:
    """How many findings to expect in a breast that did not change, by the threshold of |z|.

    Parameters
    ----------
    thresholds : tuple of float
        Ascending.
    expected : tuple of float
        At each, per breast; descending.
    """

    thresholds: tuple[float, ...]
    expected: tuple[float, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Change:
    """What changed between the prior visit and the current one, which is the reference.

    Parameters
    ----------
    grid : VolumeGrid
        Of the maps, in the frame of the current visit.
    z_map : torch.Tensor
        (z, y, x), float32, on the CPU: the score of the template that fits best there; NaN where nothing is
        said.
    silent : torch.Tensor
        (z, y, x), uint8: a `Silent`.
    volume : torch.Tensor
        (z, y, x), 1/mm: the joint volume, and about findings that of the current visit alone.
    findings : tuple of Finding
        The surest first.
    threshold : float
        |z| from which on there is a finding.
    false_findings : FalseFindings
        To be expected.
    reason : str
        Why there are no findings at all; empty if the visits could be compared.
    """

    grid: VolumeGrid
    z_map: torch.Tensor = field(repr=False)
    silent: torch.Tensor = field(repr=False)
    volume: torch.Tensor = field(repr=False)
    findings: tuple[Finding, ...] = ()
    threshold: float
    false_findings: FalseFindings
    reason: str = ""

    @property
    def litres(self) -> float:
        """Volume of the breast that statements are made about."""
        return stated_litres(self.silent, self.grid)

    @classmethod
    def none(cls, grid: VolumeGrid, volume: torch.Tensor, reason: str) -> Change:
        """Return what is said of visits that were not compared: nothing, and why.

        Parameters
        ----------
        grid : VolumeGrid
            Of the volume.
        volume : torch.Tensor
            (z, y, x), 1/mm: the current visit.
        reason : str
            Why they were not.

        Returns
        -------
        Change
            Without findings, and silent everywhere.

        Examples
        --------
        >>> grid = VolumeGrid.on_detector((2, 3, 4), (1.0, 0.5, 0.5))
        >>> Change.none(grid, torch.zeros(2, 3, 4), "There is one visit only.").findings
        ()
        """
        return cls(
            grid=grid,
            z_map=torch.full(grid.shape, math.nan),
            silent=torch.full(grid.shape, int(Silent.NOT_COMPARED), dtype=torch.uint8),
            volume=volume.detach().cpu(),
            threshold=math.inf,
            false_findings=FalseFindings(thresholds=(), expected=()),
            reason=reason,
        )
