"""A half ball cut into 20-node hexahedra: a cube in its middle, and layers around that up to the skin.

The project's own compression cuts a body into quadratic tetrahedra; this is another kind of mesh on purpose.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CORNERS = ((0, 0, 0), (2, 0, 0), (2, 2, 0), (0, 2, 0), (0, 0, 2), (2, 0, 2), (2, 2, 2), (0, 2, 2))
"""Where the corners of an element lie among its 3 x 3 x 3 points."""

EDGES = ((0, 1), (1, 2), (2, 3), (3, 0), (4, 5), (5, 6), (6, 7), (7, 4), (0, 4), (1, 5), (2, 6), (3, 7))
"""Corners at the ends of the edges on whose middles the nodes 8 to 19 lie."""

FACES = ((0, 1, 2, 3), (4, 7, 6, 5), (0, 4, 5, 1), (1, 5, 6, 2), (2, 6, 7, 3), (3, 7, 4, 0))
"""Corners of the faces, in the order in which Abaqus and CalculiX count them."""

_CORE = 0.5
"""Half edge of the cube in the middle, over the radius."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Hexahedra:
    """A body cut into 20-node hexahedra.

    nodes_mm: (node, xyz). elements: (element, 20), corners first. skin: (face, (element, face of it)).
    wall: numbers of the nodes on the chest wall.
    """

    nodes_mm: Floats
    elements: Ints
    skin: Ints
    wall: Ints

    def middles_mm(self) -> Floats:
        """Return the middles of the elements, (element, xyz)."""
        corners, edges = (self.nodes_mm[self.elements[:, part]].sum(axis=1) for part in (_C, _E))
        middles: Floats = edges / 4 - corners / 4
        return middles

    def face_edges(self) -> Ints:
        """Return the nodes in the middles of the edges of all faces, six faces an element, (face, 4)."""
        edges: Ints = self.elements[:, _FACE_EDGES].reshape(-1, 4)
        return edges

    def with_middles(self, nodes_mm: Floats) -> Floats:
        """Return the nodes with the middles of elements and then of their faces added, (point, xyz).

        By the shape functions of the element, so that points moved and at rest correspond.
        """
        at = nodes_mm[self.elements]
        middles = at[:, _E].sum(axis=1) / 4 - at[:, _C].sum(axis=1) / 4
        faces = at[:, _FACE_EDGES].sum(axis=2) / 2 - at[:, FACES].sum(axis=2) / 4
        return np.concatenate([nodes_mm, middles, faces.reshape(-1, 3)])

    def tetrahedra(self) -> Ints:
        """Return 48 tetrahedra for each element, (tetrahedron, 4), with corners among `with_middles`.

        Eight triangles around the middle of each face, joined to the middle of the element: neighbours cut
        the face between them alike.
        """
        n_nodes, n_elements = len(self.nodes_mm), len(self.elements)
        number = np.arange(n_elements)
        parts = []
        for face, (corners, edges) in enumerate(zip(FACES, _FACE_EDGES, strict=True)):
            ring = np.stack([corners, edges], axis=1).reshape(-1)
            for one, other in zip(ring, np.roll(ring, -1), strict=True):
                parts.append(
                    np.stack(
                        [
                            n_nodes + number,
                            n_nodes + n_elements + 6 * number + face,
                            self.elements[:, other],
                            self.elements[:, one],
                        ],
                        axis=1,
                    )
                )
        return np.concatenate(parts)


_C, _E = np.arange(8), np.arange(8, 20)


def _edge_between(one: int, other: int) -> int:
    return 8 + next(i for i, ends in enumerate(EDGES) if set(ends) == {one, other})


_FACE_EDGES = np.array([[_edge_between(c[i], c[(i + 1) % 4]) for i in range(4)] for c in FACES])


