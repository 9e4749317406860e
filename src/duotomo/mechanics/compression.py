"""A breast between two plates: where each point of it goes, and the motion between two compressions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import ArrayLike

from duotomo.errors import GeometryError
from duotomo.geometry import VolumeGrid
from duotomo.geometry.frame import voxel_centers_mm, voxel_to_world
from duotomo.mechanics.balance import Squeeze, carried
from duotomo.mechanics.body_map import BodyMap
from duotomo.mechanics.breast_shape import BreastShape
from duotomo.mechanics.forces import Forces
from duotomo.mechanics.mesh import Floats, Ints, half_ellipsoid, signed_volumes
from duotomo.mechanics.plates import Paddle, Plates
from duotomo.mechanics.solver import Body
from duotomo.mechanics.stiffness import StiffnessMap, stiffness_at
from duotomo.mechanics.tissue import ElasticTissue
from duotomo.transforms import DisplacementField, Motion

LATTICE_MM = 2.0


def sampled_motion(
    to_reference: Callable[[Floats], Floats], grid: VolumeGrid, *, lattice_mm: float = LATTICE_MM
) -> Motion:
    """Return the motion that takes points of the moving frame where a function takes them.

    Parameters
    ----------
    to_reference : callable
        Takes points of the moving frame, (point, xyz) in mm, to the reference frame, (point, xyz) in mm.
    grid : VolumeGrid
        Of the moving visit: the lattice reaches a little beyond it, where displacements fade.
    lattice_mm : float
        Distance between the points that are taken; displacements are linear between them.

    Returns
    -------
    Motion
        Of a `DisplacementField` on the lattice, moving_to_reference.

    Examples
    --------
    >>> grid = VolumeGrid.on_detector((8, 8, 8), (1.0, 1.0, 1.0))
    >>> motion = sampled_motion(lambda points: points + np.array([1.0, 0.0, -2.0]), grid)
    >>> motion.points(torch.tensor([[0.0, 4.0, 4.0]])).tolist()
    [[1.0, 4.0, 2.0]]
    """
    n_z, n_y, n_x = (math.ceil(size / lattice_mm) + 3 for size in grid.size_mm)
    lattice = VolumeGrid(shape=(n_z, n_y, n_x), spacing_mm=(lattice_mm,) * 3, center_mm=grid.center_mm)
    points_mm = voxel_centers_mm(lattice).reshape(-1, 3)
    moved = (to_reference(points_mm) - points_mm).T.reshape(3, *lattice.shape)
    field = DisplacementField(lattice)
    return Motion(field, field.params(displacement_mm=torch.from_numpy(np.ascontiguousarray(moved))))


_COARSEST = 2
_LATTICE_MM = 1.5
_INVERSE_MM = 1e-4
_NEWTON_STEPS = 8


@dataclass(frozen=True, kw_only=True, eq=False)
class Compression:
    """A body at rest and between plates, as tetrahedra whose corners have moved.

    Parameters
    ----------
    rest_mm, moved_mm : numpy.ndarray
        Nodes before and after, (node, xyz), in mm; the rest frame is that of the body before it was turned.
    tetrahedra : numpy.ndarray
        Numbers of the nodes at their corners, (tetrahedron, 4).
    thickness_mm : float
        Between the plates.
    least_jacobian : float
        The smallest determinant of the deformation's gradient at the points where the energy was summed.
    """

    rest_mm: Floats = field(repr=False)
    moved_mm: Floats = field(repr=False)
    tetrahedra: Ints = field(repr=False)
    thickness_mm: float
    least_jacobian: float

    @property
    def volume_change(self) -> float:
        """The body's volume between the plates over that at rest, less one."""
        rest, moved = (
            signed_volumes(nodes, self.tetrahedra).sum() for nodes in (self.rest_mm, self.moved_mm)
        )
        return float(moved / rest) - 1

    def to_rest(self, points_mm: ArrayLike) -> Floats:
        """Return where points between the plates lay at rest, extended around the body.

        Parameters
        ----------
        points_mm : array_like
            In the machine frame, (..., xyz), in mm.

        Returns
        -------
        numpy.ndarray
            At rest, (..., xyz), in mm.
        """
        points = np.asarray(points_mm, dtype=np.float64)
        return self._to_rest.evaluate(points.reshape(-1, 3))[0].reshape(points.shape)

    def from_rest(self, points_mm: ArrayLike) -> Floats:
        """Return where points at rest go: the inverse of `to_rest`.

        Parameters
        ----------
        points_mm : array_like
            At rest, (..., xyz), in mm.

        Returns
        -------
        numpy.ndarray
            In the machine frame, (..., xyz), in mm.
        """
        points = np.asarray(points_mm, dtype=np.float64)
        flat = points.reshape(-1, 3)
        moved, _ = self._from_rest.evaluate(flat)
        outside = np.flatnonzero(~self._from_rest.contains(flat))
        moved[outside] = self._invert(flat[outside], moved[outside])
        return moved.reshape(points.shape)

    def field(
        self, grid: VolumeGrid, *, lattice_mm: float = _LATTICE_MM, dtype: torch.dtype = torch.float64
    ) -> torch.Tensor:
        """Return `to_rest(x) - x` at the voxel centres of a grid.

        Parameters
        ----------
        grid : VolumeGrid
            Between the plates.
        lattice_mm : float
            It is computed at points about so far apart, and linear between them where the grid is finer.
        dtype : torch.dtype
            Of the tensor.

        Returns
        -------
        torch.Tensor
            (xyz, z, y, x), in mm.
        """
        return _sampled(self.to_rest, grid, lattice_mm, dtype)

    def _invert(self, targets: Floats, start: Floats) -> Floats:
        """Solve `to_rest(x) = target` by Newton's method, each point for itself."""
        points, best = start.copy(), np.full(len(start), math.inf)
        open_ones, trial = np.arange(len(start)), start
        for _ in range(_NEWTON_STEPS):
            there, gradients = self._to_rest.evaluate(trial)
            missed = targets[open_ones] - there
            error = np.linalg.norm(missed, axis=1)
            better = error < best[open_ones]
            points[open_ones[better]], best[open_ones[better]] = trial[better], error[better]
            going = better & (error > _INVERSE_MM)
            open_ones = open_ones[going]
            trial = trial[going] + np.linalg.solve(gradients[going], missed[going, :, None])[..., 0]
        return points

    @cached_property
    def _to_rest(self) -> BodyMap:
        return BodyMap(self.moved_mm, self.rest_mm, self.tetrahedra)

    @cached_property
    def _from_rest(self) -> BodyMap:
        return BodyMap(self.rest_mm, self.moved_mm, self.tetrahedra)


