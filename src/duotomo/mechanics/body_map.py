"""A map of space that is linear on each tetrahedron of a body, and goes on smoothly around it."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duotomo.mechanics.mesh import Floats, Ints, library

# Points on a face belong to either side, whatever rounding says.
_SLACK = 1e-9


class TetrahedronCells:
    """Cubic cells, each with the tetrahedra whose bounding boxes meet it.

    nodes_mm: (node, xyz). tetrahedra: (tetrahedron, 4). inverses: (tetrahedron, 3, xyz), whose rows take
    p - corner 0 to the weights of corners 1, 2 and 3.

    >>> corners = np.array([[0.0, 0, 0], [9, 0, 0], [0, 9, 0], [0, 0, 9]])
    >>> cells = TetrahedronCells(corners, np.array([[0, 1, 2, 3]]))
    >>> cells.locate(np.array([[1.0, 2.0, 3.0], [4.0, 4.0, 4.0]])).tolist()
    [0, -1]
    """

    def __init__(self, nodes_mm: Floats, tetrahedra: Ints) -> None:
        corners = nodes_mm[tetrahedra]
        edges = corners[:, 1:] - corners[:, :1]
        self._origins = corners[:, 0]
        self.inverses: Floats = np.asarray(np.linalg.inv(edges.swapaxes(-1, -2)), dtype=np.float64)
        low, high = corners.min(axis=1), corners.max(axis=1)
        self._edge_mm = float(np.mean(high - low))
        self._low = low.min(axis=0)
        self._shape = np.ceil((high.max(axis=0) - self._low) / self._edge_mm).astype(np.int64) + 1
        first = np.floor((low - self._low) / self._edge_mm - _SLACK).astype(np.int64).clip(0)
        last = np.floor((high - self._low) / self._edge_mm + _SLACK).astype(np.int64)
        sizes = last - first + 1
        owners = np.repeat(np.arange(len(tetrahedra)), sizes.prod(axis=1))
        within = _counts_up(sizes.prod(axis=1))
        steps = np.stack(
            [
                within // (sizes[owners, 1] * sizes[owners, 2]),
                within // sizes[owners, 2] % sizes[owners, 1],
                within % sizes[owners, 2],
            ],
            axis=1,
        )
        cells = self._number(first[owners] + steps)
        order = np.argsort(cells, kind="stable")
        self._owners = owners[order]
        self._starts = np.searchsorted(cells[order], np.arange(self._shape.prod() + 1))

    def locate(self, points_mm: Floats) -> Ints:
        """Return the tetrahedron of each point, (point, xyz) -> (point,); -1 for a point in none."""
        index = np.floor((points_mm - self._low) / self._edge_mm)
        on_grid = np.flatnonzero(((index >= 0) & (index < self._shape)).all(axis=1))
        cells = self._number(index[on_grid].astype(np.int64))
        counts = self._starts[cells + 1] - self._starts[cells]
        points = np.repeat(on_grid, counts)
        candidates = self._owners[np.repeat(self._starts[cells], counts) + _counts_up(counts)]
        x, y, z = (points_mm[points] - self._origins[candidates]).T
        rest = np.ones(len(candidates))
        least = np.full(len(candidates), np.inf)
        for row in range(3):
            a, b, c = self.inverses[candidates, row].T
            weight = a * x + b * y + c * z
            rest -= weight
            np.minimum(least, weight, out=least)
        holds = np.minimum(least, rest) >= -_SLACK
        found = np.full(len(points_mm), -1, dtype=np.int64)
        found[points[holds]] = candidates[holds]
        return found

    def _number(self, index: Ints) -> Ints:
        number: Ints = (index[:, 0] * self._shape[1] + index[:, 1]) * self._shape[2] + index[:, 2]
        return number


def _counts_up(counts: Ints) -> Ints:
    """Return 0, 1, ..., n - 1 for each n of `counts`, one after the other."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)


_FACES = ((1, 2, 3), (0, 2, 3), (0, 1, 3), (0, 1, 2))
_CHUNK = 3_000


