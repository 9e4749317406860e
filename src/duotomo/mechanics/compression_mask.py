"""Compression of a body that is given as voxels."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from duotomo.errors import GeometryError, ShapeError
from duotomo.geometry import VolumeGrid
from duotomo.mechanics.balance import Squeeze, checked
from duotomo.mechanics.compression import Compression
from duotomo.mechanics.forces import Forces
from duotomo.mechanics.mesh import BodyMesh, Floats, body_mesh, library
from duotomo.mechanics.plates import Plates
from duotomo.mechanics.solver import Body
from duotomo.mechanics.stiffness import StiffnessMap, stiffness_at
from duotomo.mechanics.tissue import ElasticTissue

# A cell is as stiff as it is full of tissue, but not softer than this: it must not fold.
_SOFTEST = 0.05


def compress_mask(
    mask: ArrayLike,
    grid: VolumeGrid,
    *,
    thickness_factor: float = 0.925,
    edge_mm: float = 10.0,
    tissue: ElasticTissue | None = None,
    stiffness: StiffnessMap | None = None,
    forces: Forces | None = None,
    most_steps: int = 40,
) -> Compression:
    """Return a body, known by its voxels, compressed further along z.

    It is cut into cells, six quadratic tetrahedra each, whose stiffness is scaled by the share of tissue in
    them: its outline need not follow the cells. Its lowest point stays at its height, and its face of lowest
    y is the chest wall, as for `compress`.

    Parameters
    ----------
    mask : array_like
        True in the body, (z, y, x) on the grid.
    grid : VolumeGrid
        Of the mask.
    thickness_factor : float
        Part of its height that the body is compressed to.
    edge_mm : float
        Of the cells, about.
    tissue, stiffness, forces, most_steps
        As for `compress`; points at rest are those of the grid. With friction the plates close in six loads
        on these very cells, which takes about six times as long.

    Returns
    -------
    Compression
        The body in balance.

    Raises
    ------
    DuotomoError
        If the mask has another shape or no body, a number cannot be, or the forces do not balance.

    Examples
    --------
    >>> mask = np.ones((8, 6, 10), dtype=bool)
    >>> grid = VolumeGrid.on_detector(mask.shape, (5.0, 5.0, 5.0))
    >>> compressed = compress_mask(mask, grid, edge_mm=25.0)
    >>> round(float(np.ptp(compressed.moved_mm[:, 2])), 1)
    37.0
    """
    body_mask = np.asarray(mask, dtype=bool)
    if body_mask.shape != grid.shape:
        raise ShapeError(
            f"compress_mask: expected mask (z, y, x) = {grid.shape}; got {body_mask.shape}. Axes reversed?"
        )
    if not body_mask.any():
        raise GeometryError("compress_mask: expected a mask with a body in it; got none. Is it inverted?")
    if not 0 < thickness_factor < 1:
        raise GeometryError(
            f"compress_mask: expected 0 < thickness_factor < 1; got {thickness_factor}. 0.9 takes 10 % away."
        )
    if not 0 < edge_mm < math.inf:
        raise GeometryError(f"compress_mask: expected edge_mm > 0; got {edge_mm}. 10 mm is usual.")
    mesh, fill = _cells(body_mask, grid, edge_mm)
    low, high = mesh.nodes_mm.min(axis=0), mesh.nodes_mm.max(axis=0)
    height_mm = float(high[2] - low[2])
    thickness_mm = height_mm * thickness_factor
    plates = Plates(middle_mm=float(low[2] + high[2]) / 2, half_gap_mm=thickness_mm / 2)
    fixed = np.array([(low[0] + high[0]) / 2, low[1], plates.middle_mm])
    squeeze = Squeeze(
        plates=plates, middle_mm=fixed, body_mm=fixed, height_mm=height_mm, forces=forces or Forces()
    )
    firmness = np.broadcast_to(np.maximum(fill, _SOFTEST), mesh.weights.shape)
    if stiffness is not None:
        firmness = firmness * stiffness_at(stiffness, mesh.points_mm)
    body = Body(
        mesh,
        tissue or ElasticTissue(),
        stiffness=firmness,
        load=squeeze.forces.weight_of(mesh, fill),
    )
    if stiffness is None and squeeze.plain:
        stretched = fixed + (mesh.nodes_mm - fixed) * thickness_factor ** np.array([-0.5, -0.5, 1.0])
        moved = checked(body.settle(stretched, plates, most_steps=most_steps), plates, most_steps)
    else:
        moved = squeeze.rested([body], most_steps)
    lift_mm = low[2] - (plates.middle_mm - plates.half_gap_mm)
    return Compression(
        rest_mm=mesh.nodes_mm,
        moved_mm=moved + np.array([0.0, 0.0, lift_mm]),
        tetrahedra=mesh.tetrahedra,
        thickness_mm=thickness_mm,
        least_jacobian=float(np.linalg.det(body.gradients(moved)).min()),
    )


def _cells(mask: NDArray[np.bool_], grid: VolumeGrid, edge_mm: float) -> tuple[BodyMesh, Floats]:
    """Return the cells of the mask's bounding box that hold tissue, and their shares of it, (element, 1)."""
    fem = library("skfem")
    ticks = [_ticks(mask, grid, axis, edge_mm) for axis in range(3)]
    boxes = fem.MeshTet.init_tensor(*ticks[::-1])
    shares = _shares(mask, grid, ticks)
    middles = boxes.p[:, boxes.t].mean(axis=1)
    index = tuple(np.searchsorted(t, m) - 1 for t, m in zip(ticks, middles[::-1], strict=True))
    kept = np.flatnonzero(shares[index] > 0)
    mesh = boxes.restrict(kept)
    faces = mesh.boundary_facets()
    on_wall = np.abs(mesh.p[1, mesh.facets[:, faces]] - ticks[1][0]).max(axis=0) < 1e-6
    whole = body_mesh(fem.MeshTet2.from_mesh(mesh), skin=faces[~on_wall], wall=faces[on_wall])
    return whole, shares[index][kept, None]


def _ticks(mask: NDArray[np.bool_], grid: VolumeGrid, axis: int, edge_mm: float) -> Floats:
    """Return where cells begin and end along an axis: they divide the body's extent evenly."""
    filled = np.flatnonzero(mask.any(axis=tuple({0, 1, 2} - {axis})))
    low, high = (grid.low_mm[axis] + k * grid.spacing_mm[axis] for k in (filled[0], filled[-1] + 1))
    return np.linspace(low, high, max(1, round((high - low) / edge_mm)) + 1)


def _shares(mask: NDArray[np.bool_], grid: VolumeGrid, ticks: list[Floats]) -> Floats:
    """Return the share of each cell, (z, y, x), that is tissue."""
    shares: Floats = mask.astype(np.float64)
    for axis, edges in enumerate(ticks):
        voxels = grid.low_mm[axis] + np.arange(mask.shape[axis] + 1) * grid.spacing_mm[axis]
        overlaps = np.minimum(edges[1:, None], voxels[1:]) - np.maximum(edges[:-1, None], voxels[:-1])
        weights = np.maximum(overlaps, 0.0) / np.diff(edges)[:, None]
        shares = np.moveaxis(np.tensordot(weights, shares, axes=(1, axis)), 0, axis)
    return shares
