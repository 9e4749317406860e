"""Quadratic tetrahedra for the body that is compressed."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duotomo.errors import DuotomoError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Nodes of a quadratic tetrahedron: corners 0 to 3, then the middles of edges 01, 12, 02, 03, 13, 23. Four
# small tetrahedra lie at the corners; the octahedron left over is cut along the line from 01 to 23.
_PARTS = (
    (0, 4, 6, 7),
    (1, 4, 5, 8),
    (2, 5, 6, 9),
    (3, 7, 8, 9),
    (4, 9, 5, 6),
    (4, 9, 6, 7),
    (4, 9, 7, 8),
    (4, 9, 8, 5),
)


def library(name: str) -> Any:
    """Return a module that only the compression needs."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise DuotomoError(
            f"duotomo.mechanics: expected {name} to be installed for the compression; got: {error}. "
            "Run pip install scikit-fem scipy."
        ) from error


@dataclass(frozen=True, kw_only=True, eq=False)
class BodyMesh:
    """A body cut into quadratic tetrahedra, and what integrals over it and its faces need.

    nodes_mm: (node, xyz), corners and middles of edges. elements: (element, 10), their nodes.
    slopes, weights: derivatives (element, point, node of the element, xyz) of the shape functions at the
    points where the energy is summed, and the volume (element, point) that each stands for.
    shapes: the shape functions there, (point, node of the element).
    skin, wall: the faces that may touch plates, and those on the chest wall.
    """

    nodes_mm: Floats
    elements: Ints
    slopes: Floats
    weights: Floats
    shapes: Floats
    skin: Faces
    wall: Faces

    @property
    def points_mm(self) -> Floats:
        """Where the energy is summed, (element, point, xyz)."""
        return self.shapes @ self.nodes_mm[self.elements]

    @property
    def tetrahedra(self) -> Ints:
        """Eight linear tetrahedra for each quadratic one, (tetrahedron, 4), of positive volume."""
        parts = self.elements[:, _PARTS].reshape(-1, 4)
        flipped = signed_volumes(self.nodes_mm, parts) < 0
        parts[flipped] = parts[flipped][:, [1, 0, 2, 3]]
        return parts


@dataclass(frozen=True, kw_only=True, eq=False)
class Faces:
    """Points on some faces of the body.

    owners: (face,), the element behind each. shapes: (face, point, node of the element), its shape functions.
    weights: (face, point), the area that each point stands for.
    """

    owners: Ints
    shapes: Floats
    weights: Floats


def signed_volumes(nodes_mm: Floats, tetrahedra: Ints) -> Floats:
    """Return the volumes of linear tetrahedra, (tetrahedron,), in mm^3; negative if inside out.

    >>> corners = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    >>> signed_volumes(corners, np.array([[0, 1, 2, 3], [1, 0, 2, 3]])).round(4).tolist()
    [0.1667, -0.1667]
    """
    corners = nodes_mm[tetrahedra]
    volumes: Floats = np.linalg.det(corners[:, 1:] - corners[:, :1]) / 6
    return volumes


def half_ellipsoid(refinements: int, *, center_mm: Floats, axes_mm: Floats) -> BodyMesh:
    """Return the body `center_mm + axes_mm q` with `|q| <= 1` and `q_y >= 0`.

    The mesh is mirror-symmetric in q_x and q_z. Each refinement halves the edges; the middles of edges on
    the skin lie on the ellipsoid.

    center_mm: (xyz,). axes_mm: (xyz, 3), one half axis per column.

    >>> mesh = half_ellipsoid(1, center_mm=np.zeros(3), axes_mm=np.eye(3))
    >>> len(mesh.nodes_mm), len(mesh.elements)
    (85, 32)
    """
    fem = library("skfem")
    ball = fem.MeshTet.init_ball(refinements)
    corner = ball.restrict(np.flatnonzero((ball.p[:, ball.t].mean(axis=1) > 0).all(axis=0)))
    half = corner + corner.mirrored((1.0, 0.0, 0.0))
    half = half + half.mirrored((0.0, 0.0, 1.0))
    faces = half.boundary_facets()
    on_wall = np.abs(half.p[1, half.facets[:, faces]]).max(axis=0) < 1e-9
    curved = fem.MeshTet2.from_mesh(half)
    skin_nodes = fem.Basis(curved, fem.ElementTetP2()).get_dofs(faces[~on_wall]).all()
    places = curved.doflocs.copy()
    places[:, skin_nodes] /= np.linalg.norm(places[:, skin_nodes], axis=0)
    places = center_mm[:, None] + axes_mm @ places
    return body_mesh(fem.MeshTet2(places, curved.t), skin=faces[~on_wall], wall=faces[on_wall])


def body_mesh(mesh: Any, *, skin: Ints, wall: Ints) -> BodyMesh:
    """Return what a mesh of scikit-fem holds. skin, wall: numbers of boundary faces."""
    fem = library("skfem")
    # Four points per tetrahedron: more of them make nearly incompressible elements too stiff.
    basis = fem.Basis(mesh, fem.ElementTetP2(), intorder=2)
    slopes = np.stack([shape[0].grad for shape in basis.basis]).transpose(2, 3, 0, 1)
    return BodyMesh(
        nodes_mm=basis.doflocs.T.copy(),
        elements=basis.element_dofs.T.astype(np.int64),
        slopes=np.ascontiguousarray(slopes),
        weights=basis.dx.copy(),
        shapes=np.stack([np.asarray(shape[0])[0] for shape in basis.basis], axis=1),
        skin=_faces(fem, mesh, skin),
        wall=_faces(fem, mesh, wall),
    )


def _faces(fem: Any, mesh: Any, numbers: Ints) -> Faces:
    basis = fem.FacetBasis(mesh, fem.ElementTetP2(), facets=numbers, intorder=4)
    shapes = np.stack([np.asarray(shape[0]) for shape in basis.basis]).transpose(1, 2, 0)
    return Faces(owners=basis.tind.astype(np.int64), shapes=shapes.copy(), weights=basis.dx.copy())
