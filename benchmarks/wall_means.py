"""What `duotomo.mechanics.compress` holds of the chest wall, as sums over the nodes of hexahedra."""

from __future__ import annotations

import numpy as np

from benchmarks.hexahedra import FACES, Floats, Hexahedra


def wall_means(mesh: Hexahedra) -> Floats:
    """Return rows, (3, node, xyz), whose sums over displacements `compress` keeps at zero.

    The wall's mean motion along x and z, and its mean turn about y by the inverse of its covariance.
    """
    weights = wall_weights(mesh)
    places = mesh.nodes_mm[:, [0, 2]]
    places = places - weights @ places
    covariance = np.einsum("n,ni,nj->ij", weights, places, places)
    across = places @ np.linalg.inv(covariance)
    rows = np.zeros((3, *mesh.nodes_mm.shape))
    rows[0, :, 0] = rows[1, :, 2] = weights
    rows[2, :, 0], rows[2, :, 2] = weights * across[:, 1], -weights * across[:, 0]
    rows[2] /= np.abs(rows[2]).max() / np.abs(rows[0]).max()
    return rows


def wall_weights(mesh: Hexahedra) -> Floats:
    """Return the share of each node in means over the chest wall, (node,).

    Of a parallelogram with eight nodes, corners have -1/12 of the area and middles of edges 1/3.
    """
    faces = mesh.elements[:, FACES].reshape(-1, 4)
    on_wall = np.flatnonzero(np.isin(faces, mesh.wall).all(axis=1))
    corners = mesh.nodes_mm[faces[on_wall]][..., [0, 2]]
    one, other = corners[:, 2] - corners[:, 0], corners[:, 3] - corners[:, 1]
    areas = np.abs(one[:, 0] * other[:, 1] - one[:, 1] * other[:, 0]) / 2
    weights = np.zeros(len(mesh.nodes_mm))
    edges = mesh.face_edges()[on_wall]
    np.add.at(weights, faces[on_wall], np.broadcast_to(-areas[:, None] / 12, (len(areas), 4)))
    np.add.at(weights, edges, np.broadcast_to(areas[:, None] / 3, (len(areas), 4)))
    shares: Floats = weights / weights.sum()
    return shares
