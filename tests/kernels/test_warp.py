"""The warp's Numba kernels against the dense matrices and the formula of the reference, and its weights."""

from __future__ import annotations

from dataclasses import dataclass

import numba
import pytest
import torch

from duotomo.kernels.warp import cpu, reference
from duotomo.kernels.warp.corners import LANES
from duotomo.kernels.warp.point_map import PointMap

Shape = tuple[int, int, int]

TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-5}


def normal(shape: tuple[int, ...], *, seed: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def framed(values: torch.Tensor) -> torch.Tensor:
    """Return a copy with NaN before and behind it in memory, which spoil what reads too far."""
    memory = values.new_full((values.numel() + 64,), torch.nan)
    inner = memory[32:-32].view(values.shape)
    inner.copy_(values)
    return inner


def error(got: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the largest difference, as a share of the largest value, or of one if that is less."""
    return float((got.double() - expected).abs().max() / expected.abs().max().clamp(min=1))


def turned(seed: int, to: Shape, shape: Shape, *, by: float = 0.5) -> torch.Tensor:
    """Return a matrix, (3, 4), that turns, stretches and shears, and takes middle to middle, about."""
    linear = torch.linalg.matrix_exp(by * normal((3, 3), seed=seed))
    middle = [(torch.tensor(n, dtype=torch.float64) - 1) / 2 for n in (shape, to)]
    shift = middle[1] - linear @ middle[0] + 0.3 * normal((3,), seed=seed + 1)
    return torch.cat([linear, shift[:, None]], dim=1)


def straight(to: Shape, shape: Shape) -> torch.Tensor:
    """Return a matrix that stretches `shape` over `to`, a little beside it, without turning."""
    factor = torch.tensor(to, dtype=torch.float64) / torch.tensor(shape)
    shift = factor / 2 - 0.5 + torch.tensor([0.21, -0.13, 0.17], dtype=torch.float64)
    return torch.cat([torch.diag(factor), shift[:, None]], dim=1)


@dataclass(frozen=True, kw_only=True)
class WarpCase:
    """A map from voxels of `shape` to places in a volume of `volume_shape`."""

    name: str
    point_map: PointMap
    shape: Shape = (3, 4, 5)
    volume_shape: Shape = (4, 5, 6)


def matrix_only(
    name: str,
    *,
    shape: Shape = (3, 4, 5),
    volume_shape: Shape = (4, 5, 6),
    matrix: torch.Tensor | None = None,
) -> WarpCase:
    """Return a case without a lattice."""
    matrix = turned(7, volume_shape, shape) if matrix is None else matrix
    return WarpCase(
        name=name, point_map=PointMap(matrices=matrix[None]), shape=shape, volume_shape=volume_shape
    )


def one_lattice(
    name: str,
    *,
    degree: int,
    aligned: bool,
    shape: Shape = (3, 4, 5),
    volume_shape: Shape = (4, 5, 6),
    lattice: Shape = (5, 4, 6),
) -> WarpCase:
    """Return a case with a lattice, met straight or obliquely, and some voxels beyond it."""
    first = straight(lattice, shape) if aligned else turned(3, lattice, shape)
    point_map = PointMap(
        matrices=torch.stack([first, turned(5, volume_shape, lattice, by=0.2)]),
        coefficients=(0.6 * normal((3, *lattice), seed=9),),
        degrees=(degree,),
    )
    assert point_map.aligned == aligned
    return WarpCase(name=name, point_map=point_map, shape=shape, volume_shape=volume_shape)


def two_lattices(name: str, *, aligned: bool, shape: Shape = (3, 4, 5)) -> WarpCase:
    """Return a case with a cubic lattice and then a linear one."""
    coarse, fine, volume_shape = (4, 4, 5), (5, 6, 4), (4, 5, 6)
    first = straight(coarse, shape) if aligned else turned(3, coarse, shape)
    point_map = PointMap(
        matrices=torch.stack([first, turned(5, fine, coarse), turned(6, volume_shape, fine)]),
        coefficients=(0.5 * normal((3, *coarse), seed=9), 0.4 * normal((3, *fine), seed=10)),
        degrees=(3, 1),
    )
    return WarpCase(name=name, point_map=point_map, shape=shape, volume_shape=volume_shape)


def shift(*by: float) -> torch.Tensor:
    return torch.cat([torch.eye(3).double(), torch.tensor(by, dtype=torch.float64)[:, None]], dim=1)


SMOOTH_CASES = [
    matrix_only("matrix"),
    *(
        one_lattice(f"{name} lattice, degree {degree}", degree=degree, aligned=name == "aligned")
        for name in ("aligned", "oblique")
        for degree in (1, 3)
    ),
    two_lattices("two lattices, the first aligned", aligned=True),
    two_lattices("two lattices, both oblique", aligned=False),
    *(
        matrix_only(f"volume {shape}", volume_shape=shape)
        for shape in ((1, 5, 6), (4, 1, 6), (4, 5, 1), (1, 1, 6), (4, 1, 1), (1, 1, 1), (4, 5, 2))
    ),
    *(matrix_only(f"out of {shape}", shape=shape) for shape in ((1, 4, 5), (3, 1, 5), (3, 4, 1), (1, 1, 1))),
    *(
        one_lattice(f"rows of {n}", degree=3, aligned=True, shape=(2, 3, n))
        for n in (1, LANES - 1, LANES, LANES + 1, 2 * LANES + 8)
    ),
    one_lattice("oblique rows of 40", degree=3, aligned=False, shape=(2, 3, 40)),
    two_lattices("rows of 40 through two lattices", aligned=True, shape=(2, 2, 40)),
    # Most of the lattice acts on nothing, and many voxels are beyond it.
    one_lattice("one control point", degree=3, aligned=True, lattice=(1, 1, 1)),
    one_lattice("a lattice finer than the voxels", degree=1, aligned=True, lattice=(8, 9, 14)),
]
"""Positions in general places: slopes do not jump there."""


def beside(name: str, first: torch.Tensor) -> WarpCase:
    """Return a case whose voxels pass a lattice far away, where it moves nothing, and come back."""
    there = torch.cat([first, torch.eye(4).double()[3:]])
    back = torch.linalg.inv(there)[:3]
    back[:, 3] += 0.25
    point_map = PointMap(
        matrices=torch.stack([first, back]), coefficients=(normal((3, 4, 5, 6), seed=9),), degrees=(3,)
    )
    return WarpCase(name=name, point_map=point_map)


FAR = 2.0**20

KNOT_CASES = [
    matrix_only("identity", shape=(4, 5, 6), matrix=shift(0, 0, 0)),
    matrix_only("whole voxels, partly outside", matrix=shift(-2, 3, -1)),
    matrix_only(
        "whole voxels along long rows", shape=(2, 2, 40), volume_shape=(3, 3, 38), matrix=shift(1, 0, -1)
    ),
    matrix_only("just outside", shape=(4, 5, 6), matrix=shift(0, 0, -6)),
    matrix_only("far outside", matrix=shift(1e6, 0.25, 0.25)),
    matrix_only("far outside on the other side", matrix=shift(0.25, -1e6, 0.25)),
    matrix_only("beyond what an index holds", matrix=shift(0.25, 0.25, 1e30)),
    matrix_only("beyond it on the other side", matrix=shift(-1e30, 0.25, 0.25)),
    *(
        beside(f"{where} a lattice, along {axis}", shift(*(FAR * sign * n for n in unit)))
        for where, sign in (("before", -1), ("behind", 1))
        for axis, unit in zip("zyx", torch.eye(3).int().tolist(), strict=True)
    ),
    # y and x exchanged, so that rows run across the lattice.
    beside("beside a lattice, obliquely", shift(FAR, FAR, -FAR)[[0, 2, 1]]),
]
"""Positions on voxel centres, where the slope to the right counts, and far away. Exact in both precisions."""

CASES = SMOOTH_CASES + KNOT_CASES

each_case = pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES])
each_smooth = pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in SMOOTH_CASES])
each_dtype = pytest.mark.parametrize("dtype", TOLERANCE, ids=["float64", "float32"])
each_interpolation = pytest.mark.parametrize("cubic", [False, True], ids=["linear", "cubic"])


@each_dtype
@each_interpolation
@each_case
def test_gather_is_the_matrix_and_spread_its_transpose(
    case: WarpCase, cubic: bool, dtype: torch.dtype
) -> None:
    matrix = reference.matrix(case.point_map, case.shape, case.volume_shape, cubic=cubic)
    shapes = enumerate((case.volume_shape, case.shape))
    volume, image = (framed(normal(shape, seed=i, dtype=dtype)) for i, shape in shapes)
    out, back = torch.full_like(image, torch.nan), torch.full_like(volume, torch.nan)
    cpu.gather(volume, out, case.point_map, cubic=cubic)
    cpu.spread(image, back, case.point_map, cubic=cubic)
    assert error(out.flatten(), matrix @ volume.double().flatten()) < TOLERANCE[dtype]
    assert error(back.flatten(), matrix.T @ image.double().flatten()) < TOLERANCE[dtype]


@each_dtype
@each_interpolation
@each_case
def test_slopes_are_those_of_the_matrix(case: WarpCase, cubic: bool, dtype: torch.dtype) -> None:
    volume = framed(normal(case.volume_shape, seed=1, dtype=dtype))
    out = torch.full((3, *case.shape), torch.nan, dtype=dtype)
    cpu.slopes(volume, out, case.point_map, cubic=cubic)
    for axis in range(3):
        matrix = reference.matrix(case.point_map, case.shape, case.volume_shape, cubic=cubic, slope_axis=axis)
        assert error(out[axis].flatten(), matrix @ volume.double().flatten()) < TOLERANCE[dtype]


@each_dtype
@each_case
def test_positions_are_those_of_the_formula(case: WarpCase, dtype: torch.dtype) -> None:
    out = torch.full((3, *case.shape), torch.nan, dtype=dtype)
    cpu.positions(out, case.point_map)
    expected = reference.move(case.point_map, reference.voxels(case.shape)).movedim(-1, 0)
    assert error(out, expected) < TOLERANCE[dtype]


@each_dtype
@each_smooth
def test_determinants_are_those_of_the_derivative(case: WarpCase, dtype: torch.dtype) -> None:
    out = torch.full(case.shape, torch.nan, dtype=dtype)
    cpu.determinants(out, case.point_map)
    index = reference.voxels(case.shape)
    columns = [
        torch.func.jvp(lambda at: reference.move(case.point_map, at), (index,), (along.expand_as(index),))[1]
        for along in torch.eye(3, dtype=torch.float64)
    ]
    assert error(out, torch.linalg.det(torch.stack(columns, dim=-1))) < TOLERANCE[dtype]


def changed(case: WarpCase) -> tuple[torch.Tensor, ...]:
    """Return a direction for the matrices and for the coefficients of a case."""
    tensors = (case.point_map.matrices, *case.point_map.coefficients)
    return tuple(normal(tuple(t.shape), seed=20 + i) for i, t in enumerate(tensors))


def derivative(case: WarpCase, volume: torch.Tensor, change: tuple[torch.Tensor, ...], *, cubic: bool):
    """Return the derivative of the warped volume along a change: slopes times the change of positions."""

    def places(matrices: torch.Tensor, *coefficients: torch.Tensor) -> torch.Tensor:
        point_map = PointMap(matrices=matrices, coefficients=coefficients, degrees=case.point_map.degrees)
        return reference.move(point_map, reference.voxels(case.shape))

    now = (case.point_map.matrices, *case.point_map.coefficients)
    moved = torch.func.jvp(places, now, change)[1].movedim(-1, 0).reshape(3, -1)
    slopes = [
        reference.matrix(case.point_map, case.shape, case.volume_shape, cubic=cubic, slope_axis=axis)
        @ volume.flatten()
        for axis in range(3)
    ]
    return (torch.stack(slopes) * moved).sum(dim=0).reshape(case.shape)


@each_dtype
@each_interpolation
@each_smooth
def test_the_derivative_in_the_map(case: WarpCase, cubic: bool, dtype: torch.dtype) -> None:
    volume = normal(case.volume_shape, seed=1, dtype=dtype)
    d_matrices, *d_coefficients = change = changed(case)
    along = PointMap(matrices=d_matrices, coefficients=tuple(d_coefficients), degrees=case.point_map.degrees)
    out = torch.full(case.shape, torch.nan, dtype=dtype)
    cpu.differentiate(volume, out, case.point_map, along, cubic=cubic)
    assert error(out, derivative(case, volume.double(), change, cubic=cubic)) < TOLERANCE[dtype]


@each_dtype
@each_interpolation
@each_smooth
def test_pulling_back_is_the_transpose_of_the_derivative(
    case: WarpCase, cubic: bool, dtype: torch.dtype
) -> None:
    volume, image = (normal(s, seed=i, dtype=dtype) for i, s in enumerate((case.volume_shape, case.shape)))
    d_matrices, d_coefficients = cpu.pull_back(volume, image, case.point_map, cubic=cubic)
    for seed_case in range(3):
        change = tuple((1 + seed_case) * part.roll(seed_case, -1) for part in changed(case))
        pulled = sum((g * d).sum() for g, d in zip((d_matrices, *d_coefficients), change, strict=True))
        pushed = derivative(case, volume.double(), change, cubic=cubic) * image.double()
        assert abs(float(pulled - pushed.sum())) < TOLERANCE[dtype] * float(pushed.abs().sum())


@each_interpolation
@pytest.mark.parametrize("aligned", [True, False], ids=["aligned", "oblique"])
def test_pulling_back_skips_only_the_matrices_that_are_fixed(aligned: bool, cubic: bool) -> None:
    case = two_lattices("", aligned=aligned)
    volume, image = normal(case.volume_shape, seed=1), normal(case.shape, seed=2)
    d_matrices, d_coefficients = cpu.pull_back(volume, image, case.point_map, cubic=cubic)
    parts = {name: getattr(case.point_map, name) for name in ("matrices", "coefficients", "degrees")}
    for number in range(8):
        fixed = tuple(bool(number >> k & 1) for k in range(3))
        some, coefficients = cpu.pull_back(volume, image, PointMap(fixed=fixed, **parts), cubic=cubic)
        for got, expected in zip(coefficients, d_coefficients, strict=True):
            assert torch.equal(got, expected)
        for k in range(3):
            assert torch.equal(some[k], torch.zeros(3, 4).double() if fixed[k] else d_matrices[k])


@each_case
def test_the_bounds_hold_every_position(case: WarpCase) -> None:
    low, high = (torch.from_numpy(bound) for bound in case.point_map.bounds(case.shape))
    places = reference.move(case.point_map, reference.voxels(case.shape))
    room = 1e-12 * (1 + places.abs())
    assert bool((places >= low - room).all())
    assert bool((places <= high + room).all())


def test_the_bounds_of_a_matrix_are_reached() -> None:
    case = matrix_only("")
    low, high = (torch.from_numpy(bound) for bound in case.point_map.bounds(case.shape))
    places = reference.move(case.point_map, reference.voxels(case.shape)).reshape(-1, 3)
    torch.testing.assert_close(places.amin(dim=0), low)
    torch.testing.assert_close(places.amax(dim=0), high)


@pytest.mark.parametrize("degree", [1, 3])
def test_spline_weights_sum_to_one_and_their_slopes_to_zero(degree: int) -> None:
    t = torch.linspace(0, 1, 21, dtype=torch.float64)[:-1]
    torch.testing.assert_close(reference.spline_weights(t, degree).sum(dim=-1), torch.ones_like(t))
    assert float(reference.spline_weights(t, degree, derivative=1).sum(dim=-1).abs().max()) < 1e-14
    assert float(reference.spline_weights(t, degree).min()) >= 0


@pytest.mark.parametrize("power", [0, 1, 2])
def test_keys_weights_keep_quadratics(power: int) -> None:
    t = torch.linspace(0, 1, 21, dtype=torch.float64)[:-1]
    taps = torch.arange(-1, 3, dtype=torch.float64) ** power
    torch.testing.assert_close(reference.keys_weights(t) @ taps, t**power)
    slope = power * t ** max(power - 1, 0)
    torch.testing.assert_close(reference.keys_weights(t, derivative=1) @ taps, slope)


@each_dtype
@each_interpolation
@pytest.mark.usefixtures("two_threads")
def test_the_number_of_threads_does_not_change_a_bit(cubic: bool, dtype: torch.dtype) -> None:
    case = one_lattice("", degree=3, aligned=True, shape=(21, 17, 19), volume_shape=(20, 18, 17))
    volume, image = (normal(s, seed=i, dtype=dtype) for i, s in enumerate((case.volume_shape, case.shape)))
    results = []
    for n_threads in (1, 2, 2):
        numba.set_num_threads(n_threads)
        out, back, slopes = torch.empty_like(image), torch.empty_like(volume), image.new_empty(3, *case.shape)
        cpu.gather(volume, out, case.point_map, cubic=cubic)
        cpu.spread(image, back, case.point_map, cubic=cubic)
        cpu.slopes(volume, slopes, case.point_map, cubic=cubic)
        d_matrices, (d_coefficients,) = cpu.pull_back(volume, image, case.point_map, cubic=cubic)
        results.append((out, back, slopes, d_matrices, d_coefficients))
    for again in results[1:]:
        for got, expected in zip(again, results[0], strict=True):
            assert torch.equal(got, expected)
