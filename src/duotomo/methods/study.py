"""The visits of one breast, reference first."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from duotomo.errors import DuotomoError, GeometryError, check_same, check_tensor
from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.operators import Projector

_AXES = ("view", "v", "u")


@dataclass(frozen=True, kw_only=True, eq=False)
class Visit:
    """One scan: line integrals, (view, v, u), and how they were taken.

    weights: the inverse variance of each ray, (view, v, u); None where it is not known, and the noise is then
    estimated. grid: where the breast is seen at this visit; None for the grid of the study.

    >>> scan = Acquisition.arc(n_views=1, angle_range_rad=0, source_to_detector_mm=660, pivot_height_mm=0,
    ...                        detector_shape=(8, 8), pixel_spacing_mm=(1, 1))
    >>> Visit(projections=torch.ones(1, 8, 8), acquisition=scan).projections.shape
    torch.Size([1, 8, 8])
    """

    projections: torch.Tensor = field(repr=False)
    acquisition: Acquisition
    weights: torch.Tensor | None = field(default=None, repr=False)
    grid: VolumeGrid | None = None

    def __post_init__(self) -> None:
        where, shape = "Visit", self.acquisition.shape
        check_tensor(where, "projections", self.projections, shape=shape, axes=_AXES, batch_ok=False)
        if not bool((self.projections > 0).any()):
            raise DuotomoError(
                f"{where}: expected projections of an object; got no positive line integral among "
                f"{self.projections.numel()}. Check the file, and that line integrals were passed, not "
                f"counts."
            )
        if self.weights is not None:
            like = self.projections
            check_tensor(where, "weights", self.weights, shape=shape, axes=_AXES, batch_ok=False)
            check_same(where, "weights", self.weights, device=like.device, dtype=like.dtype)
            if bool((self.weights < 0).any()) or not bool((self.weights > 0).any()):
                raise DuotomoError(
                    f"{where}: expected weights >= 0, some of them positive; got values from "
                    f"{float(self.weights.min()):.6g} to {float(self.weights.max()):.6g}. Pass inverse "
                    f"variances; zero leaves a ray out."
                )


@dataclass(frozen=True, kw_only=True, eq=False)
class Study:
    """The visits of one breast, the reference first, and the grid its volume is reconstructed on.

    >>> scan = Acquisition.arc(n_views=1, angle_range_rad=0, source_to_detector_mm=660, pivot_height_mm=0,
    ...                        detector_shape=(8, 8), pixel_spacing_mm=(1, 1))
    >>> visit = Visit(projections=torch.ones(1, 8, 8), acquisition=scan)
    >>> study = Study(grid=VolumeGrid.on_detector((4, 8, 8), (1.0, 1.0, 1.0)), visits=(visit, visit))
    >>> len(study.moving)
    1
    """

    grid: VolumeGrid
    visits: tuple[Visit, ...]

    def __post_init__(self) -> None:
        if not self.visits:
            raise DuotomoError(
                "Study: expected at least one visit; got none. Pass the reference visit first."
            )
        if self.reference.grid not in (None, self.grid):
            raise GeometryError(
                f"Study: expected the reference visit on the grid of the study, {self.grid}; got "
                f"{self.reference.grid}. Leave its grid out."
            )
        like = self.visits[0].projections
        for number, visit in enumerate(self.visits, start=1):
            where = f"Study, visit {number}"
            check_same(where, "projections", visit.projections, device=like.device, dtype=like.dtype)
            # A hundred or so voxels show whether any ray meets the grid.
            box = self.grid_of(visit).coarsen(_factors(self.grid_of(visit)))
            ones = torch.ones(box.shape, dtype=like.dtype, device=like.device)
            acquisition = visit.acquisition.bin(max(1, min(visit.acquisition.detector_shape) // 16))
            if not bool(Projector(grid=box, acquisition=acquisition)(ones).any()):
                raise GeometryError(
                    f"{where}: expected rays that meet the grid, {_box(self.grid_of(visit))}; got none that "
                    f"do. Check the units and the origin of the grid and of the acquisition."
                )

    @property
    def reference(self) -> Visit:
        """The visit whose frame the volume lives in."""
        return self.visits[0]

    @property
    def moving(self) -> tuple[Visit, ...]:
        """The other visits."""
        return self.visits[1:]

    def grid_of(self, visit: Visit) -> VolumeGrid:
        """Return the grid on which the volume is seen at a visit."""
        return visit.grid or self.grid


def _factors(grid: VolumeGrid) -> tuple[int, int, int]:
    z, y, x = (-(-n // 5) for n in grid.shape)
    return z, y, x


def _box(grid: VolumeGrid) -> str:
    pairs = zip("zyx", grid.low_mm, grid.high_mm, strict=True)
    return ", ".join(f"{axis} {low:g} to {high:g} mm" for axis, low, high in pairs)
