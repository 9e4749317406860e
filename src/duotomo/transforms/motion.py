"""A transform together with its parameters: the motion of one visit."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from duotomo.geometry import VolumeGrid
from duotomo.operators import Warp
from duotomo.transforms.inversion import invert
from duotomo.transforms.transform import Physical, Transform


@dataclass(frozen=True, eq=False)
class Motion:
    """Where points of the moving frame lie in the reference frame: a transform with its parameters.

    Parameters
    ----------
    transform : Transform
        The model of the motion, moving_to_reference.
    params : torch.Tensor
        Its parameters, (n_params,), float64; zeros are the identity.

    Examples
    --------
    >>> from duotomo.transforms import Translation
    >>> shift = Translation(VolumeGrid.on_detector((4, 6, 8), (1.0, 1.0, 1.0)))
    >>> motion = Motion(shift, shift.params(translation_mm=(2.0, 0.0, -1.0)))
    >>> motion.points(torch.zeros(3)).tolist(), motion.inverse().points(torch.zeros(3)).tolist()
    ([2.0, 0.0, -1.0], [-2.0, 0.0, 1.0])
    """

    transform: Transform
    params: torch.Tensor = field(repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "params", self.transform.check(self.params))

    @property
    def grid(self) -> VolumeGrid:
        """The grid that the transform was built on."""
        return self.transform.grid

    def points(self, xyz_mm: torch.Tensor) -> torch.Tensor:
        """Return where points go.

        Parameters
        ----------
        xyz_mm : torch.Tensor
            Points of the moving frame, (..., xyz), in mm.

        Returns
        -------
        torch.Tensor
            Where they lie in the reference frame, (..., xyz), in mm, float64.
        """
        return self.transform.points(self.params, xyz_mm)

    def jacobian(self, xyz_mm: torch.Tensor) -> torch.Tensor:
        """Return `dT_i / dx_j` at points.

        Parameters
        ----------
        xyz_mm
            As for `points`.

        Returns
        -------
        torch.Tensor
            (..., i, j), float64, without unit.
        """
        return self.transform.jacobian(self.params, xyz_mm)

    def warp(
        self,
        reference: VolumeGrid | None = None,
        moving: VolumeGrid | None = None,
        *,
        cubic: bool = False,
    ) -> Warp:
        """Return the operator `f -> f(T(.))`, which resamples a reference volume to the moving frame.

        Parameters
        ----------
        reference, moving, cubic
            As for `Transform.warp`.

        Returns
        -------
        Warp
            From (z, y, x) on the reference grid to (z, y, x) on the moving grid, with its exact adjoint.
        """
        return self.transform.warp(self.params, reference, moving, cubic=cubic)

    def displacement(self, grid: VolumeGrid | None = None) -> torch.Tensor:
        """Return `T(x) - x` at the voxel centres of a grid.

        Parameters
        ----------
        grid : VolumeGrid, optional
            Of the moving frame; that of the transform unless given.

        Returns
        -------
        torch.Tensor
            The displacement of each voxel centre, (xyz, z, y, x), in mm, float64.
        """
        return self.transform.displacement(self.params, grid)

    def determinants(self, grid: VolumeGrid | None = None) -> torch.Tensor:
        """Return the determinant of the Jacobian at the voxel centres of a grid.

        Parameters
        ----------
        grid : VolumeGrid, optional
            As for `displacement`.

        Returns
        -------
        torch.Tensor
            (z, y, x), float64: volume in the reference frame per volume in the moving frame.
        """
        return self.transform.determinants(self.params, grid)

    def inverse(
        self, grid: VolumeGrid | None = None, *, tolerance_mm: float = 1e-6, max_steps: int = 100
    ) -> Motion:
        """Return the motion from the reference frame to the moving frame; `invert` also returns its error.

        Parameters
        ----------
        grid : VolumeGrid, optional
            Of the reference frame: where displacements are given if there is no closed form.
        tolerance_mm, max_steps
            As for `invert`.

        Returns
        -------
        Motion
            In closed form where there is one, else of a `DisplacementField` on `grid`.
        """
        return invert(self, grid, tolerance_mm=tolerance_mm, max_steps=max_steps).motion

    def physical(self) -> Physical:
        """Return the parameters in physical units.

        Returns
        -------
        dict of str to torch.Tensor
            By name, in mm and degrees; see `physical` of the transform.
        """
        return self.transform.physical(self.params)

    def convert(self, transform: Transform) -> Motion:
        """Return the motion of another transform that is nearest to this one.

        Exact where the other transform can represent this one: translation, rigid, affine, B-spline is such
        an order.

        Parameters
        ----------
        transform : Transform
            The transform to convert to.

        Returns
        -------
        Motion
            The least-squares fit over the grid of `transform`.
        """
        return Motion(transform, transform.nearest_params(self))
