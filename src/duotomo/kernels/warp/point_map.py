"""The map that the warp kernels work with: from voxel indices of one grid to those of another."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

Kept = TypeVar("Kept")

PAD = 4
"""Zeros around a packed lattice on each side: places beyond it are moved to where only these act."""
TAPS = {1: 2, 3: 4}
"""Control points that act on a place, along one axis, by the degree of the spline."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PointMap:
    """Matrices, with a lattice of displacements between each two.

        p = M_0 (i, 1)                                          i: a voxel index (z, y, x)
        p = M_(k+1) (p + sum over control points j of B(p - j) c_k[j], 1)    for each lattice k

    Each lattice is met in its own index units, and displaces in them: control point j lies at j. B is the
    product over the axes of cubic (degree 3) or linear (degree 1) B-splines; beyond a lattice, c = 0.

    matrices: (n + 1, 3, 4), float64, on the CPU. coefficients: n tensors, (component, z, y, x), float64;
    components in the order z, y, x. degrees: n of 3 or 1. fixed: for each matrix, whether nobody asks for the
    derivative in it.
    """

    matrices: torch.Tensor
    coefficients: tuple[torch.Tensor, ...] = ()
    degrees: tuple[int, ...] = ()
    fixed: tuple[bool, ...] = ()
    _kept: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def n_lattices(self) -> int:
        """Number of lattices."""
        return len(self.coefficients)

    @cached_property
    def matrix_array(self) -> NDArray[np.float64]:
        """The matrices as a NumPy array."""
        return np.ascontiguousarray(self.matrices.detach().numpy())

    @cached_property
    def layout(self) -> NDArray[np.int64]:
        """Where each lattice lies in `packed`: (lattice, 5) with offset, n_z, n_y, n_x, taps per axis.

        The lengths count the zeros around the lattice.
        """
        rows, offset = [], 0
        for values, degree in zip(self.coefficients, self.degrees, strict=True):
            n_z, n_y, n_x = (n + 2 * PAD for n in values.shape[1:])
            rows.append((offset, n_z, n_y, n_x, TAPS[degree]))
            offset += 3 * n_z * n_y * n_x
        return np.array(rows, dtype=np.int64).reshape(-1, 5)

    @cached_property
    def aligned(self) -> bool:
        """Whether voxel rows run along the rows of the first lattice, so that its weights are separable."""
        linear = self.matrix_array[0, :, :3]
        return self.n_lattices > 0 and not np.any(linear[~np.eye(3, dtype=bool)])

    @cached_property
    def reach(self) -> NDArray[np.float64]:
        """The farthest that each lattice displaces along each axis: (lattice, 3)."""
        rows = [values.abs().amax(dim=(1, 2, 3)).cpu().numpy() for values in self.coefficients]
        return np.array(rows, dtype=np.float64).reshape(-1, 3)

    def packed(self, like: torch.Tensor) -> torch.Tensor:
        """Return all coefficients in one row, zeros around each lattice, on the device of `like`."""

        def pack() -> torch.Tensor:
            if not self.coefficients:
                return like.new_empty(1)
            size = sum(3 * math.prod(row[1:4]) for row in self.layout.tolist())
            # Made where the coefficients are, and sent as one row from memory that a GPU reads by itself.
            made_on = self.coefficients[0].device
            pinned = like.is_cuda and made_on.type == "cpu"
            row = torch.zeros(size, dtype=like.dtype, device=made_on, pin_memory=pinned)
            for inner, values in zip(self.unpack(row), self.coefficients, strict=True):
                inner.copy_(values)
            return row.to(like.device, non_blocking=True)

        return self.kept(("packed", like.device, like.dtype), pack)

    def unpack(self, packed: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return one tensor per lattice, (component, z, y, x), out of one row like `packed`'s."""
        lattices = []
        for offset, n_z, n_y, n_x, _ in self.layout.tolist():
            values = packed[offset : offset + 3 * n_z * n_y * n_x].view(3, n_z, n_y, n_x)
            lattices.append(values[:, PAD:-PAD, PAD:-PAD, PAD:-PAD])
        return tuple(lattices)

    def on_device(self, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the matrices, in float64, and `packed`, both on the device of `like`.

        Nobody waits for a GPU on the way.
        """

        def send() -> torch.Tensor:
            return self.matrices.contiguous().to(like.device, non_blocking=True)

        return self.kept(("matrices", like.device), send), self.packed(like)

    def kept(self, key: Hashable, make: Callable[[], Kept]) -> Kept:
        """Return what was made for this key before, or make it."""
        if key not in self._kept:
            self._kept[key] = make()
        value: Kept = self._kept[key]
        return value

    def bounds(
        self, shape: tuple[int, int, int], *, with_lattices: bool = True
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return (3,) and (3,): a box that holds the image of all voxels of a grid of `shape`.

        with_lattices: whether to count how far the lattices displace; without, matrices alone.
        """
        half = (np.array(shape) - 1.0) / 2
        middle = half
        for k, matrix in enumerate(self.matrix_array):
            if k > 0 and with_lattices:
                half = half + self.reach[k - 1]
            middle = matrix[:, :3] @ middle + matrix[:, 3]
            half = np.abs(matrix[:, :3]) @ half
        return middle - half, middle + half

    def __getstate__(self) -> dict[str, Any]:
        fields = ("matrices", "coefficients", "degrees", "fixed")
        return {name: self.__dict__[name] for name in fields} | {"_kept": {}}
