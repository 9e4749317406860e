"""The Triton kernels on a CUDA device: against the reference, the CPU kernels and themselves."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
import pytest
import torch

from duotomo.errors import DeviceError
from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.operators import Projector, Weighting, adjoint_gap
from duotomo.transforms import Transform
from tests.cases.transforms import MOVING, REFERENCE, draw_params, transforms
from tests.cases.transforms import normal as draw_normal
from tests.kernels.triton_cases import failures

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.skipif(find_spec("triton") is None, reason="needs triton"),
]

GAP = {torch.float64: 1e-12, torch.float32: 1e-6}
AGREEMENT = {torch.float64: 1e-12, torch.float32: 2e-5}

each_dtype = pytest.mark.parametrize("dtype", GAP, ids=["float64", "float32"])
each_scan = pytest.mark.parametrize(
    ("tilting", "seed"),
    [
        pytest.param(tilting, seed, id=f"{'tilting' if tilting else 'static'}-{seed}")
        for tilting in (False, True)
        for seed in range(6)
    ],
)


def random_projector(seed: int, *, tilting: bool) -> Projector:
    """Return a projector of a random scan: up to 180 voxels and 260 pixels along an axis, slabs included."""
    draw = np.random.default_rng(seed)
    shape = (int(draw.integers(1, 12)), int(draw.integers(1, 120)), int(draw.integers(1, 180)))
    spacing_mm = (float(draw.uniform(0.3, 2.0)), *(float(d) for d in draw.uniform(0.15, 1.0, 2)))
    pixel_mm = tuple(float(d) for d in draw.uniform(0.2, 1.0, 2))
    # A detector between three quarters and one and a half times as large as the volume: some are truncated.
    detector_shape = tuple(
        max(1, int(n * d / pixel * draw.uniform(0.75, 1.5)))
        for n, d, pixel in zip(shape[1:], spacing_mm[1:], pixel_mm, strict=True)
    )
    scan = Acquisition.arc(
        n_views=int(draw.integers(1, 6)),
        angle_range_rad=float(draw.uniform(0.2, 0.9)),
        detector_tilt_range_rad=float(draw.uniform(0.05, 0.3)) if tilting else 0.0,
        source_to_detector_mm=float(draw.uniform(300, 700)),
        pivot_height_mm=float(draw.uniform(0, 50)),
        detector_shape=detector_shape,
        pixel_spacing_mm=pixel_mm,
        source_y_mm=float(draw.uniform(-5, 20)),
    )
    gap_mm = 30.0 if tilting else 3.0
    return Projector(grid=VolumeGrid.on_detector(shape, spacing_mm, gap_mm=gap_mm), acquisition=scan)


def normal(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def relative(got: torch.Tensor, expected: torch.Tensor) -> float:
    return float((got.cpu().double() - expected.double()).norm() / expected.double().norm())


def test_the_kernels_match_the_reference() -> None:
    failed, n_passed = failures("cuda")
    assert failed == []
    assert n_passed >= 90


@each_scan
@each_dtype
def test_it_agrees_with_the_cpu(dtype: torch.dtype, tilting: bool, seed: int) -> None:
    projector = random_projector(seed, tilting=tilting)
    x, y = normal(projector.domain, dtype, seed), normal(projector.range, dtype, seed + 1)
    assert relative(projector(x.cuda()), projector(x)) < AGREEMENT[dtype]
    assert relative(projector.adjoint(y.cuda()), projector.adjoint(y)) < AGREEMENT[dtype]


@each_scan
@each_dtype
def test_the_adjoint_is_the_transpose(dtype: torch.dtype, tilting: bool, seed: int) -> None:
    projector = random_projector(seed, tilting=tilting)
    generator = torch.Generator().manual_seed(seed)
    assert adjoint_gap(projector, generator=generator, dtype=dtype, device="cuda") < GAP[dtype]


@each_dtype
@pytest.mark.parametrize("tilting", [False, True], ids=["static", "tilting"])
def test_repeated_runs_give_the_same_bits(dtype: torch.dtype, tilting: bool) -> None:
    projector = random_projector(2, tilting=tilting)
    x, y = normal(projector.domain, dtype, 1).cuda(), normal(projector.range, dtype, 2).cuda()
    image, back = projector(x), projector.adjoint(y)
    assert image.device.type == "cuda"
    for _ in range(3):
        assert torch.equal(projector(x), image)
        assert torch.equal(projector.adjoint(y), back)


def test_gradients_flow_on_the_device() -> None:
    projector = random_projector(3, tilting=True)
    x = normal(projector.domain, torch.float64, 1).cuda().requires_grad_()
    y = normal(projector.range, torch.float64, 2).cuda()
    (projector(x) * y).sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, projector.adjoint(y))


def test_weights_on_another_device_are_refused() -> None:
    with pytest.raises(DeviceError, match=r"Weighting: expected input on device 'cpu'; got 'cuda:0'"):
        Weighting(torch.ones(3))(torch.ones(3, device="cuda"))


each_transform = pytest.mark.parametrize(
    "build", [pytest.param(build, id=name) for name, build in transforms()]
)


@each_transform
@pytest.mark.parametrize("cubic", [False, True], ids=["linear", "cubic"])
@each_dtype
def test_the_transpose_of_every_warp(
    build: Callable[[VolumeGrid], Transform], cubic: bool, dtype: torch.dtype
) -> None:
    transform = build(REFERENCE)
    for seed in range(4):
        params = draw_params(transform, seed=seed)
        warp = transform.warp(params, REFERENCE, MOVING, cubic=cubic)
        generator = torch.Generator().manual_seed(seed)
        assert adjoint_gap(warp, generator=generator, dtype=dtype, device="cuda") < GAP[dtype]


@each_transform
@each_dtype
def test_every_transform_agrees_with_the_cpu(
    build: Callable[[VolumeGrid], Transform], dtype: torch.dtype
) -> None:
    transform = build(REFERENCE)
    params, along = draw_params(transform, seed=1), draw_normal((transform.n_params,), seed=2)
    volume, image = draw_normal(REFERENCE.shape, seed=3), draw_normal(MOVING.shape, seed=4)
    grids = (REFERENCE, MOVING)
    got, expected = [], []
    for device, precision, results in (("cuda", dtype, got), ("cpu", torch.float64, expected)):
        f, g = volume.to(device, precision), image.to(device, precision)
        warp = transform.warp(params, *grids)
        results += [
            warp(f),
            warp.adjoint(g),
            transform.jvp(params, f, along, *grids),
            transform.vjp(params, f, g, *grids),
            transform.displacement(params.to(device), MOVING),
            transform.determinants(params.to(device), MOVING),
        ]
    tolerance = {torch.float64: 1e-9, torch.float32: 1e-4}[dtype]
    for on_gpu, on_cpu in zip(got, expected, strict=True):
        difference = on_gpu.double().cpu() - on_cpu
        assert float(difference.norm()) < tolerance * float(on_cpu.norm())


@each_transform
def test_jvp_and_vjp_are_transposes_on_the_gpu(build: Callable[[VolumeGrid], Transform]) -> None:
    transform = build(REFERENCE)
    params, along = draw_params(transform, seed=1), draw_normal((transform.n_params,), seed=2)
    volume, image = draw_normal(REFERENCE.shape, seed=3).cuda(), draw_normal(MOVING.shape, seed=4).cuda()
    there = transform.jvp(params, volume, along, REFERENCE, MOVING)
    back = transform.vjp(params, volume, image, REFERENCE, MOVING)
    gap = abs(float((there * image).sum()) - float(back @ along))
    assert gap < 1e-10 * float(there.norm() * image.norm())


@each_transform
def test_deterministic_warps_repeat_bit_by_bit(build: Callable[[VolumeGrid], Transform]) -> None:
    grid = VolumeGrid.on_detector((40, 50, 60), (1.0, 1.0, 1.0))
    transform = build(grid)
    params = draw_params(transform, seed=1, turn_deg=20.0)
    volume, image = (draw_normal(grid.shape, seed=s).cuda().float() for s in (3, 4))
    torch.use_deterministic_algorithms(True)
    try:
        first, second = (transform.warp(params).adjoint(image) for _ in range(2))
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.equal(first, second)
    # These need not be asked: they always repeat.
    assert torch.equal(transform.warp(params)(volume), transform.warp(params)(volume))
    assert torch.equal(transform.vjp(params, volume, image), transform.vjp(params, volume, image))
