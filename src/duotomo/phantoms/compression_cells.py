"""Which tetrahedron holds a point."""

from __future__ import annotations

import numpy as np

from duotomo.phantoms.compression_mesh import Floats, Ints

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