def compress(
    shape: BreastShape,
    *,
    thickness_mm: float,
    roll_rad: float = 0.0,
    support_mm: float = 0.0,
    tissue: ElasticTissue | None = None,
    stiffness: StiffnessMap | None = None,
    forces: Forces | None = None,
    paddle: Paddle | None = None,
    slide_mm: tuple[float, float, float] = (0.0, 0.0, 0.0),
    refinements: int = 3,
    most_steps: int = 40,
) -> Compression:
    """Return a breast turned about its axis and then compressed between two plates.

    The plates are rigid; without `forces` and `paddle` they are parallel and slippery. The chest wall slides
    in its plane without turning; on the mean it goes nowhere but by `slide_mm`.

    Parameters
    ----------
    shape : BreastShape
        At rest.
    thickness_mm : float
        Between the plates.
    roll_rad : float
        About the axis through `center_mm` along y; a positive roll takes z towards x.
    support_mm : float
        Height of the lower plate's surface.
    tissue : ElasticTissue, optional
        The default one unless given.
    stiffness : callable, optional
        Takes points at rest, (point, xyz) in mm, to the shear modulus over that of fat, (point,); a
        `Stiffness` for instance. All is fat unless given.
    forces : Forces, optional
        Weight, and friction on the plates. None unless given.
    paddle : Paddle, optional
        How the upper plate tilts. It does not unless given.
    slide_mm : tuple of float
        How far the chest wall goes, (x, y, z), before the plates close; the plates stay half way above and
        below `center_mm`, so that z brings tissue nearer to the upper plate.
    refinements : int
        Of the mesh: 2 gives 489 nodes, 3 gives 3281.
    most_steps : int
        Of Newton's method, at each refinement.

    Returns
    -------
    Compression
        The body in balance.

    Raises
    ------
    GeometryError
        If the plates do not touch the body, or touch each other.
    DuotomoError
        If the forces do not balance after so many steps.

    Examples
    --------
    >>> shape = BreastShape(center_mm=(0.0, 0.0, 30.0), radii_mm=(40.0, 38.0, 27.0))
    >>> compressed = compress(shape, thickness_mm=45.0, refinements=1)
    >>> bool(compressed.to_rest((0.0, 10.0, 45.0))[2] > 55)
    True
    """
    turn = about_y(roll_rad)
    axes = turn @ np.diag(shape.radii_mm)
    height_mm = 2 * float(np.linalg.norm(axes[2]))
    if not 0 < thickness_mm < height_mm:
        raise GeometryError(
            f"compress: expected thickness_mm between 0 and the body's height, {height_mm:.6g}; got "
            f"{thickness_mm}. Plates further apart do not touch it."
        )
    if refinements < 1:
        raise GeometryError(
            f"compress: expected refinements >= 1; got {refinements}. 2 is quick, 3 fine, 4 takes minutes."
        )
    if not np.isfinite(slide_mm).all():
        raise GeometryError(f"compress: expected a finite slide_mm (x, y, z); got {slide_mm}.")
    center = np.asarray(shape.center_mm, dtype=np.float64)
    placed = center + np.asarray(slide_mm)
    squeeze = Squeeze(
        plates=Plates(middle_mm=float(center[2]), half_gap_mm=thickness_mm / 2, paddle=paddle or Paddle()),
        middle_mm=center,
        body_mm=placed,
        height_mm=height_mm,
        forces=forces or Forces(),
    )
    _check_gap(squeeze.plates, float(placed[1]), shape.radii_mm[1])

    def body(level: int) -> Body:
        mesh = half_ellipsoid(level, center_mm=placed, axes_mm=axes)
        return Body(
            mesh,
            tissue or ElasticTissue(),
            stiffness=stiffness_at(stiffness, center + (mesh.points_mm - placed) @ turn),
            load=squeeze.forces.weight_of(mesh),
        )

    finest = body(refinements)
    mesh = finest.mesh
    moved = None
    if stiffness is None and squeeze.plain and not any(slide_mm):
        # As it always was, to the bit.
        moved = _directly(
            squeeze, [*map(body, range(min(_COARSEST, refinements), refinements)), finest], most_steps
        )
    if moved is None:
        moved = squeeze.rested([*map(body, range(1, refinements)), finest], most_steps)
    lift = np.array([0.0, 0.0, support_mm - squeeze.plates.middle_mm + squeeze.plates.half_gap_mm])
    return Compression(
        rest_mm=center + (mesh.nodes_mm - placed) @ turn,
        moved_mm=moved + lift,
        tetrahedra=mesh.tetrahedra,
        thickness_mm=thickness_mm,
        least_jacobian=float(np.linalg.det(finest.gradients(moved)).min()),
    )


