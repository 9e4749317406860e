"""What two compressions of one breast do to it: displacements as polynomials of a few common modes."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from duotomo.errors import DuotomoError, ShapeError
from duotomo.geometry import VolumeGrid
from duotomo.transforms.maps import ElementaryMap, LatticeMap, MatrixMap

N_EXACT = 6
"""Modes that act by themselves: two rolls, two shifts of the chest wall, and how it leans about x and z."""


@dataclass(frozen=True, kw_only=True)
class Mode:
    """One of the few ways in which compressions can differ from what is expected of them.

    Its value is `expected + reach s`, -1 < s < 1.

    Parameters
    ----------
    name : str
        With the unit at its end, as in `roll_moving_deg`.
    expected, reach : float
        In that unit.
    """

    name: str
    expected: float
    reach: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Response:
    """Displacements by the modes of a compression: a quadratic polynomial at each point of a lattice.

    `u(x; s) = sum over monomials m of degree 0 to 2 of m(s) c_m(x)`, each c_m a cubic spline.

    Parameters
    ----------
    lattice : VolumeGrid
        Its voxel centres are the control points.
    modes : tuple of int
        Numbers of the modes that the displacements depend on, in the order of the monomials.
    coefficients : torch.Tensor
        Of the splines c_m, (monomial, xyz, z, y, x), float64, in mm; the order is that of `monomials`.

    Raises
    ------
    ShapeError
        If the coefficients do not fit the lattice and the modes.
    """

    lattice: VolumeGrid
    modes: tuple[int, ...]
    coefficients: torch.Tensor = field(repr=False)

    def __post_init__(self) -> None:
        expected = (n_monomials(len(self.modes)), 3, *self.lattice.shape)
        if tuple(self.coefficients.shape) != expected:
            raise ShapeError(
                f"Response: expected coefficients (monomial, xyz, z, y, x) = {expected}; got "
                f"{tuple(self.coefficients.shape)}. There are (n + 1) (n + 2) / 2 monomials of n modes."
            )

    def at(self, shares: torch.Tensor) -> LatticeMap:
        """Return the map of points for the values of all modes, differentiable in them.

        Parameters
        ----------
        shares : torch.Tensor
            s of each mode, (mode,), float64, without unit.

        Returns
        -------
        LatticeMap
            Of points in mm.
        """
        terms = monomials(shares[list(self.modes)])
        coefficients = torch.tensordot(terms, self.coefficients.to(terms.device), dims=1)
        return LatticeMap(lattice=self.lattice, coefficients=coefficients)


@dataclass(frozen=True, kw_only=True, eq=False)
class Compressions:
    """What the compressions of one breast in two views do to it, by common modes.

    A point of the moving frame is released from its plates, turned back by the roll of the moving view,
    turned and shifted as the chest wall is, turned by the roll of the reference, and pressed between the
    plates of the reference. All turns are about the middle of the chest wall, rolls about the axis along y; a
    positive roll takes z towards x.

    Parameters
    ----------
    modes : tuple of Mode
        All of them. The first six are the rolls of the moving and the reference view in degrees, the shift of
        the chest wall along x and y in mm, and the angles by which it leans about x and z in degrees. The
        others act through the responses alone.
    release, press : Response
        In the moving frame, and in the reference frame of a breast at rest that has been turned.
    moving_center_mm, reference_center_mm : tuple of float
        Middle of the chest wall at rest, (x, y, z), in both frames.

    Raises
    ------
    DuotomoError
        If there are fewer than six modes.
    """

    modes: tuple[Mode, ...]
    release: Response
    press: Response
    moving_center_mm: tuple[float, float, float]
    reference_center_mm: tuple[float, float, float]

    def __post_init__(self) -> None:
        if len(self.modes) < N_EXACT:
            raise DuotomoError(
                f"Compressions: expected {N_EXACT} modes or more, two rolls, two shifts and two angles "
                f"first; got {len(self.modes)}. Give what is known exactly a reach of 0."
            )

    def values(self, shares: torch.Tensor) -> torch.Tensor:
        """Return the modes in their units.

        Parameters
        ----------
        shares : torch.Tensor
            s of each mode, (mode,), float64, without unit.

        Returns
        -------
        torch.Tensor
            `expected + reach s`, (mode,), float64, each in the unit of its name.
        """
        expected = shares.new_tensor([mode.expected for mode in self.modes])
        reach = shares.new_tensor([mode.reach for mode in self.modes])
        return expected + reach * shares

    def maps(self, shares: torch.Tensor) -> tuple[ElementaryMap, ...]:
        """Return the maps of points from the moving to the reference frame, differentiable in the shares.

        Parameters
        ----------
        shares : torch.Tensor
            s of each mode, (mode,), float64, without unit.

        Returns
        -------
        tuple of MatrixMap or LatticeMap
            Release, turn and press, applied in this order to points in mm.
        """
        roll_moving, roll_reference, shift_x, shift_y, lean_x, lean_z = self.values(shares)[:N_EXACT]
        turn = _turn(1, roll_reference) @ _turn(0, lean_x) @ _turn(2, lean_z) @ _turn(1, -roll_moving)
        shift = torch.stack([shift_x, shift_y, torch.zeros_like(shift_x)])
        start, end = (shares.new_tensor(mm) for mm in (self.moving_center_mm, self.reference_center_mm))
        offset = end + shift - turn @ start
        linear = MatrixMap(matrix=torch.cat([turn, offset[:, None]], dim=1))
        return self.release.at(shares), linear, self.press.at(shares)


def n_monomials(n: int) -> int:
    """Return how many monomials of degree 0 to 2 there are of n variables."""
    return (n + 1) * (n + 2) // 2


def monomials(values: torch.Tensor) -> torch.Tensor:
    """Return `1, s_1, ..., s_n, s_1 s_1, s_1 s_2, ..., s_n s_n` of values s, (..., n): (..., monomial).

    Examples
    --------
    >>> monomials(torch.tensor([2.0, 3.0])).tolist()
    [1.0, 2.0, 3.0, 4.0, 6.0, 9.0]
    """
    n = values.shape[-1]
    rows, columns = torch.triu_indices(n, n)
    squares = values[..., rows] * values[..., columns]
    return torch.cat([torch.ones_like(values[..., :1]), values, squares], dim=-1)


def _turn(axis: int, angle_deg: torch.Tensor) -> torch.Tensor:
    """Return the matrix of a right-handed turn about x, y or z, (3, 3)."""
    cos, sin = torch.cos(torch.deg2rad(angle_deg)), torch.sin(torch.deg2rad(angle_deg))
    zero, one = torch.zeros_like(cos), torch.ones_like(cos)
    turn = torch.stack([cos, -sin, zero, sin, cos, zero, zero, zero, one]).reshape(3, 3)
    # About z, until the axes are called otherwise.
    return turn.roll((axis + 1, axis + 1), dims=(0, 1))
