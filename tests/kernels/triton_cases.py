"""Compare the Triton kernels with the reference: on a CUDA device, or in Triton's interpreter on the CPU.

    TRITON_INTERPRET=1 python -m tests.kernels.triton_cases     # no GPU needed; slow
    python -m tests.kernels.triton_cases                        # on the GPU

Triton reads TRITON_INTERPRET while it is imported, hence a program of its own. It prints one line per failure
and the number of passed cases, and exits with 1 if there was a failure.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from duotomo.kernels.planar import reference as planar_reference
from duotomo.kernels.project import reference
from duotomo.kernels.project.footprint import Bands
from tests.kernels.volume_cases import volume_errors
from tests.kernels.warp_cases import warp_errors

Array = NDArray[np.float64]

TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-12}


class Sizes(NamedTuple):
    """Slices, and (rows, columns) of the voxels and of the pixels."""

    slices: int
    voxels: tuple[int, int]
    pixels: tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class ProjectCase:
    """One call of `accumulate`.

    lean: pixels by which a slab's footprint is swept along columns. scaled: forward, times ray lengths too.
    """

    name: str
    sizes: Sizes
    lean: float
    n_views: int = 2
    magnification: float = 1.0
    add: bool = False
    scaled: bool = False

    def footprints(self) -> Array:
        """Return footprints, (view, slice, axis, 4), that cover a little less or more than the detector."""
        draw = np.random.default_rng(5)
        footprints = np.empty((self.n_views, self.sizes.slices, 2, 4))
        for axis in range(2):
            n_pixels, n_voxels = self.sizes.pixels[axis], self.sizes.voxels[axis]
            scale = self.magnification * n_pixels / n_voxels * draw.uniform(0.9, 1.1, footprints.shape[:2])
            shift = n_pixels * draw.uniform(-0.05, 0.05, footprints.shape[:2])
            middle = n_pixels / 2 + shift - scale * n_voxels / 2
            sweep = self.lean * (1.0 if axis else 0.3)
            growth = 1.01
            footprints[..., axis, 0], footprints[..., axis, 1] = middle - sweep / 2, scale
            footprints[..., axis, 2], footprints[..., axis, 3] = middle + sweep / 2, scale * growth
        return footprints

    def error(self, accumulate, dtype: torch.dtype, device: str, *, transposed: bool) -> float:
        """Return the relative difference between the kernel and the reference."""
        draw = np.random.default_rng(7)
        footprints = self.footprints()
        volume, views = (self.sizes.slices, *self.sizes.voxels), (self.n_views, *self.sizes.pixels)
        source_shape, target_shape = (views, volume) if transposed else (volume, views)
        source, start = (
            torch.from_numpy(draw.standard_normal(shape)).to(dtype) for shape in (source_shape, target_shape)
        )
        expected = np.zeros(target_shape)
        reference.accumulate(source.double().numpy(), expected, footprints, transposed=transposed)
        options = {}
        if self.scaled and not transposed:
            along_v, along_u = (
                torch.from_numpy(draw.uniform(0.5, 2.0, (self.n_views, n))).to(dtype)
                for n in self.sizes.pixels
            )
            expected *= np.sqrt(along_v.double().numpy()[:, :, None] + along_u.double().numpy()[:, None, :])
            options["lengths_sq"] = (along_v.to(device), along_u.to(device))
        expected += start.double().numpy() * float(self.add)
        # What is not added to is overwritten: a NaN that stays shows.
        target = (start if self.add else torch.full_like(start, torch.nan)).to(device)
        accumulate(
            source.to(device), target, Bands.of(footprints, transposed=transposed), add=self.add, **options
        )
        return relative(target, expected)


PROJECT_CASES = [
    ProjectCase(name="smaller than a tile", sizes=Sizes(2, (5, 7), (6, 9)), lean=0.6),
    ProjectCase(name="one of everything", sizes=Sizes(1, (1, 1), (1, 1)), lean=0.0, n_views=1),
    ProjectCase(name="seen straight on", sizes=Sizes(2, (5, 7), (6, 9)), lean=0.0),
    ProjectCase(name="narrow, larger than tiles", sizes=Sizes(1, (19, 131), (35, 140)), lean=0.7),
    ProjectCase(name="wide bands", sizes=Sizes(2, (20, 40), (18, 37)), lean=5.3),
    ProjectCase(name="wide bands, larger than tiles", sizes=Sizes(1, (40, 30), (36, 133)), lean=7.2),
    ProjectCase(name="fine voxels, coarse pixels", sizes=Sizes(1, (39, 36), (5, 4)), lean=0.2),
    ProjectCase(name="coarse voxels, fine pixels", sizes=Sizes(1, (4, 5), (37, 39)), lean=1.5),
    ProjectCase(name="a pixel that needs forty rows", sizes=Sizes(1, (83, 9), (2, 8)), lean=0.2, n_views=1),
    ProjectCase(name="a voxel that needs forty rows", sizes=Sizes(1, (2, 8), (83, 9)), lean=0.2, n_views=1),
    ProjectCase(name="truncated", sizes=Sizes(2, (9, 12), (11, 13)), lean=1.0, magnification=2.3),
    ProjectCase(name="far inside", sizes=Sizes(2, (9, 12), (11, 13)), lean=1.0, magnification=0.3),
    ProjectCase(name="add", sizes=Sizes(2, (9, 12), (11, 13)), lean=1.0, add=True),
    ProjectCase(name="add, larger than tiles", sizes=Sizes(1, (17, 20), (33, 130)), lean=0.5, add=True),
    ProjectCase(name="scaled", sizes=Sizes(2, (9, 12), (11, 13)), lean=1.0, scaled=True),
    ProjectCase(name="scaled, larger than tiles", sizes=Sizes(1, (17, 20), (33, 130)), lean=0.5, scaled=True),
    ProjectCase(name="scaled and added", sizes=Sizes(2, (9, 12), (11, 13)), lean=1.0, scaled=True, add=True),
]


class PlanarCase(NamedTuple):
    """A plane of `shape` seen from another of `other_shape`: turned, scaled, with a perspective."""

    name: str
    shape: tuple[int, int]
    other_shape: tuple[int, int]
    angle_rad: float
    scale: float
    perspective: float

    def homography(self) -> Array:
        """Return the map from (v, u, 1) on this plane to the other, middle to middle."""
        cos, sin = self.scale * np.cos(self.angle_rad), self.scale * np.sin(self.angle_rad)
        turn = np.array([[cos, -sin, 0.0], [sin, cos, 0.0], [self.perspective / 3, self.perspective, 1.0]])
        to_middle, from_middle = np.eye(3), np.eye(3)
        to_middle[:2, 2] = -(np.array(self.shape) - 1) / 2
        from_middle[:2, 2] = np.array(self.other_shape) / 2
        return from_middle @ turn @ to_middle

    def reach(self) -> int:
        """Return how far, in pixels and rounded up, boxes lie from the image of a point that they touch."""
        dense = planar_reference.matrix(self.homography(), shape=self.shape, other_shape=self.other_shape)
        v, u, row, column = np.nonzero(dense)
        inverse = np.linalg.inv(self.homography())
        image, _ = planar_reference.boxes(inverse, row + 0.5, column + 0.5)
        farthest = np.abs(image - np.stack([v, u], axis=-1)).max()
        return int(np.ceil(farthest + 0.5))

    def errors(self, kernels, dtype: torch.dtype, device: str) -> tuple[float, float]:
        """Return the relative differences of `resample` and of `spread` from the dense matrix."""
        draw = np.random.default_rng(3)
        homography = self.homography()
        dense = planar_reference.matrix(homography, shape=self.shape, other_shape=self.other_shape)
        other, image = (
            torch.from_numpy(draw.standard_normal(s)).to(dtype) for s in (self.other_shape, self.shape)
        )
        to = torch.full(self.shape, torch.nan, dtype=dtype, device=device)
        kernels.resample(other.to(device), to, homography)
        back = torch.full(self.other_shape, torch.nan, dtype=dtype, device=device)
        kernels.spread(image.to(device), back, homography, np.linalg.inv(homography), self.reach())
        return (
            relative(to, np.einsum("vurc,rc->vu", dense, other.double().numpy())),
            relative(back, np.einsum("vurc,vu->rc", dense, image.double().numpy())),
        )


PLANAR_CASES = [
    PlanarCase("the same plane", (3, 4), (3, 4), 0.0, 1.0, 0.0),
    PlanarCase("half a pixel off", (3, 4), (4, 5), 0.0, 1.0, 0.0),
    PlanarCase("tilted", (4, 9), (4, 11), 0.0, 1.05, 2e-3),
    PlanarCase("turned", (4, 6), (5, 7), 0.5, 0.9, 1e-3),
    PlanarCase("turned by a quarter", (5, 4), (4, 5), np.pi / 2, 1.0, 0.0),
    PlanarCase("minified", (6, 8), (3, 5), 0.1, 0.5, 0.0),
    PlanarCase("magnified", (2, 3), (7, 10), 0.1, 2.7, 0.0),
    PlanarCase("partly outside", (6, 6), (3, 3), 0.3, 1.0, 0.0),
    PlanarCase("wider than a block", (2, 300), (3, 310), 0.0, 1.03, 1e-5),
    PlanarCase("one pixel", (1, 1), (3, 3), 0.2, 1.3, 0.0),
]


def relative(got: torch.Tensor, expected: Array) -> float:
    """Return the relative difference in L2; NaN where the kernel left any."""
    difference = np.linalg.norm(got.double().cpu().numpy() - expected)
    return float(difference / np.linalg.norm(expected))


def failures(device: str) -> tuple[list[str], int]:
    """Run every case on `device`; return a line per failure and the number of passed cases."""
    from duotomo.kernels.planar import gpu as planar_gpu
    from duotomo.kernels.project import gpu
    from duotomo.kernels.warp import gpu as warp_gpu

    measured: list[tuple[str, torch.dtype, float]] = []
    for dtype in TOLERANCE:
        for case in PROJECT_CASES:
            for transposed in (False, True):
                error = case.error(gpu.accumulate, dtype, device, transposed=transposed)
                measured.append((f"project, {case.name}, {transposed=}", dtype, error))
        for planar in PLANAR_CASES:
            forward, back = planar.errors(planar_gpu, dtype, device)
            measured.append((f"planar, {planar.name}, resample", dtype, forward))
            measured.append((f"planar, {planar.name}, spread", dtype, back))
        measured += [(name, dtype, error) for name, error in warp_errors(warp_gpu, dtype, device)]
        measured += [(name, dtype, error) for name, error in volume_errors(dtype, device)]
    # Written so that a NaN fails.
    failed = [
        f"{name}, {dtype}: {error:.3g}" for name, dtype, error in measured if not error < TOLERANCE[dtype]
    ]
    return failed, len(measured) - len(failed)


def main() -> int:
    """Run every case where Triton can; return the exit status."""
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    if not interpreted and not torch.cuda.is_available():
        print("no CUDA device; set TRITON_INTERPRET=1 to run in the interpreter")
        return 2
    failed, n_passed = failures("cpu" if interpreted else "cuda")
    for line in failed:
        print(f"FAILED {line}")
    print(f"{n_passed} passed")
    return 1 if failed or n_passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
