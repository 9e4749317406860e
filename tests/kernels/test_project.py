"""The projector's kernels: the reference obeys its laws, and the Numba kernel matches the reference."""

from __future__ import annotations

import numba
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.kernels.project import cpu, reference
from duotomo.kernels.project.footprint import COLUMNS, ROWS, Bands
from duotomo.operators.parallel_detector import ParallelDetector
from tests.kernels.triton_cases import PROJECT_CASES, ProjectCase
from tests.strategies import scans

Array = NDArray[np.float64]
Scan = tuple[VolumeGrid, Acquisition]

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}

each_dtype = pytest.mark.parametrize("dtype", TOLERANCE, ids=["float64", "float32"])
each_direction = pytest.mark.parametrize("transposed", [False, True], ids=["forward", "transposed"])


def normal(shape: tuple[int, ...], seed: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape)).to(dtype)


def footprints_of(scan: Scan) -> tuple[Array, tuple[int, int]]:
    """Return the first view's footprints, (1, slice, axis, 4), and the shape of the detector they fall on."""
    grid, acquisition = scan
    detector = ParallelDetector.of(acquisition, 0)
    return detector.footprints(grid)[None], detector.shape


def centred(n_views: int, n_slices: int, voxels: tuple[int, int], pixels: tuple[int, int]) -> Array:
    """Return footprints that about fill the detector, each slab leaning by another fraction of a pixel."""
    draw = np.random.default_rng(11)
    footprints = np.empty((n_views, n_slices, 2, 4))
    for axis in (ROWS, COLUMNS):
        scale = pixels[axis] / voxels[axis] * draw.uniform(0.9, 1.1, (n_views, n_slices))
        start = (pixels[axis] - scale * voxels[axis]) / 2 + draw.uniform(-1, 1, scale.shape)
        footprints[:, :, axis] = np.stack(
            [start, scale, start + draw.uniform(-2, 2, scale.shape), 1.002 * scale], -1
        )
    return footprints


def dense(
    footprints: Array, voxels: tuple[int, int], pixels: tuple[int, int], transposed: bool, dtype
) -> Array:
    """Return the kernel's whole matrix, (pixel, voxel), for footprints of one view and one slice."""
    source_shape, target_shape = (pixels, voxels) if transposed else (voxels, pixels)
    bands = Bands.of(footprints, transposed=transposed)
    columns = []
    for unit in torch.eye(source_shape[0] * source_shape[1], dtype=dtype).reshape(-1, 1, *source_shape):
        target = torch.empty((1, *target_shape), dtype=dtype)
        cpu.accumulate(unit, target, bands, add=False)
        columns.append(target.flatten().numpy())
    return np.stack(columns, axis=0 if transposed else 1)


def check_against_reference(
    footprints: Array, voxels: tuple[int, int], pixels: tuple[int, int], transposed: bool, dtype: torch.dtype
) -> None:
    volume, views = (footprints.shape[1], *voxels), (footprints.shape[0], *pixels)
    source_shape, target_shape = (views, volume) if transposed else (volume, views)
    source = normal(source_shape, 1, dtype)
    expected = np.zeros(target_shape)
    reference.accumulate(source.double().numpy(), expected, footprints, transposed=transposed)
    target = torch.full(target_shape, torch.nan, dtype=dtype)
    cpu.accumulate(source, target, Bands.of(footprints, transposed=transposed), add=False)
    scale = np.linalg.norm(expected)
    assert scale > 0
    assert np.linalg.norm(target.double().numpy() - expected) < TOLERANCE[dtype] * scale


@given(scan=scans())
def test_a_pixel_inside_the_footprint_is_shared_out_completely(scan: Scan) -> None:
    (footprints, pixels), voxels = footprints_of(scan), scan[0].shape[1:]
    for per_slice in footprints[0]:
        for axis in (ROWS, COLUMNS):
            p_low, q_low, p_high, q_high = per_slice[axis]
            # Shifted, so that some pixels lie inside the footprint and some outside, whatever was drawn.
            begin = max(p_low, p_high)
            end = min(p_low + q_low * voxels[axis], p_high + q_high * voxels[axis])
            n_pixels = pixels[axis] + int(np.ceil(max(end, 0)))
            weights = reference.weights(per_slice[axis], n_pixels=n_pixels, n_voxels=voxels[axis])
            k = np.arange(n_pixels)
            inside = (k >= begin) & (k + 1 <= end)
            outside = (k + 1 <= min(p_low, p_high)) | (
                k >= max(p_low + q_low * voxels[axis], p_high + q_high * voxels[axis])
            )
            sums = weights.sum(axis=1)
            np.testing.assert_allclose(sums[inside], 1.0, atol=1e-12)
            np.testing.assert_allclose(sums[outside], 0.0, atol=1e-12)
            assert sums.max() <= 1 + 1e-12
            assert weights.min() >= -1e-12


