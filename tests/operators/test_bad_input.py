"""Wrong input to operators: each is refused with a message that says what is wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from duotomo.errors import DeviceError, DtypeError, GeometryError, NonFiniteError, ShapeError
from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.kernels.dispatch import planar_kernels, project_kernels
from duotomo.operators import Projector, Weighting, adjoint_gap
from tests.cases.operators import GRID, projector, sweep, weighting


@pytest.fixture(scope="module")
def static() -> Projector:
    return Projector(grid=GRID, acquisition=sweep())


def test_too_few_axes(static: Projector) -> None:
    expected = r"Projector: expected volume \(z, y, x\) = \(4, 6, 7\); got \(6, 7\)\. Wrong number of axes: 2"
    with pytest.raises(ShapeError, match=expected):
        static(torch.ones(6, 7))


def test_too_few_axes_of_projections(static: Projector) -> None:
    with pytest.raises(
        ShapeError, match=r"expected projections \(view, v, u\) = \(3, 9, 11\); got \(9, 11\)"
    ):
        static.adjoint(torch.ones(9, 11))


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
def test_reversed_axes(static: Projector, batch: tuple[int, ...]) -> None:
    expected = r"Projector: expected volume \(z, y, x\) = \(4, 6, 7\); got .*7, 6, 4\)\. Axes reversed\?"
    with pytest.raises(ShapeError, match=expected):
        static(torch.ones(*batch, 7, 6, 4))
    with pytest.raises(ShapeError, match=r"got .*11, 9, 3\)\. Axes reversed\?"):
        static.adjoint(torch.ones(*batch, 11, 9, 3))


def test_permuted_axes(static: Projector) -> None:
    with pytest.raises(ShapeError, match=r"got \(6, 4, 7\)\. Axes permuted\?"):
        static(torch.ones(6, 4, 7))


def test_another_shape(static: Projector) -> None:
    with pytest.raises(ShapeError, match=r"got \(4, 6, 8\)\. Pass a volume of that shape"):
        static(torch.ones(4, 6, 8))


@pytest.mark.parametrize("dtype", [torch.int64, torch.float16, torch.bfloat16, torch.bool, torch.complex64])
def test_another_kind_of_number(static: Projector, dtype: torch.dtype) -> None:
    with pytest.raises(DtypeError, match=rf"expected volume of torch.float32 or torch.float64; got {dtype}"):
        static(torch.ones(static.domain, dtype=dtype))


@pytest.mark.parametrize("volume", [np.ones(GRID.shape), [[[1.0]]], None, 3.0])
def test_not_a_tensor(static: Projector, volume: object) -> None:
    with pytest.raises(
        DtypeError, match=rf"expected volume as a torch\.Tensor; got {type(volume).__name__}\."
    ):
        static(volume)
    with pytest.raises(DtypeError, match=r"expected volume as a torch\.Tensor"):
        static @ volume


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite(static: Projector, bad: float) -> None:
    volume = torch.ones(static.domain)
    volume[1, 2, 3] = bad
    expected = (
        r"expected volume to be finite; got 1 NaN or infinite of 168 values, the first at index \(1, 2, 3\)"
    )
    with pytest.raises(NonFiniteError, match=expected):
        static(volume)
    projections = torch.ones(static.range)
    projections[2, 8, 10] = bad
    with pytest.raises(NonFiniteError, match=r"expected projections to be finite; got 1 .* \(2, 8, 10\)"):
        static.adjoint(projections)


def test_large_finite_numbers_are_not_refused(static: Projector) -> None:
    # Their sum overflows; they do not.
    assert torch.isfinite(static(torch.full(static.domain, 3e37))).all()


def test_a_device_without_kernels(static: Projector) -> None:
    with pytest.raises(DeviceError, match=r"Projector: expected .*; got 'meta'"):
        static(torch.ones(static.domain, device="meta"))


def test_the_dispatch_of_a_device_without_kernels() -> None:
    for choose in (project_kernels, planar_kernels):
        with pytest.raises(
            DeviceError, match=r"expected a tensor on 'cpu' or 'cuda'; got 'meta'\. Move it with"
        ):
            choose(torch.device("meta"))


def test_a_source_below_the_top_slice() -> None:
    tall = VolumeGrid.on_detector((300, 6, 7), (1.0, 1.0, 1.0))
    with pytest.raises(GeometryError, match=r"expected the source above the grid's top face, z = 300\.0 mm"):
        Projector(grid=tall, acquisition=sweep())


def test_a_detector_corner_above_the_source() -> None:
    # 45 degrees of tilt lift the end of a 100 mm detector by 35 mm, over a source at 30 mm.
    lean = 1 / math.sqrt(2)
    steep = Acquisition(
        source_mm=[(0.0, 0.0, 200.0), (0.0, 0.0, 30.0)],
        detector_center_mm=[(0.0, 0.0, 0.0)] * 2,
        u_axis=[(lean, 0.0, lean)] * 2,
        v_axis=[(0.0, 1.0, 0.0)] * 2,
        pixel_spacing_mm=(1.0, 1.0),
        detector_shape=(4, 100),
    )
    low = VolumeGrid.on_detector((2, 4, 4), (1.0, 1.0, 1.0))
    expected = r"expected all of the detector below the source in view 1; got a corner at z = 35\.3553 mm"
    with pytest.raises(GeometryError, match=expected):
        Projector(grid=low, acquisition=steep)
    assert Projector(grid=low, acquisition=steep[0]).range == (1, 4, 100)


def test_a_composition_that_does_not_fit(static: Projector) -> None:
    expected = (
        r"A @ B: expected the range of B to be the domain of A, \(4, 6, 7\); got \(3, 9, 11\) from Proj"
    )
    with pytest.raises(ShapeError, match=expected):
        static @ static


def test_a_sum_that_does_not_fit(static: Projector) -> None:
    other = Projector(grid=GRID, acquisition=sweep(n_views=2))
    with pytest.raises(
        ShapeError, match=r"A \+ B: expected equal domains and ranges; got Projector\(domain="
    ):
        static + other
    with pytest.raises(ShapeError, match=r"A \+ B: expected equal domains and ranges"):
        static + static.adjoint


def test_weights_of_another_precision() -> None:
    single, volume = weighting(torch.float32), torch.ones(GRID.shape, dtype=torch.float64)
    with pytest.raises(
        DtypeError, match=r"Weighting: expected input of torch\.float32; got torch\.float64\. Use"
    ):
        single(torch.ones(single.domain, dtype=torch.float64))
    # Inside a composition too, and in its transpose.
    weighted = single @ projector(sweep())(torch.float64)
    with pytest.raises(DtypeError, match=r"Weighting: expected input of torch\.float32; got torch\.float64"):
        weighted(volume)
    with pytest.raises(DtypeError, match=r"Weighting: expected input of torch\.float32; got torch\.float64"):
        weighted.adjoint(torch.ones(weighted.range, dtype=torch.float64))


def test_weights_that_are_not_finite() -> None:
    with pytest.raises(NonFiniteError, match=r"Weighting: expected weights to be finite; got 1 NaN"):
        Weighting(torch.tensor([1.0, math.nan]))


def test_weights_of_whole_numbers() -> None:
    with pytest.raises(DtypeError, match=r"Weighting: expected weights of torch\.float32 or torch\.float64"):
        Weighting(torch.tensor([1, 2]))


def test_weights_that_are_no_tensor() -> None:
    with pytest.raises(DtypeError, match=r"Weighting: expected weights as a torch\.Tensor; got list"):
        Weighting([1.0, 2.0])


def test_the_gap_of_a_precision_without_kernels(static: Projector) -> None:
    with pytest.raises(DtypeError, match=r"got torch\.float16"):
        adjoint_gap(static, generator=torch.Generator(), dtype=torch.float16)
