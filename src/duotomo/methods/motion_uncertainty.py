"""How sure a motion is, in millimetres: at points, on a grid, and in words."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.geometry.frame import voxel_centers_mm
from duotomo.methods.error_levels import quantile
from duotomo.methods.least_determined import LeastDetermined, named_components
from duotomo.methods.level import coarsening, interpolated
from duotomo.methods.motion_prior import MotionPrior
from duotomo.methods.structure import Structure
from duotomo.transforms import Motion
from duotomo.transforms.lattice_transform import LatticeTransform

DETERMINED = 0.5
"""Share of the prior's variance below which the data determine a displacement."""

SEEN = 0.05
"""Least structure, of that at strong edges, that the data see a displacement by."""

GROWTH, LEAST_STRUCTURE = 0.70, 0.05
"""Power of the structure about a place that its variance grows with, and what is added to structure first.

Where there is much, near the skin above all, voxels and splines leave more than the residuals say. Fitted."""

N_DRAWN = 64
"""Draws of what the prior holds beyond the modes of a chain of transforms: deviations to 9 %."""

MAP_MM = 6.0
"""Distance of the points of a map that are computed; between them it is interpolated."""


@dataclass(frozen=True, kw_only=True, eq=False)
class MotionUncertainty:
    """Covariance of the parameters of one motion, `D K D^T + s W W^T`, and what follows for displacements.

    `D = W U` with orthonormal columns of U, so that it is `D (K + s) D^T + s W (1 - U U^T) W^T`: along the
    modes, and beyond.

    Where nothing can be said, `reason` tells why, and whatever is asked for is NaN.

    Parameters
    ----------
    motion : Motion
        Of the moving visit.
    form : str
        How the covariance was computed: "sandwich", "laplace", "noise" or "bootstrap".
    modes : torch.Tensor
        D, (n_params, mode), float64.
    core : torch.Tensor
        K, (mode, mode), float64.
    prior : MotionPrior, optional
        Of W; none for few parameters.
    prior_share : float
        s.
    learnt : torch.Tensor, optional
        Share of the prior's variance that the data take away, along the modes, (mode, mode).
    structure : Structure, optional
        Of the moving volume; with control points, a motion is not seen where there is none.
    axes : tuple of float
        Variances of displacements along x, y and z, over those that follow from the parameters.
    about : Structure, optional
        Of the moving volume, in a wider window: variances grow with it.
    beside_mm : float
        Standard deviation of where points go, along x, y and z alike, that no parameter accounts for: what a
        model of compressions leaves.
    reason : str
        Why there are no numbers; empty if there are.
    """

    motion: Motion
    form: str
    modes: torch.Tensor = field(repr=False)
    core: torch.Tensor = field(repr=False)
    prior: MotionPrior | None = field(default=None, repr=False)
    prior_share: float = 0.0
    learnt: torch.Tensor | None = field(default=None, repr=False)
    structure: Structure | None = field(default=None, repr=False)
    axes: tuple[float, float, float] = (1.0, 1.0, 1.0)
    about: Structure | None = field(default=None, repr=False)
    beside_mm: float = 0.0
    reason: str = ""

    @classmethod
    def none(cls, motion: Motion, reason: str) -> MotionUncertainty:
        """Return one without numbers.

        Parameters
        ----------
        motion : Motion
            Of the moving visit.
        reason : str
            Why.

        Returns
        -------
        MotionUncertainty
            Whose deviations are NaN.
        """
        empty = torch.full((len(motion.params), 1), math.nan, dtype=torch.float64)
        return cls(motion=motion, form="none", modes=empty, core=empty[:1], reason=reason)

    @property
    def is_known(self) -> bool:
        """Whether there are numbers."""
        return not self.reason

    def covariance(self) -> torch.Tensor:
        """Return the covariance of the parameters.

        Returns
        -------
        torch.Tensor
            (n_params, n_params), float64.

        Raises
        ------
        DuotomoError
            If there are control points, whose prior is not kept as a matrix.
        """
        if self.prior is not None:
            raise DuotomoError(
                f"MotionUncertainty.covariance: expected a model without control points; got "
                f"{type(self.motion.transform).__name__} with {len(self.modes)} parameters. Ask for points: "
                f"covariance_mm2."
            )
        return self.modes @ self.core @ self.modes.T

    @torch.no_grad()
    def along(self, xyz_mm: torch.Tensor) -> torch.Tensor:
        """Return how points move along the modes, which all else that is asked of them follows from.

        Parameters
        ----------
        xyz_mm
            As for `covariance_mm2`.

        Returns
        -------
        torch.Tensor
            (..., xyz, mode), in mm for each unit of a mode, float64.
        """
        if not self.is_known:
            return torch.full((*xyz_mm.shape, self.modes.shape[1]), math.nan, dtype=torch.float64)
        return self._moved(_points(xyz_mm), self.modes.T).reshape(*xyz_mm.shape, -1)

    @torch.no_grad()
    def covariance_mm2(self, xyz_mm: torch.Tensor, *, along: torch.Tensor | None = None) -> torch.Tensor:
        """Return the covariance of where points go.

        Parameters
        ----------
        xyz_mm : torch.Tensor
            Points of the moving frame, (..., xyz), in mm.
        along : torch.Tensor, optional
            What `along` returns of them, if it is known already.

        Returns
        -------
        torch.Tensor
            (..., xyz, xyz), in mm^2, float64.
        """
        points, along = self._known_along(xyz_mm, along)
        total = along @ self._of_modes() @ along.transpose(1, 2)
        if self.prior is not None and self.prior_share > 0:
            total += torch.diag_embed(self.prior_share * self._beyond_mm2(points, self.prior))
        factors = self._factors(points)
        total *= factors[:, :, None] * factors[:, None, :]
        total += self.beside_mm**2 * torch.eye(3, dtype=torch.float64)
        return _positive(total).reshape(*xyz_mm.shape[:-1], 3, 3)

    def _factors(self, points: torch.Tensor) -> torch.Tensor:
        """Return deviations of displacements over those that follow from the parameters, (point, xyz)."""
        factors = torch.tensor(self.axes, dtype=torch.float64).sqrt().repeat(len(points), 1)
        if self.about is not None:
            factors *= (self.about.at(points).double() + LEAST_STRUCTURE)[:, None] ** (GROWTH / 2)
        return factors

    def _known_along(
        self, xyz_mm: torch.Tensor, along: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return points in a row, (point, xyz), and how they move along the modes, (point, xyz, mode)."""
        along = self.along(xyz_mm) if along is None else along
        return _points(xyz_mm), along.reshape(-1, 3, along.shape[-1])

    def _beyond_mm2(self, points: torch.Tensor, prior: MotionPrior) -> torch.Tensor:
        """Return the prior's variance outside of the modes, along x, y and z, (point, xyz)."""
        if isinstance(self.motion.transform, LatticeTransform):
            return prior.variance_beyond_mm2(points, self.modes)
        # What a matrix does, control points can undo: only both together tell how points move.
        moved = self._moved(points, prior.drawn_beyond(self.modes, N_DRAWN))
        return moved.square().mean(dim=-1)

    def _moved(self, points: torch.Tensor, directions: torch.Tensor) -> torch.Tensor:
        """Return how points move along directions of the parameters, (point, xyz, direction)."""
        transform, params = self.motion.transform, self.motion.params
        columns = [
            torch.func.jvp(lambda p: transform.points(p, points), (params,), (row.contiguous(),))[1]
            for row in directions
        ]
        return torch.stack(columns, dim=-1)

    def _of_modes(self) -> torch.Tensor:
        """Return the covariance along the modes, what the prior adds included."""
        return self.core + self.prior_share * torch.eye(len(self.core), dtype=torch.float64)

    def deviation_mm(self, xyz_mm: torch.Tensor) -> torch.Tensor:
        """Return the standard deviation of where points go, along x, y and z.

        Parameters
        ----------
        xyz_mm
            As for `covariance_mm2`.

        Returns
        -------
        torch.Tensor
            (..., xyz), in mm, float64; z is depth.
        """
        return self.covariance_mm2(xyz_mm).diagonal(dim1=-2, dim2=-1).sqrt()

    @torch.no_grad()
    def is_determined(self, xyz_mm: torch.Tensor, *, along: torch.Tensor | None = None) -> torch.Tensor:
        """Return where the data add to what is assumed of the motion.

        Parameters
        ----------
        xyz_mm, along
            As for `covariance_mm2`.

        Returns
        -------
        torch.Tensor
            (...), bool: whether there is structure near, by a seventh of the distance of control points, and
            the data take away half of the prior's variance, along every axis. Elsewhere the motion follows
            from smoothness alone. True everywhere for a model without control points.
        """
        points = _points(xyz_mm)
        found = self._is_learnt(xyz_mm, along)
        if self.structure is not None:
            found &= self.structure.at(points) > SEEN
        return found.reshape(xyz_mm.shape[:-1])

    def _is_learnt(self, xyz_mm: torch.Tensor, along: torch.Tensor | None) -> torch.Tensor:
        """Return where the data take away half of the prior's variance, along every axis, (point,)."""
        if not self.is_known or self.prior is None or self.learnt is None:
            return torch.full((xyz_mm.shape[:-1].numel(),), self.is_known)
        points, along = self._known_along(xyz_mm, along)
        taken = torch.einsum("pik,kl,pil->pi", along, self.learnt, along)
        assumed = along.square().sum(dim=-1) + self._beyond_mm2(points, self.prior)
        left = 1 - taken / assumed.clamp(min=1e-30)
        return left.amax(dim=1) < DETERMINED

    def ellipsoids_mm(self, xyz_mm: torch.Tensor, level: float = 0.95) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the ellipsoids that hold where points truly go with some probability.

        Parameters
        ----------
        xyz_mm
            As for `covariance_mm2`.
        level : float
            The probability.

        Returns
        -------
        radii_mm : torch.Tensor
            Half axes, (..., 3), the longest last.
        axes : torch.Tensor
            Their directions, (..., xyz, 3), in columns.
        """
        values, vectors = torch.linalg.eigh(self.covariance_mm2(xyz_mm))
        return values.clamp(min=0).sqrt() * math.sqrt(quantile(level)), vectors

    def map_mm(self, grid: VolumeGrid) -> torch.Tensor:
        """Return the standard deviation at the voxels of a grid of the moving frame.

        Parameters
        ----------
        grid : VolumeGrid
            Of the moving frame.

        Returns
        -------
        torch.Tensor
            (xyz, z, y, x), in mm, float32; NaN where the motion is not determined.
        """
        factors = coarsening(grid, MAP_MM)
        coarse = grid.coarsen(factors)
        points = _centers_mm(coarse)
        along = self.along(points)
        variances = self.covariance_mm2(points, along=along).diagonal(dim1=-2, dim2=-1)
        field_mm = variances.sqrt().T.reshape(3, *coarse.shape).float()
        result = interpolated(field_mm, factors, grid.shape)
        seen = self._is_learnt(points, along).reshape(1, *coarse.shape).float()
        seen = interpolated(seen, factors, grid.shape, mode="nearest-exact")[0] > 0
        if self.structure is not None:
            seen &= self.structure.at(_centers_mm(grid)).reshape(grid.shape) > SEEN
        return torch.where(seen, result, math.nan)

    @torch.no_grad()
    def least_determined(
        self, xyz_mm: torch.Tensor, n: int = 3, *, along: torch.Tensor | None = None
    ) -> list[LeastDetermined]:
        """Return how the motion of points may be wrong, the likeliest first.

        Parameters
        ----------
        xyz_mm : torch.Tensor
            Points of the moving frame, (n, xyz), in mm, such as those of the breast.
        n : int
            How many.
        along
            As for `covariance_mm2`.

        Returns
        -------
        list of LeastDetermined
            Principal components of the displacements of the points, each by the nearest of an affine motion's
            twelve, or as "bending"; none where there are no numbers.
        """
        if not self.is_known:
            return []
        points, along = self._known_along(xyz_mm, along)
        values, vectors = torch.linalg.eigh(self._of_modes())
        fields = (along * self._factors(points)[..., None]) @ (vectors * values.clamp(min=0).sqrt())
        return named_components(points, fields, n)

    def samples(self, n: int, seed: int = 0) -> list[Motion]:
        """Return motions drawn from the modes of the covariance.

        Parameters
        ----------
        n : int
            How many.
        seed : int
            Of the random numbers.

        Returns
        -------
        list of Motion
            About the motion found; what the prior adds outside of the modes, and `axes` and `about`, are left
            out.

        Raises
        ------
        DuotomoError
            If there are no numbers.
        """
        if not self.is_known:
            raise DuotomoError(
                f"MotionUncertainty.samples: expected a known covariance; got none. {self.reason}"
            )
        values, vectors = torch.linalg.eigh(self._of_modes())
        factor = self.modes @ (vectors * values.clamp(min=0).sqrt())
        drawn = torch.randn(
            n, factor.shape[1], dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
        )
        return [Motion(self.motion.transform, self.motion.params + factor @ row) for row in drawn]


def _points(xyz_mm: torch.Tensor) -> torch.Tensor:
    """Return points in a row, (point, xyz), float64 on the CPU."""
    return xyz_mm.reshape(-1, 3).double().cpu()


def _centers_mm(grid: VolumeGrid) -> torch.Tensor:
    """Return the centres of all voxels, (voxel, xyz)."""
    return torch.from_numpy(voxel_centers_mm(grid)).reshape(-1, 3)


def _positive(matrices: torch.Tensor) -> torch.Tensor:
    """Return symmetric matrices whose negative eigenvalues, of rounding, are zero."""
    matrices = (matrices + matrices.transpose(-1, -2)) / 2
    if not bool(matrices.isfinite().all()):
        return matrices
    values, vectors = torch.linalg.eigh(matrices)
    result: torch.Tensor = (vectors * values.clamp(min=0)[..., None, :]) @ vectors.transpose(-1, -2)
    return result