@given(
    p=st.floats(0, 5),
    q=st.floats(0.05, 6),
    lean=st.floats(-4, 4),
    growth=st.floats(1, 1.2),
    n_voxels=st.integers(1, 9),
)
def test_a_voxel_is_shared_out_by_its_mean_width(
    p: float, q: float, lean: float, growth: float, n_voxels: int
) -> None:
    footprint = np.array([p + 4, q, p + 4 + lean, q * growth])
    n_pixels = int(np.ceil(p + 8 + q * growth * n_voxels)) + 1
    weights = reference.weights(footprint, n_pixels=n_pixels, n_voxels=n_voxels)
    np.testing.assert_allclose(weights.sum(axis=0), (footprint[1] + footprint[3]) / 2, rtol=1e-12)
    inside = (np.arange(n_pixels) >= max(footprint[0], footprint[2])) & (
        np.arange(1, n_pixels + 1) <= min(footprint[0::2] + footprint[1::2] * n_voxels)
    )
    np.testing.assert_allclose(weights.sum(axis=1)[inside], 1.0, atol=1e-12)


@given(
    p=st.floats(-20, 5),
    q=st.floats(0.05, 6),
    lean=st.floats(-4, 4),
    growth=st.floats(1, 1.2),
    n_targets=st.integers(1, 9),
    transposed=st.booleans(),
    count=st.integers(1, 4),
)
def test_the_reach_is_an_upper_bound_and_nearly_attained(
    p: float, q: float, lean: float, growth: float, n_targets: int, transposed: bool, count: int
) -> None:
    footprint = np.array([p, q, p + lean, q * growth])
    bands = Bands.of(np.broadcast_to(footprint, (1, 1, 2, 4)), transposed=transposed)
    begin_low, step_low, begin_high, step_high = bands.lines[0, 0, ROWS, 4:]
    targets = np.arange(n_targets)
    first = np.floor(np.minimum(begin_low + step_low * targets, begin_high + step_high * targets)).astype(int)
    # Move the samples so that none is negative; forward, the samples are voxels and the targets pixels.
    moved = -min(int(first.min()), 0) + 1
    edges = [begin_low + step_low * n_targets, begin_high + step_high * n_targets]
    n_samples = int(max(edges)) + moved + 3
    if transposed:
        shifted = footprint + np.array([moved, 0, moved, 0])
        weights = reference.weights(shifted, n_pixels=n_samples, n_voxels=n_targets).T
    else:
        shifted = footprint - np.array([q * moved, 0, q * growth * moved, 0])
        weights = reference.weights(shifted, n_pixels=n_targets, n_voxels=n_samples)
    nonzero = weights > 1e-9
    widest, from_first = 0, 0
    for start in range(max(n_targets - count, 0) + 1):
        seen = np.flatnonzero(nonzero[start : start + count].any(axis=0))
        if seen.size:
            widest = max(widest, int(np.ptp(seen)) + 1)
            from_first = max(from_first, int(seen[-1]) - (first[start] + moved) + 1)
    for axis in (ROWS, COLUMNS):
        reach = bands.reach(axis, n_targets=n_targets, count=count)
        assert reach >= max(widest, from_first)
        if n_targets >= count:
            assert reach <= widest + 2


@each_dtype
@each_direction
def test_the_kernel_matches_the_reference_on_any_scan(transposed: bool, dtype: torch.dtype) -> None:
    @given(scan=scans())
    def law(scan: Scan) -> None:
        footprints, pixels = footprints_of(scan)
        voxels = scan[0].shape[1:]
        volume, views = (footprints.shape[1], *voxels), (1, *pixels)
        source_shape, target_shape = (views, volume) if transposed else (volume, views)
        source = normal(source_shape, 1, dtype)
        expected, bound = np.zeros(target_shape), np.zeros(target_shape)
        reference.accumulate(source.double().numpy(), expected, footprints, transposed=transposed)
        reference.accumulate(source.double().abs().numpy(), bound, footprints, transposed=transposed)
        target = torch.full(target_shape, torch.nan, dtype=dtype)
        cpu.accumulate(source, target, Bands.of(footprints, transposed=transposed), add=False)
        # Against the sum of magnitudes: with few pixels the signed sum may cancel to nothing.
        most = TOLERANCE[dtype] * np.linalg.norm(bound)
        assert np.linalg.norm(target.double().numpy() - expected) <= most

    law()