class BodyMap:
    """Takes points of a body to where its nodes have gone.

    Inside, the map is linear on each tetrahedron. Outside, with s the body's nearest point and d = |p - s|,
    `p -> p + u(s) + G(s) (p - s) l / (l + d)`: u is the displacement, G its gradient averaged over the
    tetrahedra around each node, and l = `reach_mm` says how soon the extension levels off.

    sources_mm, targets_mm: (node, xyz). tetrahedra: (tetrahedron, 4).

    >>> corners = np.array([[0.0, 0, 0], [9, 0, 0], [0, 9, 0], [0, 0, 9]])
    >>> double = BodyMap(corners, 2 * corners, np.array([[0, 1, 2, 3]]))
    >>> double.evaluate(np.array([[1.0, 2.0, 3.0]]))[0].round(9).tolist()
    [[2.0, 4.0, 6.0]]
    """

    def __init__(
        self, sources_mm: Floats, targets_mm: Floats, tetrahedra: Ints, *, reach_mm: float = 10.0
    ) -> None:
        self._sources = sources_mm
        self._displacements = targets_mm - sources_mm
        self._tetrahedra = tetrahedra
        self._reach_mm = reach_mm
        self._cells = TetrahedronCells(sources_mm, tetrahedra)
        moved = self._displacements[tetrahedra[:, 1:]] - self._displacements[tetrahedra[:, :1]]
        self._gradients: Floats = moved.swapaxes(-1, -2) @ self._cells.inverses

    def evaluate(self, points_mm: Floats) -> tuple[Floats, Floats]:
        """Return where points, (point, xyz), go and the gradient of the map there, (point, xyz, xyz)."""
        moved, gradients = np.empty_like(points_mm), np.empty((*points_mm.shape, 3))
        for start in range(0, len(points_mm), _CHUNK):
            part = slice(start, start + _CHUNK)
            moved[part], gradients[part] = self._evaluate(points_mm[part])
        return moved, gradients

    def contains(self, points_mm: Floats) -> NDArray[np.bool_]:
        """Return which points, (point, xyz), lie in the body."""
        return self._cells.locate(points_mm) >= 0

    def _evaluate(self, points: Floats) -> tuple[Floats, Floats]:
        owners = self._cells.locate(points)
        outside = owners < 0
        slopes = self._gradients[owners]
        corners = self._tetrahedra[owners, 0]
        shifts = self._displacements[corners] + _apply(slopes, points - self._sources[corners])
        if outside.any():
            shifts[outside], slopes[outside] = self._extend(points[outside])
        return points + shifts, slopes + np.eye(3)

    def _extend(self, points: Floats) -> tuple[Floats, Floats]:
        faces = self._skin
        n_near = min(12, len(faces))
        _, near = self._skin_middles.query(points, k=n_near)
        near = near.reshape(len(points), n_near)
        triangles = self._sources[faces[near]]
        weights = _nearest_in_triangles(points[:, None], triangles)
        away_sq = np.sum((points[:, None] - _mix(weights, triangles)) ** 2, axis=-1)
        rows, best = np.arange(len(points)), np.argmin(away_sq, axis=1)
        corners, weights = faces[near[rows, best]], weights[rows, best]
        away = points - _mix(weights, self._sources[corners])
        taper = self._reach_mm / (self._reach_mm + np.linalg.norm(away, axis=1))
        slopes = np.einsum("pa,paij->pij", weights, self._node_gradients[corners]) * taper[:, None, None]
        shifts = _mix(weights, self._displacements[corners]) + _apply(slopes, away)
        return shifts, slopes

    @cached_property
    def _skin(self) -> Ints:
        """Corners of the triangles that only one tetrahedron has, (triangle, 3)."""
        faces = self._tetrahedra[:, _FACES].reshape(-1, 3)
        _, first, counts = np.unique(np.sort(faces, axis=1), axis=0, return_index=True, return_counts=True)
        skin: Ints = faces[first[counts == 1]]
        return skin

    @cached_property
    def _skin_middles(self) -> Any:
        return library("scipy.spatial").cKDTree(self._sources[self._skin].mean(axis=1))

    @cached_property
    def _node_gradients(self) -> Floats:
        volumes = 1 / np.abs(np.linalg.det(self._cells.inverses))
        totals = np.zeros((len(self._sources), 3, 3))
        shares = np.zeros(len(self._sources))
        for corner in self._tetrahedra.T:
            np.add.at(totals, corner, volumes[:, None, None] * self._gradients)
            np.add.at(shares, corner, volumes)
        return totals / np.maximum(shares, 1e-300)[:, None, None]


def _mix(weights: Floats, corners: Floats) -> Floats:
    """Return the mean of corners, (..., 3, xyz), by their weights, (..., 3)."""
    mixed: Floats = np.sum(weights[..., None] * corners, axis=-2)
    return mixed


def _apply(matrices: Floats, vectors: Floats) -> Floats:
    product: Floats = np.einsum("...ij,...j->...i", matrices, vectors)
    return product


def _nearest_in_triangles(points: Floats, triangles: Floats) -> Floats:
    """Return the weights of the corners, (..., 3), at the point of each triangle that is nearest to a point.

    points: (..., xyz). triangles: (..., corner, xyz). It lies at the foot of the perpendicular if that is in
    the triangle, and else on the nearest of the three edges.
    """
    a, b, c = (triangles[..., corner, :] for corner in range(3))
    ab, ac, ap = b - a, c - a, points - a
    d_bb, d_bc, d_cc = (np.sum(p * q, axis=-1) for p, q in ((ab, ab), (ab, ac), (ac, ac)))
    d_pb, d_pc = np.sum(ap * ab, axis=-1), np.sum(ap * ac, axis=-1)
    area_sq = np.maximum(d_bb * d_cc - d_bc**2, 1e-300)
    foot_b, foot_c = (d_cc * d_pb - d_bc * d_pc) / area_sq, (d_bb * d_pc - d_bc * d_pb) / area_sq
    weights = np.stack([1 - foot_b - foot_c, foot_b, foot_c], axis=-1)
    best_sq = np.where(weights.min(axis=-1) >= 0, -1.0, np.inf)
    for i, j in ((0, 1), (1, 2), (2, 0)):
        start, edge = triangles[..., i, :], triangles[..., j, :] - triangles[..., i, :]
        along = np.sum((points - start) * edge, axis=-1) / np.maximum(np.sum(edge**2, axis=-1), 1e-300)
        along = np.clip(along, 0.0, 1.0)
        away_sq = np.sum((start + along[..., None] * edge - points) ** 2, axis=-1)
        nearer = away_sq < best_sq
        on_edge = np.zeros_like(weights)
        on_edge[..., i], on_edge[..., j] = 1 - along, along
        weights = np.where(nearer[..., None], on_edge, weights)
        best_sq = np.minimum(best_sq, away_sq)
    return weights
