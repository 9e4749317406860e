"""The visits of one breast, reference first."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import torch

from duotomo.errors import DuotomoError, GeometryError, check_same, check_tensor
from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.operators import Projector

_AXES = ("view", "v", "u")


@dataclass(frozen=True, kw_only=True, eq=False)
class Visit:
    """One scan: line integrals and their acquisition.

    Parameters
    ----------
    projections : torch.Tensor
        Line integrals, (view, v, u), without unit.
    acquisition : Acquisition
        Geometry of the views.
    weights : torch.Tensor, optional
        Inverse variance of each ray, (view, v, u); zero leaves a ray out. Unless given, the noise is
        estimated.
    grid : VolumeGrid, optional
        Grid of the volume in the frame of this visit; that of the study unless given.

    Raises
    ------
    ShapeError, DtypeError, DeviceError, NonFiniteError
        If projections or weights do not fit the acquisition or each other.
    DuotomoError
        If no line integral is positive, a weight is negative, or all are zero.

    Examples
    --------
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
    """The visits of one breast, and the grid that its volume is reconstructed on.

    Parameters
    ----------
    grid : VolumeGrid
        Of the volume, in the frame of the reference visit.
    visits : tuple of Visit
        One or more, the reference first.

    Raises
    ------
    DuotomoError
        If there are no visits.
    GeometryError
        If the reference visit has another grid, or the rays of a visit miss its grid.
    DtypeError, DeviceError
        If the visits differ in precision or device.

    Examples
    --------
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
            z, y, x = (-(-n // 5) for n in self.grid_of(visit).shape)
            box = self.grid_of(visit).coarsen((z, y, x))
            ones = torch.ones(box.shape, dtype=like.dtype, device=like.device)
            acquisition = visit.acquisition.bin(max(1, min(visit.acquisition.detector_shape) // 16))
            if not bool(Projector(grid=box, acquisition=acquisition)(ones).any()):
                raise GeometryError(
                    f"{where}: expected rays that meet the grid, {_box(self.grid_of(visit))}; got none that "
                    f"do. Check the units and the origin of the grid and of the acquisition."
                )

    @property
    def reference(self) -> Visit:
        """The first visit, whose frame is that of the volume."""
        return self.visits[0]

    def to(self, device: torch.device | str) -> Self:
        """Return the same study with its data on a device.

        Parameters
        ----------
        device : torch.device or str
            Such as "cuda".

        Returns
        -------
        Study
            Itself, if the data are there already.
        """
        if self.reference.projections.device == torch.device(device):
            return self
        visits = tuple(
            replace(
                visit,
                projections=visit.projections.to(device),
                weights=None if visit.weights is None else visit.weights.to(device),
            )
            for visit in self.visits
        )
        return replace(self, visits=visits)

    @property
    def moving(self) -> tuple[Visit, ...]:
        """The other visits."""
        return self.visits[1:]

    def grid_of(self, visit: Visit) -> VolumeGrid:
        """Return the grid of the volume in the frame of a visit.

        Parameters
        ----------
        visit : Visit
            One of `visits`.

        Returns
        -------
        VolumeGrid
            Its own, or that of the study.
        """
        return visit.grid or self.grid


def _box(grid: VolumeGrid) -> str:
    pairs = zip("zyx", grid.low_mm, grid.high_mm, strict=True)
    return ", ".join(f"{axis} {low:g} to {high:g} mm" for axis, low, high in pairs)