@each_dtype
@each_direction
@pytest.mark.parametrize("n_columns", [1, 31, 32, 33, 127, 128, 129, 300])
def test_the_kernel_matches_the_reference_at_every_width(
    n_columns: int, transposed: bool, dtype: torch.dtype
) -> None:
    # Crosses the vector (32) and the block (128) both as the source's and as the target's width.
    # A weight's error is a share of the pixel, so a pixel is not cut into hundreds of voxels here.
    for other in (7, min(161, 40 * n_columns)):
        voxels, pixels = (5, n_columns), (6, other)
        check_against_reference(centred(2, 2, voxels, pixels), voxels, pixels, transposed, dtype)
        voxels, pixels = pixels, voxels
        check_against_reference(centred(2, 2, voxels, pixels), voxels, pixels, transposed, dtype)


@each_dtype
@each_direction
@pytest.mark.parametrize("n_rows", [1, 31, 32, 33, 65])
def test_the_kernel_matches_the_reference_at_every_height(
    n_rows: int, transposed: bool, dtype: torch.dtype
) -> None:
    for other in (3, 40):
        voxels, pixels = (n_rows, 9), (other, 34)
        check_against_reference(centred(2, 3, voxels, pixels), voxels, pixels, transposed, dtype)


@each_direction
def test_targets_in_several_groups(transposed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    voxels, pixels = (35, 20), (37, 21)
    footprints = centred(5, 7, voxels, pixels)
    source = normal((5, *pixels) if transposed else (7, *voxels), 1)
    targets = []
    for group_bytes in (1 << 20, 2 * 8 * cpu.ROW_BLOCK * 21, 1):
        monkeypatch.setattr(cpu, "GROUP_BYTES", group_bytes)
        target = torch.empty((7, *voxels) if transposed else (5, *pixels), dtype=torch.float64)
        cpu.accumulate(source, target, Bands.of(footprints, transposed=transposed), add=False)
        targets.append(target)
    check_against_reference(footprints, voxels, pixels, transposed, torch.float64)
    assert torch.equal(targets[1], targets[0])
    assert torch.equal(targets[2], targets[0])


@each_dtype
@each_direction
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in PROJECT_CASES])
def test_the_kernel_passes_the_cases_of_the_gpu(
    case: ProjectCase, transposed: bool, dtype: torch.dtype
) -> None:
    assert case.error(cpu.accumulate, dtype, "cpu", transposed=transposed) < TOLERANCE[dtype]


@each_dtype
@each_direction
def test_add_adds(transposed: bool, dtype: torch.dtype) -> None:
    voxels, pixels = (35, 40), (33, 50)
    bands = Bands.of(centred(2, 3, voxels, pixels), transposed=transposed)
    source = normal((2, *pixels) if transposed else (3, *voxels), 1, dtype)
    start = normal((3, *voxels) if transposed else (2, *pixels), 2, dtype)
    alone, added = torch.empty_like(start), start.clone()
    cpu.accumulate(source, alone, bands, add=False)
    cpu.accumulate(source, added, bands, add=True)
    assert torch.equal(added, start + alone)


@each_dtype
@pytest.mark.parametrize("scale", [0.07, 0.9, 1.0, 3.3, 15.0])
@pytest.mark.parametrize("lean", [0.0, 0.3, -2.6])
def test_forward_and_transposed_hold_the_same_weights(lean: float, scale: float, dtype: torch.dtype) -> None:
    # Element by element: an adjoint gap averages over a matrix, this does not.
    voxels, pixels = (3, 6), (4, 7)
    footprints = np.empty((1, 1, 2, 4))
    footprints[...] = (-0.4 * scale, scale, -0.4 * scale + lean, 1.01 * scale)
    forward = dense(footprints, voxels, pixels, False, dtype)
    assert np.abs(forward).max() > 0
    share_of_a_pixel = {torch.float64: 1e-13, torch.float32: 1e-6}[dtype]
    np.testing.assert_allclose(
        dense(footprints, voxels, pixels, True, dtype), forward, rtol=0, atol=share_of_a_pixel
    )


@each_dtype
@each_direction
@pytest.mark.usefixtures("two_threads")
def test_the_number_of_threads_does_not_change_a_bit(transposed: bool, dtype: torch.dtype) -> None:
    voxels, pixels = (130, 70), (140, 80)
    bands = Bands.of(centred(3, 4, voxels, pixels), transposed=transposed)
    source = normal((3, *pixels) if transposed else (4, *voxels), 1, dtype)
    results = []
    for n_threads in (1, 2, 2):
        numba.set_num_threads(n_threads)
        target = torch.empty((4, *voxels) if transposed else (3, *pixels), dtype=dtype)
        cpu.accumulate(source, target, bands, add=False)
        results.append(target)
    assert torch.equal(results[1], results[0])
    assert torch.equal(results[2], results[0])