def half_ball(place: Callable[[Floats], Floats], *, n_core: int = 6, n_layers: int = 3) -> Hexahedra:
    """Return the mesh of `place(q)` with `|q| <= 1`, `q_y >= 0`.

    place: takes points of the half ball, (point, xyz), to mm; it must not turn it inside out.
    n_core: elements along the edge of the cube in the middle, an even number. n_layers: around it.

    >>> mesh = half_ball(lambda q: 10 * q, n_core=2, n_layers=1)
    >>> len(mesh.nodes_mm), len(mesh.elements), len(mesh.skin), len(mesh.wall)
    (113, 16, 12, 37)
    """
    blocks = [_core(n_core), *_shells(n_core, n_layers)]
    points = np.concatenate([block.reshape(-1, 3) for block in blocks])
    _, first, number = np.unique(np.round(points, 9), axis=0, return_index=True, return_inverse=True)
    number = number.reshape(-1)
    elements, start = [], 0
    for block in blocks:
        size = block[..., 0].size
        elements.append(_twenty(number[start : start + size].reshape(block.shape[:3])))
        start += size
    used, local = np.unique(np.concatenate(elements), return_inverse=True)
    q = points[first][used]
    hexahedra = local.reshape(-1, 20)
    faces = hexahedra[:, FACES].reshape(-1, 4)
    _, once, counts = np.unique(np.sort(faces, axis=1), axis=0, return_index=True, return_counts=True)
    outer = np.sort(once[counts == 1])
    on_wall = np.abs(q[faces[outer], 1]).max(axis=1) < 1e-9
    skin = np.stack(np.divmod(outer[~on_wall], 6), axis=1)
    wall = np.flatnonzero(np.abs(q[:, 1]) < 1e-9)
    return Hexahedra(nodes_mm=place(q), elements=hexahedra.astype(np.int64), skin=skin, wall=wall)


def _core(n: int) -> Floats:
    """Return the points of the cube, twice as fine as the elements, (i, j, k, xyz)."""
    x, y = np.linspace(-1, 1, 2 * n + 1), np.linspace(0, 1, n + 1)
    return _bulged(np.stack(np.meshgrid(x, y, x, indexing="ij"), axis=-1))


def _bulged(cube: Floats) -> Floats:
    """Return points of the cube, whose faces are bent a little outwards."""
    inward = np.linalg.norm(np.tan(np.pi / 4 * cube), axis=-1, keepdims=True)
    largest = np.abs(cube).max(axis=-1, keepdims=True)
    round_one = np.tan(np.pi / 4 * cube) / np.maximum(inward, 1e-12) * largest * 1.2
    bulged: Floats = _CORE * (0.6 * cube + 0.4 * round_one)
    return bulged


def _shells(n: int, n_layers: int) -> list[Floats]:
    """Return the points of the layers over each face of the cube but that on the chest wall."""
    full, half = np.linspace(-1, 1, 2 * n + 1), np.linspace(0, 1, n + 1)
    out = np.linspace(0, 1, 2 * n_layers + 1)[:, None, None, None]
    shells = []
    # Axis of the face, its side, and the other two axes in an order that makes the elements right-handed.
    for axis, side, first, second in ((0, 1, 1, 2), (0, -1, 2, 1), (1, 1, 2, 0), (2, 1, 0, 1), (2, -1, 1, 0)):
        a, b = (half if other == 1 else full for other in (first, second))
        face = np.empty((len(a), len(b), 3))
        face[..., axis] = side
        face[..., first], face[..., second] = np.meshgrid(a, b, indexing="ij")
        on_ball = np.tan(np.pi / 4 * face)
        on_ball /= np.linalg.norm(on_ball, axis=-1, keepdims=True)
        shells.append((1 - out) * _bulged(face) + out * on_ball)
    return shells


def _twenty(numbers: Ints) -> Ints:
    """Return the elements, (element, 20), of a block of points twice as fine."""
    n_i, n_j, n_k = ((n - 1) // 2 for n in numbers.shape)
    i, j, k = (a.reshape(-1) * 2 for a in np.meshgrid(*map(np.arange, (n_i, n_j, n_k)), indexing="ij"))
    places = np.array(CORNERS)
    places = np.concatenate([places, (places[np.array(EDGES)]).sum(axis=1) // 2])
    return np.stack([numbers[i + a, j + b, k + c] for a, b, c in places], axis=1)
