"""The laws of a transform, for every transform there is."""

from __future__ import annotations

import inspect
import itertools
import pickle
from collections.abc import Callable

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from duotomo.errors import GeometryError
from duotomo.geometry import VolumeGrid, world_to_voxel
from duotomo.kernels.warp import cpu
from duotomo.operators import adjoint_gap
from duotomo.transforms import Composition, Transform
from duotomo.transforms.maps import LatticeMap
from tests.cases.transforms import MOVING, REFERENCE, centers_mm, draw_params, normal, transforms
from tests.strategies import grid_pairs

BESIDE = VolumeGrid(shape=REFERENCE.shape, spacing_mm=REFERENCE.spacing_mm, center_mm=(8.3, 3.2, -1.2))
"""The reference grid, moved by a part of a voxel: a field's slopes jump at its own voxel centres."""

Build = Callable[[VolumeGrid], Transform]

GAP = {torch.float64: 1e-12, torch.float32: 1e-6}

each_transform = pytest.mark.parametrize("build", [pytest.param(b, id=name) for name, b in transforms()])
each_interpolation = pytest.mark.parametrize("cubic", [False, True], ids=["linear", "cubic"])
each_grid = pytest.mark.parametrize("grid", [REFERENCE, MOVING], ids=["its own grid", "another grid"])