def motion_between(
    reference: Compression,
    moving: Compression,
    grid: VolumeGrid,
    *,
    shift_mm: tuple[float, float, float] = (0.0, 0.0, 0.0),
    lattice_mm: float = LATTICE_MM,
) -> Motion:
    """Return the motion of the tissue from one compression of a body to another.

    `T(x) = from_rest_reference(to_rest_moving(x - shift))`.

    Parameters
    ----------
    reference, moving : Compression
        Of the same body.
    grid : VolumeGrid
        Of the moving visit.
    shift_mm : tuple of float
        How far the body was shifted after the moving compression, (x, y, z) in mm.
    lattice_mm : float
        Distance between the points where the motion is taken; it is linear between them.

    Returns
    -------
    Motion
        Of a `DisplacementField` over `grid`, moving_to_reference.
    """
    shift = np.asarray(shift_mm)
    return sampled_motion(
        lambda points: reference.from_rest(moving.to_rest(points - shift)), grid, lattice_mm=lattice_mm
    )


def _sampled(
    places: Callable[[Floats], Floats], grid: VolumeGrid, lattice_mm: float, dtype: torch.dtype
) -> torch.Tensor:
    """Return `places(x) - x` at voxel centres, from a lattice that begins and ends with voxel centres."""
    if not lattice_mm > 0:
        raise GeometryError(f"Compression: expected lattice_mm > 0; got {lattice_mm}. 1.5 mm is fine enough.")
    spans_mm = [(n - 1) * d for n, d in zip(grid.shape, grid.spacing_mm, strict=True)]
    counts = [min(n, math.ceil(span / lattice_mm) + 1) for n, span in zip(grid.shape, spans_mm, strict=True)]
    index = np.meshgrid(
        *(np.linspace(0, n - 1, count) for n, count in zip(grid.shape, counts, strict=True)), indexing="ij"
    )
    points = voxel_to_world(grid, np.stack(index, axis=-1))
    shifts = torch.from_numpy(np.moveaxis(places(points) - points, -1, 0).copy()).to(dtype)
    if tuple(counts) == grid.shape:
        return shifts
    return torch.nn.functional.interpolate(
        shifts[None], size=grid.shape, mode="trilinear", align_corners=True
    )[0]


def _directly(squeeze: Squeeze, bodies: list[Body], most_steps: int) -> Floats | None:
    """Return where slippery plates leave the last body, each starting the next; none if it finds no rest."""
    settled = bodies[0].settle(
        squeeze.stretched(bodies[0].mesh.nodes_mm), squeeze.plates, most_steps=most_steps
    )
    for coarse, fine in pairwise(bodies):
        shifts = carried(coarse.mesh.nodes_mm, settled.nodes_mm - coarse.mesh.nodes_mm, fine.mesh.nodes_mm)
        settled = fine.settle(fine.mesh.nodes_mm + shifts, squeeze.plates, most_steps=most_steps)
    return settled.nodes_mm if settled.converged else None


def _check_gap(plates: Plates, wall_mm: float, depth_mm: float) -> None:
    """Raise unless a tilted plate stays above the lower one all along the body."""
    share = np.linspace(0.0, 1.0, 101)
    gap_mm = 2 * plates.half_gap_mm + plates.paddle.rise_mm(wall_mm + share * depth_mm)
    if gap_mm.min() <= 0:
        raise GeometryError(
            f"compress: expected plates that stay apart from the chest wall to the nipple; got "
            f"{gap_mm.min():.6g} mm. Is the tilt's sign right, and at_y_mm where the thickness is meant?"
        )


def about_y(angle_rad: float) -> Floats:
    """Return the matrix of a turn that takes z towards x, (xyz, xyz)."""
    cos, sin = math.cos(angle_rad), math.sin(angle_rad)
    return np.array([[cos, 0.0, sin], [0.0, 1.0, 0.0], [-sin, 0.0, cos]])
