"""From one compression of a breast to another one: released, turned, compressed again, by a few modes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import torch

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.transforms.bspline import BSpline
from duotomo.transforms.compressions import Compressions
from duotomo.transforms.maps import ElementaryMap, move_points
from duotomo.transforms.transform import Physical, Transform
from duotomo.transforms.units import spacing_xyz

if TYPE_CHECKING:
    from duotomo.transforms.lattice_transform import LatticeTransform
    from duotomo.transforms.motion import Motion


class Recompression(Transform):
    """Motion from one compression of a breast to another, by modes, and a B-spline for what they leave.

    `T = press . turn . release . residual`. The first parameters are those of the modes, through `s = tanh`,
    so that no mode leaves the range in which compressions were computed; the others are coefficients of the
    B-spline. Zeros are what is expected of the modes: the motion that mechanics alone predicts, which is the
    identity only where nothing is expected to differ.

    Parameters
    ----------
    grid : VolumeGrid
        Of the moving visit.
    compressions : Compressions
        Of the breast; `duotomo.mechanics` computes them.
    residual : BSpline, optional
        In the moving frame; none unless given.
    """

    def __init__(self, grid: VolumeGrid, compressions: Compressions, residual: BSpline | None = None) -> None:
        self.grid, self.compressions, self.residual = grid, compressions, residual
        self.n_modes = len(compressions.modes)
        self.n_params = self.n_modes + (0 if residual is None else residual.n_params)

    def params(
        self, *, modes: Mapping[str, float | torch.Tensor], coefficients_mm: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the parameters of modes and coefficients.

        Parameters
        ----------
        modes : mapping of str to float
            Values by the names of the modes; those that are left out are as expected.
        coefficients_mm : torch.Tensor, optional
            Of the B-spline, (xyz, z, y, x), in mm; zeros unless given.

        Returns
        -------
        torch.Tensor
            (n_params,), float64.

        Raises
        ------
        DuotomoError
            If a name is not that of a mode, a value lies beyond its reach, or there is no B-spline.
        """
        known = {mode.name: mode for mode in self.compressions.modes}
        shares = torch.zeros(self.n_modes, dtype=torch.float64)
        for name, value in modes.items():
            if name not in known:
                raise DuotomoError(
                    f"Recompression: expected modes of {', '.join(known)}; got {name!r}. Choose among these."
                )
            mode = known[name]
            share = (float(value) - mode.expected) / mode.reach if mode.reach else 0.0
            if not abs(share) < 1:
                raise DuotomoError(
                    f"Recompression: expected {name} within {mode.reach:g} of {mode.expected:g}; got "
                    f"{float(value):g}. Compute compressions about another expected value."
                )
            shares[list(known).index(name)] = share
        rows = [torch.atanh(shares) / self._units]
        if self.residual is not None:
            of_none = torch.zeros(3, *self.residual.lattice.shape, dtype=torch.float64)
            given = of_none if coefficients_mm is None else coefficients_mm
            rows.append(self.residual.params(coefficients_mm=given))
        elif coefficients_mm is not None:
            raise DuotomoError(
                "Recompression: expected no coefficients_mm, for there is no B-spline; got some. Give a "
                "residual."
            )
        return torch.cat(rows)

    @property
    def control_spacing_mm(self) -> tuple[float, float, float] | None:
        return None if self.residual is None else self.residual.control_spacing_mm

    def lattice_parts(self) -> tuple[tuple[int, LatticeTransform], ...]:
        return () if self.residual is None else ((self.n_modes, self.residual),)

    def maps(self, params: torch.Tensor) -> tuple[ElementaryMap, ...]:
        left = () if self.residual is None else self.residual.maps(params[self.n_modes :])
        return (*left, *self.compressions.maps(self._shares(params)))

    def physical(self, params: torch.Tensor) -> Physical:
        """Return the modes, and the coefficients of the B-spline.

        Returns
        -------
        dict of str to dict or torch.Tensor
            `modes`, by name, each in the unit that its name ends with; and, if there is a B-spline,
            `coefficients_mm`, (xyz, z, y, x), in mm; float64.
        """
        params = self.check(params)
        values = self.compressions.values(self._shares(params))
        names = [mode.name for mode in self.compressions.modes]
        found: dict[str, torch.Tensor | Physical] = {"modes": dict(zip(names, values, strict=True))}
        if self.residual is not None:
            found |= self.residual.physical(params[self.n_modes :])
        return found

    def nearest_params(self, motion: Motion) -> torch.Tensor:
        """Return the same modes and the nearest B-spline; zeros for a motion that is no recompression.

        A motion of another kind, such as the identity that a run begins with, knows less of the views than
        what is expected.
        """
        params, other = self.identity(), motion.transform
        if isinstance(other, Recompression) and other.compressions is self.compressions:
            params[: self.n_modes] = motion.params[: self.n_modes] * (other._units / self._units)
            if self.residual is not None and other.residual is not None:
                left = type(motion)(other.residual, motion.params[self.n_modes :])
                params[self.n_modes :] = left.convert(self.residual).params
        return params

    def _shares(self, params: torch.Tensor) -> torch.Tensor:
        return torch.tanh(params[: self.n_modes] * self._units.to(params.device))

    @cached_property
    def _units(self) -> torch.Tensor:
        """How far a unit step of each parameter goes: corners of the grid move by about a voxel."""
        ends = zip(self.grid.low_mm[::-1], self.grid.high_mm[::-1], strict=True)
        corners = torch.tensor(list(itertools.product(*ends)), dtype=torch.float64)

        def moved(shares: torch.Tensor) -> torch.Tensor:
            return move_points(self.compressions.maps(shares), corners) / spacing_xyz(self.grid)

        slopes = torch.func.jacfwd(moved)(torch.zeros(self.n_modes, dtype=torch.float64))
        moves = slopes.square().sum(dim=1).mean(dim=0).sqrt()
        # A mode without reach, or without any effect, keeps its expected value whatever its parameter.
        return torch.where(moves > 0, 1 / moves.clamp(min=1e-9), 1.0)
