"""Planar resampling: the Numba kernels against the dense matrix, and the laws of that matrix."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.kernels.planar import cpu, reference
from duotomo.operators.parallel_detector import ParallelDetector
from tests.kernels.triton_cases import PLANAR_CASES, PlanarCase
from tests.strategies import scans

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-6}

each_case = pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in PLANAR_CASES])
each_dtype = pytest.mark.parametrize("dtype", TOLERANCE, ids=["float64", "float32"])


@each_dtype
@each_case
def test_both_directions_match_the_matrix(case: PlanarCase, dtype: torch.dtype) -> None:
    resampled, spread = case.errors(cpu, dtype, "cpu")
    assert resampled < TOLERANCE[dtype]
    assert spread < TOLERANCE[dtype]


@given(scan=scans(tilting=True), view=st.integers(0, 4))
def test_the_virtual_detector_of_any_tilting_scan(scan: tuple[VolumeGrid, Acquisition], view: int) -> None:
    """The matrix and its transpose, applied with the reach that the projector computes."""
    _, acquisition = scan
    detector = ParallelDetector.of(acquisition, view % acquisition.n_views)
    assume(detector.homography is not None)
    homography, shape = detector.homography, acquisition.detector_shape
    matrix = reference.matrix(homography, shape=shape, other_shape=detector.shape)
    # The virtual detector holds the image of the real one, so nothing is lost at its edges but the corners
    # of boxes: the box holds the image of a pixel, which it may overlap the edge by.
    assert matrix.sum(axis=(2, 3)).max() < 1 + 1e-12
    draw = np.random.default_rng(0)
    other, image = draw.standard_normal(detector.shape), draw.standard_normal(shape)
    to, back = torch.empty(shape, dtype=torch.float64), torch.empty(detector.shape, dtype=torch.float64)
    cpu.resample(torch.from_numpy(other), to, homography)
    cpu.spread(torch.from_numpy(image), back, homography, np.linalg.inv(homography), detector.reach(shape))
    np.testing.assert_allclose(to, np.einsum("vurc,rc->vu", matrix, other), atol=1e-12)
    np.testing.assert_allclose(back, np.einsum("vurc,vu->rc", matrix, image), atol=1e-12)


@each_case
def test_pixels_inside_take_a_mean(case: PlanarCase) -> None:
    homography = case.homography()
    v, u = np.meshgrid(*(np.arange(float(n)) for n in case.shape), indexing="ij")
    center, size = reference.boxes(homography, v, u)
    inside = ((center - size / 2 >= 0) & (center + size / 2 <= case.other_shape)).all(axis=-1)
    assert inside.any()
    matrix = reference.matrix(homography, shape=case.shape, other_shape=case.other_shape)
    assert matrix.min() >= 0
    np.testing.assert_allclose(matrix.sum(axis=(2, 3))[inside], 1.0, rtol=1e-12)
    assert matrix.sum(axis=(2, 3)).max() <= 1 + 1e-12
    # So a constant image stays constant, in the kernel too.
    out = torch.empty(case.shape, dtype=torch.float64)
    cpu.resample(torch.full(case.other_shape, 3.0, dtype=torch.float64), out, homography)
    np.testing.assert_allclose(out.numpy()[inside], 3.0, rtol=1e-12)


def test_the_same_plane_is_the_identity() -> None:
    identity = np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.5], [0.0, 0.0, 1.0]])
    image = torch.from_numpy(np.random.default_rng(0).standard_normal((5, 6)))
    out, back = torch.empty_like(image), torch.empty_like(image)
    cpu.resample(image, out, identity)
    cpu.spread(image, back, identity, np.linalg.inv(identity), 1)
    assert torch.equal(out, image)
    assert torch.equal(back, image)


def test_boxes_hold_the_image_of_a_pixel_to_first_order() -> None:
    case = next(case for case in PLANAR_CASES if case.name == "turned")
    homography, step = case.homography(), 1e-6
    at = np.array([2.0, 3.0])

    def image(v: float, u: float) -> np.ndarray:
        a, b, c = homography @ [v, u, 1.0]
        return np.array([a / c, b / c])

    by_v = (image(at[0] + step, at[1]) - image(at[0] - step, at[1])) / (2 * step)
    by_u = (image(at[0], at[1] + step) - image(at[0], at[1] - step)) / (2 * step)
    center, size = reference.boxes(homography, at[0], at[1])
    np.testing.assert_allclose(center, image(*at), rtol=1e-12)
    np.testing.assert_allclose(size, np.abs(by_v) + np.abs(by_u), rtol=1e-6)
