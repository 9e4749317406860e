"""Warps small enough for Triton's interpreter, and what the reference says of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType

import torch

from duotomo.kernels.warp import reference
from duotomo.kernels.warp.point_map import PointMap

Shape = tuple[int, int, int]


@dataclass(frozen=True, kw_only=True)
class WarpCase:
    """A map of voxels of `shape` into a volume of `volume_shape`.

    lattices: the shapes of the lattices. degrees: theirs. aligned: whether voxel rows run along the first.
    """

    name: str
    shape: Shape = (2, 3, 5)
    volume_shape: Shape = (3, 4, 5)
    lattices: tuple[Shape, ...] = ()
    degrees: tuple[int, ...] = ()
    aligned: bool = False
    per_voxel: float = 0.5
    shift: float = 0.0

    def point_map(self) -> PointMap:
        """Return the map: near the identity, between random lattices."""
        draw = torch.Generator().manual_seed(len(self.name))

        def normal(*shape: int) -> torch.Tensor:
            return torch.randn(shape, generator=draw, dtype=torch.float64)

        matrices = torch.eye(3, 4, dtype=torch.float64).repeat(len(self.lattices) + 1, 1, 1)
        matrices[:, :, :3] += 0.1 * normal(len(matrices), 3, 3)
        matrices[:, :, 3] += 0.7 * normal(len(matrices), 3) + self.shift
        if self.aligned:
            matrices[0] = torch.eye(3, 4) * self.per_voxel
            matrices[0, :, 3] = 1.3
            matrices[1, :, :3] /= self.per_voxel
            matrices[1, :, 3] -= 1.3 / self.per_voxel
        coefficients = tuple(0.3 * normal(3, *shape) for shape in self.lattices)
        return PointMap(matrices=matrices, coefficients=coefficients, degrees=self.degrees)

    def errors(
        self, kernels: ModuleType, dtype: torch.dtype, device: str, *, cubic: bool
    ) -> Iterator[tuple[str, float]]:
        """Yield the relative difference from the reference of everything that the kernels compute."""
        draw = torch.Generator().manual_seed(3)
        volume, image = (
            torch.randn(s, generator=draw, dtype=torch.float64) for s in (self.volume_shape, self.shape)
        )
        moved = self.point_map()
        change = PointMap(
            matrices=torch.randn(moved.matrices.shape, generator=draw, dtype=torch.float64),
            coefficients=tuple(
                torch.randn(c.shape, generator=draw, dtype=torch.float64) for c in moved.coefficients
            ),
            degrees=self.degrees,
        )
        f, g = (t.to(device, dtype) for t in (volume, image))
        moved.kept(("packed", f.device, f.dtype), lambda: _among_nans(self.point_map().packed(f)))

        def empty(*shape: int) -> torch.Tensor:
            # A NaN that stays shows.
            return torch.full(shape, torch.nan, dtype=dtype, device=device)

        def matrix(axis: int | None = None) -> torch.Tensor:
            return reference.matrix(moved, self.shape, self.volume_shape, cubic=cubic, slope_axis=axis)

        weights = matrix()
        out = empty(*self.shape)
        kernels.gather(f, out, moved, cubic=cubic)
        yield "gather", relative(out, weights @ volume.reshape(-1))
        back = empty(*self.volume_shape)
        kernels.spread(g, back, moved, cubic=cubic)
        yield "spread", relative(back, weights.T @ image.reshape(-1))
        before = torch.are_deterministic_algorithms_enabled()
        torch.use_deterministic_algorithms(True)
        try:
            fixed = empty(*self.volume_shape)
            kernels.spread(g, fixed, moved, cubic=cubic)
        finally:
            torch.use_deterministic_algorithms(before)
        yield "spread, deterministic", relative(fixed, weights.T @ image.reshape(-1))
        slopes = torch.stack([matrix(axis) @ volume.reshape(-1) for axis in range(3)], dim=-1)
        steep = empty(3, *self.shape)
        kernels.slopes(f, steep, moved, cubic=cubic)
        yield "slopes", relative(steep, slopes.T)

        # The derivatives of the places, by automatic differentiation of the formula.
        matrices = moved.matrices.clone().requires_grad_()
        coefficients = tuple(c.clone().requires_grad_() for c in moved.coefficients)
        index = reference.voxels(self.shape)
        places = reference.move(
            PointMap(matrices=matrices, coefficients=coefficients, degrees=self.degrees), index
        )
        at = empty(3, *self.shape)
        kernels.positions(at, moved)
        yield "positions", relative(at, places.detach().movedim(-1, 0))
        pulled = slopes.reshape(*self.shape, 3) * image[..., None]
        gradients = torch.autograd.grad(places, (matrices, *coefficients), pulled)
        d_matrices, d_coefficients = kernels.pull_back(f, g, moved, cubic=cubic)
        for i, (got, expected) in enumerate(zip((d_matrices, *d_coefficients), gradients, strict=True)):
            yield f"pull back {i}", relative(got, expected)
        along = empty(*self.shape)
        kernels.differentiate(f, along, moved, change, cubic=cubic)
        _, d_places = torch.func.jvp(
            lambda m, *c: reference.move(PointMap(matrices=m, coefficients=c, degrees=self.degrees), index),
            (moved.matrices, *moved.coefficients),
            (change.matrices, *change.coefficients),
        )
        yield "differentiate", relative(along, (slopes.reshape(*self.shape, 3) * d_places).sum(dim=-1))
        columns = [
            torch.func.jvp(lambda i: reference.move(moved, i), (index,), (unit.expand_as(index),))[1]
            for unit in torch.eye(3, dtype=torch.float64)
        ]
        folded = empty(*self.shape)
        kernels.determinants(folded, moved)
        yield "determinants", relative(folded, torch.linalg.det(torch.stack(columns, dim=-1)))


WARP_CASES = [
    WarpCase(name="affine"),
    WarpCase(name="affine, one column", shape=(2, 3, 1), volume_shape=(3, 2, 1)),
    WarpCase(name="affine, partly outside", shift=2.0),
    WarpCase(name="along a cubic lattice", lattices=((5, 6, 7),), degrees=(3,), aligned=True),
    WarpCase(
        name="along a coarse cubic lattice",
        shape=(2, 7, 9),
        lattices=((4, 5, 6),),
        degrees=(3,),
        aligned=True,
        per_voxel=0.2,
    ),
    WarpCase(name="along a linear lattice", lattices=((3, 4, 5),), degrees=(1,), aligned=True),
    WarpCase(name="across a lattice", lattices=((4, 5, 6),), degrees=(3,)),
    WarpCase(name="across two lattices", lattices=((4, 5, 4), (3, 4, 5)), degrees=(3, 1)),
    WarpCase(
        name="far beyond a lattice",
        volume_shape=(12, 12, 12),
        lattices=((2, 2, 2),),
        degrees=(3,),
        shift=1.0,
    ),
]


def _among_nans(row: torch.Tensor) -> torch.Tensor:
    """Return a row that lies between NaNs, where a read beyond it shows."""
    nans = torch.full_like(row, torch.nan)
    return torch.cat([nans, row, nans])[len(row) : 2 * len(row)]


def relative(got: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the relative difference in L2; NaN where the kernel left any."""
    expected = expected.detach().double().reshape(-1)
    difference = got.detach().double().cpu().reshape(-1) - expected
    return float(difference.norm() / expected.norm())


def warp_errors(kernels: ModuleType, dtype: torch.dtype, device: str) -> Iterator[tuple[str, float]]:
    """Yield every case's name and error; in single precision only of one case without, one with a lattice."""
    for case in WARP_CASES if dtype == torch.float64 else (WARP_CASES[0], WARP_CASES[3]):
        # Cubic taps do not meet the lattices: once is enough.
        for cubic in (False, True) if not case.lattices else (False,):
            for name, error in case.errors(kernels, dtype, device, cubic=cubic):
                yield f"warp, {case.name}, {name}, {cubic=}", error
