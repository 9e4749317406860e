"""Updates of the iterative method: how the volumes of all visits are combined after an iteration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from duotomo.geometry import VolumeGrid
from duotomo.methods.registration import resample_to_reference
from duotomo.transforms import Motion


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimates:
    """A volume of each visit in its own frame, the reference first, and the motion between them.

    Parameters
    ----------
    volumes : tuple of torch.Tensor
        f_1, f_2, ..., each (z, y, x) on its grid, 1/mm.
    grids : tuple of VolumeGrid
        Of the volumes.
    motions : tuple of Motion
        moving_to_reference, of each moving visit.
    """

    volumes: tuple[torch.Tensor, ...] = field(repr=False)
    grids: tuple[VolumeGrid, ...]
    motions: tuple[Motion, ...] = field(repr=False)

    def moving_in_reference(self) -> torch.Tensor:
        """Return the mean over the moving visits k of `f_k(T_k^-1(x))`.

        Returns
        -------
        torch.Tensor
            (z, y, x) on the reference grid, in 1/mm.
        """
        total = torch.zeros_like(self.volumes[0])
        for volume, grid, motion in zip(self.volumes[1:], self.grids[1:], self.motions, strict=True):
            total += resample_to_reference(volume, motion, grid=self.grids[0], moving_grid=grid)
        return total / len(self.motions)

    def reference_in_moving(self) -> tuple[torch.Tensor, ...]:
        """Return the reference volume resampled to the frame of each moving visit, `f_1(T_k(x))`.

        Returns
        -------
        tuple of torch.Tensor
            (z, y, x) on the grid of each moving visit, in 1/mm.
        """
        return tuple(
            motion.warp(self.grids[0], grid)(self.volumes[0])
            for grid, motion in zip(self.grids[1:], self.motions, strict=True)
        )


Update = Callable[[Estimates], tuple[torch.Tensor, ...]]
"""Returns the volumes that the next reconstructions start from, in the order of the visits."""


def replaced(estimates: Estimates) -> tuple[torch.Tensor, ...]:
    """Replace the reference volume by the moving ones, resampled: `f_1 <- T^-1 f_2`.

    Parameters
    ----------
    estimates : Estimates
        Volume of each visit in its own frame, and the motions.

    Returns
    -------
    tuple of torch.Tensor
        Volumes that the next reconstructions start from, (z, y, x) on the grid of each visit, in 1/mm.

    Examples
    --------
    >>> from duotomo.transforms import Motion, Translation
    >>> grid = VolumeGrid.on_detector((1, 1, 4), (1.0, 1.0, 1.0))
    >>> f_1, f_2 = torch.tensor([[[[0.0, 8.0, 0.0, 0.0]]], [[[2.0, 4.0, 0.0, 0.0]]]])
    >>> motion = Motion(Translation(grid), torch.tensor([1.0, 0.0, 0.0]))
    >>> both = Estimates(volumes=(f_1, f_2), grids=(grid, grid), motions=(motion,))
    >>> [volume.flatten().tolist() for volume in replaced(both)]
    [[0.0, 2.0, 4.0, 0.0], [2.0, 4.0, 0.0, 0.0]]
    """
    return estimates.moving_in_reference(), *estimates.volumes[1:]


def averaged(estimates: Estimates) -> tuple[torch.Tensor, ...]:
    """Replace the reference volume by the mean of both: `f_1 <- (f_1 + T^-1 f_2) / 2`.

    Parameters
    ----------
    estimates : Estimates
        As for `replaced`.

    Returns
    -------
    tuple of torch.Tensor
        As `replaced` returns them.
    """
    reference, *moving = estimates.volumes
    return (reference + estimates.moving_in_reference()) / 2, *moving


def symmetric(estimates: Estimates) -> tuple[torch.Tensor, ...]:
    """Replace every volume by the mean of both: `f_1 <- (f_1 + T^-1 f_2) / 2` and `f_2 <- (f_2 + T f_1) / 2`.

    Parameters
    ----------
    estimates
        As for `replaced`.

    Returns
    -------
    tuple of torch.Tensor
        Means in the frame of each visit, (z, y, x) on its grid, in 1/mm.
    """
    seen = zip(estimates.volumes[1:], estimates.reference_in_moving(), strict=True)
    return averaged(estimates)[0], *((volume + reference) / 2 for volume, reference in seen)