def places_mm(grid: VolumeGrid, n: int, *, seed: int) -> torch.Tensor:
    """Return random points, (n, xyz), in a grid's box and around it."""
    low, high = (torch.tensor(corner[::-1], dtype=torch.float64) for corner in (grid.low_mm, grid.high_mm))
    along = torch.rand(n, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return low + (1.4 * along - 0.2) * (high - low)


@each_interpolation
@each_transform
def test_the_adjoint_of_any_warp_is_the_transpose(build: Build, cubic: bool) -> None:
    seen = []

    @settings(max_examples=25)
    @given(pair=grid_pairs(), seed=st.integers(0, 2**32))
    def law(pair: tuple[VolumeGrid, VolumeGrid], seed: int) -> None:
        reference, moving = pair
        transform = build(reference)
        params = draw_params(transform, seed=seed)
        try:
            operator = transform.warp(params, reference, moving, cubic=cubic)
        except GeometryError:
            # Drawn so far away that the grids do not meet.
            assume(False)
        # The gap is measured against |T x|. Where only the ends of a few weights are left, or sums happen to
        # cancel, that is rounding, and such a draw says nothing.
        x = normal(operator.domain, seed=seed)
        assume(operator(x).norm() > 0.1 * operator(x.abs()).norm() > 1e-3)
        seen.append(seed)
        for dtype, most in GAP.items():
            generator = torch.Generator().manual_seed(seed)
            assert adjoint_gap(operator, generator=generator, dtype=dtype) < most

    law()
    assert len(seen) >= 15


@each_interpolation
@each_transform
def test_the_identity_changes_nothing(build: Build, cubic: bool) -> None:
    transform = build(REFERENCE)
    params = transform.identity()
    volume, xyz_mm = normal(REFERENCE.shape, seed=1), places_mm(REFERENCE, 20, seed=2)
    assert (params.shape, params.dtype) == ((transform.n_params,), torch.float64)
    assert float((transform.warp(params, cubic=cubic)(volume) - volume).abs().max()) < 1e-12
    assert float((transform.points(params, xyz_mm) - xyz_mm).abs().max()) < 1e-12
    assert float(transform.displacement(params).abs().max()) < 1e-12
    assert float((transform.determinants(params) - 1).abs().max()) < 1e-12


@each_grid
@each_transform
def test_points_displacements_and_warps_go_to_the_same_places(build: Build, grid: VolumeGrid) -> None:
    transform = build(REFERENCE)
    params = draw_params(transform, seed=3)
    here_mm = centers_mm(grid)
    there_mm = transform.points(params, here_mm)
    assert float((there_mm - here_mm).norm(dim=-1).max()) > 0.5
    moved_mm = transform.displacement(params, grid)
    assert float((moved_mm.movedim(0, -1) - (there_mm - here_mm)).abs().max()) < 1e-10
    warp = transform.warp(params, REFERENCE, grid)
    places = torch.empty(3, *grid.shape, dtype=torch.float64)
    cpu.positions(places, warp.point_map)
    expected = torch.from_numpy(world_to_voxel(REFERENCE, there_mm.numpy()))
    assert float((places.movedim(0, -1) - expected).abs().max()) < 1e-10


@each_transform
def test_the_jacobian_is_the_derivative_of_the_points(build: Build) -> None:
    transform = build(REFERENCE)
    params, xyz_mm, step = draw_params(transform, seed=5), places_mm(REFERENCE, 30, seed=6), 1e-5
    jacobian = transform.jacobian(params, xyz_mm)
    assert jacobian.shape == (30, 3, 3)
    for axis, along in enumerate(step * torch.eye(3, dtype=torch.float64)):
        ahead, behind = transform.points(params, xyz_mm + along), transform.points(params, xyz_mm - along)
        difference = (ahead - behind) / (2 * step)
        assert float((jacobian[..., axis] - difference).abs().max()) < 1e-7 * float(difference.abs().max())


@pytest.mark.parametrize("grid", [BESIDE, MOVING], ids=["beside its own grid", "another grid"])
@each_transform
def test_determinants_are_those_of_the_jacobian(build: Build, grid: VolumeGrid) -> None:
    transform = build(REFERENCE)
    params = draw_params(transform, seed=5)
    expected = torch.linalg.det(transform.jacobian(params, centers_mm(grid)))
    got = transform.determinants(params, grid)
    assert got.shape == grid.shape
    assert float((got - expected).abs().max()) < 1e-10 * float(expected.abs().max())


@each_transform
def test_points_are_differentiable(build: Build) -> None:
    transform = build(REFERENCE)
    params = draw_params(transform, seed=7).requires_grad_()
    xyz_mm = places_mm(REFERENCE, 4, seed=8).requires_grad_()
    assert torch.autograd.gradcheck(transform.points, (params, xyz_mm), fast_mode=True)


@each_transform
def test_points_come_in_any_shape_and_precision(build: Build) -> None:
    transform = build(REFERENCE)
    params, xyz_mm = draw_params(transform, seed=7), places_mm(REFERENCE, 6, seed=8)
    expected = transform.points(params, xyz_mm)
    assert torch.equal(transform.points(params, xyz_mm.reshape(2, 3, 3)), expected.reshape(2, 3, 3))
    assert float((transform.points(params, xyz_mm[0]) - expected[0]).abs().max()) < 1e-12
    single = transform.points(params.float(), xyz_mm.float())
    assert single.dtype == torch.float64
    assert float((single - expected).abs().max()) < 1e-4


@each_transform
def test_physical_parameters_come_back(build: Build) -> None:
    def check(transform: Transform, params: torch.Tensor) -> None:
        meaning = transform.physical(params)
        if isinstance(transform, Composition):
            parts = zip(meaning.items(), transform.parts, transform.split(params), strict=True)
            for i, ((name, inner), part, p) in enumerate(parts, start=1):
                assert name == f"{i} {type(part).__name__}"
                for key, value in part.physical(p).items():
                    assert torch.equal(inner[key], value)
                check(part, p)
            return
        names = inspect.signature(transform.params).parameters
        back = transform.params(**{name: meaning[name] for name in names})
        assert float((back - params).abs().max()) < 1e-12 * float(params.abs().max())

    transform = build(REFERENCE)
    check(transform, draw_params(transform, seed=9))


@each_transform
def test_pickling_changes_nothing(build: Build) -> None:
    transform = build(REFERENCE)
    params, xyz_mm = draw_params(transform, seed=7), places_mm(REFERENCE, 6, seed=8)
    copy = pickle.loads(pickle.dumps(transform))
    assert copy.n_params == transform.n_params
    assert torch.equal(copy.points(params, xyz_mm), transform.points(params, xyz_mm))


CLINICAL = VolumeGrid.on_detector((5, 45, 60), (1.0, 0.2, 0.2))
CUBE = VolumeGrid.on_detector((16, 16, 16), (0.5, 0.5, 0.5))


@pytest.mark.parametrize("grid", [CLINICAL, CUBE], ids=["clinical voxels", "cube"])
@pytest.mark.parametrize(
    "build",
    # The parameters of a composition are those of its parts; what turns about the origin moves all else more.
    [pytest.param(b, id=name) for name, b in transforms() if "after" not in name and "origin" not in name],
)
def test_a_unit_step_of_a_parameter_moves_a_corner_by_about_a_voxel(build: Build, grid: VolumeGrid) -> None:
    # For lattices, the point moved most is where the control point is.
    transform = build(grid)
    ends = zip(grid.low_mm[::-1], grid.high_mm[::-1], strict=True)
    marks_mm = [torch.tensor(list(itertools.product(*ends)), dtype=torch.float64)]
    for stage in transform.maps(transform.identity()):
        if isinstance(stage, LatticeMap):
            marks_mm.append(centers_mm(stage.lattice).reshape(-1, 3))
    marks_mm = torch.cat(marks_mm)
    spacing_mm = torch.tensor(grid.spacing_mm[::-1], dtype=torch.float64)
    n = transform.n_params
    for i in range(n) if n <= 12 else (0, n // 3, n // 2, n - 1):
        step = transform.identity()
        step[i] = 1.0
        moved_voxels = (transform.points(step, marks_mm) - marks_mm) / spacing_mm
        assert 0.1 < float(moved_voxels.norm(dim=-1).max()) < 3
