"""What is assumed of a motion before any data: smooth control points, and no part of it far away."""

from __future__ import annotations

import math

import torch

from duotomo.objectives.objective import Objective
from duotomo.transforms import Transform
from duotomo.transforms.bspline import axis_weights
from duotomo.transforms.lattice_transform import LatticeTransform
from duotomo.transforms.units import spacing_xyz

FAR_MM = 80.0
"""Standard deviation of a displacement that nothing else bounds."""

STIFFNESS = 10.0
"""Of the bending energy, in units of that of the run."""


class MotionPrior:
    """Gaussian prior of the parameters of one transform, `zeta ~ N(0, W W^T)`, in units of the misfit.

    Its precision is the curvature of the bending energy, times `STIFFNESS`, and `unit / FAR_MM^2` in
    millimetres. The components of a lattice are independent and alike but for the edges of voxels, which are
    the unit of parameters; so one triangular factor serves all three.

    Parameters
    ----------
    transform : Transform
        The model of the motion.
    bending : Objective, optional
        Bending energy as a function of all parameters, with the weight of the run.
    unit : float
        Variance that a misfit of 1/2 stands for: covariances are so many times those in its units.
    """

    def __init__(self, transform: Transform, bending: Objective | None, unit: float = 1.0) -> None:
        self.transform, self.n_params = transform, transform.n_params
        self._parts: list[tuple[slice, LatticeTransform, torch.Tensor, torch.Tensor]] = []
        edges = spacing_xyz(transform.grid)
        # Bending is in units of the misfit by itself. Without any noise, 80 units will do.
        far_mm = FAR_MM / math.sqrt(unit) if unit > 0 else FAR_MM
        self._others = torch.ones(self.n_params, dtype=torch.float64) * far_mm / float(edges.mean())
        for start, part in transform.lattice_parts():
            size = part.n_params // 3
            far = float(edges[0] / far_mm) ** 2 * torch.eye(size, dtype=torch.float64)
            matrix = far
            if bending is not None:
                product = bending.curvature(transform.identity())
                units = torch.zeros(size, self.n_params, dtype=torch.float64)
                units[:, start : start + size] = torch.eye(size, dtype=torch.float64)
                rows = torch.stack([product(unit)[start : start + size] for unit in units])
                matrix = matrix + STIFFNESS * (rows + rows.T) / 2
            # Along another axis, a unit of the parameters is another length.
            scales = edges[0] / edges
            own = slice(start, start + part.n_params)
            self._parts.append((own, part, torch.linalg.cholesky(matrix), scales))
            self._others[own] = 0.0

    def spread(self, rows: torch.Tensor) -> torch.Tensor:
        """Return `W x` for each row x, (row, n_params), float64."""
        result = rows * self._others
        for own, _, factor, scales in self._parts:
            values = rows[:, own].reshape(len(rows), 3, -1)
            solved = torch.linalg.solve_triangular(factor.T, values.flatten(0, 1).T, upper=True).T
            result[:, own] = (solved.reshape(values.shape) * scales[:, None]).flatten(1)
        return result

    def spread_adjoint(self, rows: torch.Tensor) -> torch.Tensor:
        """Return `W^T x` for each row x, (row, n_params), float64."""
        result = rows * self._others
        for own, _, factor, scales in self._parts:
            values = rows[:, own].reshape(len(rows), 3, -1) * scales[:, None]
            solved = torch.linalg.solve_triangular(factor, values.flatten(0, 1).T, upper=False).T
            result[:, own] = solved.reshape(values.shape).flatten(1)
        return result

    def drawn_beyond(self, modes: torch.Tensor, n: int) -> torch.Tensor:
        """Return parameters drawn from what of the prior lies outside of modes, (draw, n_params), float64.

        From `N(0, W (1 - U U^T) W^T)`, where modes are `W U`, (n_params, mode).
        """
        whole = modes.T / torch.where(self._others > 0, self._others, 1.0)
        for own, _, factor, scales in self._parts:
            values = whole[:, own].reshape(len(whole), 3, -1) / scales[:, None]
            whole[:, own] = (values @ factor).flatten(1)
        axes, sizes, _ = torch.linalg.svd(whole.T, full_matrices=False)
        drawn = torch.randn(n, self.n_params, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        # With several visits U holds only the rows of one: its columns are not longer than 1.
        within = 1 - (1 - sizes.square()).clamp(min=0).sqrt()
        return self.spread(drawn - ((drawn @ axes) * within) @ axes.T)

    def variance_beyond_mm2(self, xyz_mm: torch.Tensor, modes: torch.Tensor) -> torch.Tensor:
        """Return the variance of the displacement of points that lies outside of modes.

        For a lattice by itself, whose control points add up.

        Parameters
        ----------
        xyz_mm : torch.Tensor
            (point, xyz), in mm, float64.
        modes : torch.Tensor
            `W U`, (n_params, mode), U having orthonormal columns.

        Returns
        -------
        torch.Tensor
            The diagonal of `B W (1 - U U^T) W^T B^T`, B the splines' values at the points, (point, xyz), in
            mm^2, float64.
        """
        total = torch.zeros(len(xyz_mm), 3, dtype=torch.float64)
        edges = spacing_xyz(self.transform.grid)
        for own, part, factor, _ in self._parts:
            along = modes[own].reshape(3, part.n_params // 3, modes.shape[1])
            for some in range(0, len(xyz_mm), 1024):
                points = slice(some, some + 1024)
                rows = _basis_rows(part, xyz_mm[points])
                solved = torch.linalg.solve_triangular(factor, rows.T, upper=False)
                whole = solved.square().sum(dim=0) * float(edges[0]) ** 2
                within = ((rows @ along) * edges[:, None, None]).square().sum(dim=-1)
                total[points] += (whole[:, None] - within.T).clamp(min=0)
        return total


def _basis_rows(part: LatticeTransform, xyz_mm: torch.Tensor) -> torch.Tensor:
    """Return the weight of every control point at points, (point, control point)."""
    z, y, x = (axis_weights(part.lattice, xyz_mm[:, 2 - axis], axis) for axis in range(3))
    return torch.einsum("pz,py,px->pzyx", z, y, x).flatten(1)
