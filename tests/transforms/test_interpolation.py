"""What interpolation must reproduce exactly, seen through transforms between unequal grids."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from duotomo.geometry import VolumeGrid, world_to_voxel
from duotomo.transforms import Transform
from tests.cases.transforms import MOVING, REFERENCE, centers_mm, draw_params, transforms

Polynomial = Callable[[torch.Tensor], torch.Tensor]

each_transform = pytest.mark.parametrize("build", [pytest.param(b, id=name) for name, b in transforms()])


def trilinear(xyz_mm: torch.Tensor) -> torch.Tensor:
    x, y, z = xyz_mm.unbind(-1)
    return 1 + 0.5 * x - y + 0.3 * z + 0.2 * x * y - 0.4 * y * z + 0.1 * x * z - 0.05 * x * y * z


def quadratic(xyz_mm: torch.Tensor) -> torch.Tensor:
    x, y, z = xyz_mm.unbind(-1)
    return trilinear(xyz_mm) + 0.3 * x**2 - 0.2 * y**2 + 0.1 * z**2 + 0.02 * x**2 * y**2 * z - 0.03 * z**2 * y


def inside(places: torch.Tensor, margin: int) -> torch.Tensor:
    """Return which places have all the voxels around them that the interpolant asks for."""
    return ((places >= margin) & (places <= torch.tensor(REFERENCE.shape) - 1 - margin)).all(dim=-1)


def seen(build: Callable[[VolumeGrid], Transform], f: Polynomial, *, cubic: bool) -> torch.Tensor:
    """Return the error of a warped polynomial where it is inside."""
    transform = build(REFERENCE)
    params = draw_params(transform, seed=2, size_voxels=0.3, turn_deg=15.0, stretch=0.05)
    there_mm = transform.points(params, centers_mm(MOVING))
    places = torch.from_numpy(world_to_voxel(REFERENCE, there_mm.numpy()))
    warped = transform.warp(params, REFERENCE, MOVING, cubic=cubic)(f(centers_mm(REFERENCE)))
    within = inside(places, int(cubic))
    assert int(within.sum()) > 20
    return (warped - f(there_mm))[within]


@each_transform
def test_linear_interpolation_keeps_what_is_linear_in_each_coordinate(
    build: Callable[[VolumeGrid], Transform],
) -> None:
    assert float(seen(build, trilinear, cubic=False).abs().max()) < 1e-10
    # It keeps no more than that.
    assert float(seen(build, quadratic, cubic=False).abs().max()) > 1e-3


@each_transform
def test_cubic_interpolation_keeps_what_is_quadratic_in_each_coordinate(
    build: Callable[[VolumeGrid], Transform],
) -> None:
    assert float(seen(build, quadratic, cubic=True).abs().max()) < 1e-10
    # It keeps no more than that.
    assert float(seen(build, lambda p: p[..., 0] ** 3, cubic=True).abs().max()) > 1e-3


@pytest.mark.parametrize("cubic", [False, True], ids=["linear", "cubic"])
def test_a_volume_fades_to_zero_beyond_its_outermost_centres(cubic: bool) -> None:
    # One row of ones, read at every quarter voxel.
    row = VolumeGrid(shape=(1, 1, 8), spacing_mm=(1.0, 1.0, 1.0), center_mm=(0.5, 0.0, 0.0))
    fine = VolumeGrid(shape=(1, 1, 64), spacing_mm=(1.0, 1.0, 0.25), center_mm=(0.5, 0.0, 0.0))
    still = dict(transforms())["translation"](row)
    values = still.warp(still.identity(), row, fine, cubic=cubic)(torch.ones(row.shape).double())[0, 0]
    at = torch.from_numpy(world_to_voxel(row, centers_mm(fine).numpy()))[0, 0, :, 2]
    reach = 2 if cubic else 1
    outside = (at <= -reach) | (at >= 7 + reach)
    assert int(outside.sum()) >= 20
    assert torch.count_nonzero(values[outside]) == 0
    full = (at >= reach - 1) & (at <= 8 - reach)
    torch.testing.assert_close(values[full], torch.ones_like(values[full]))
    between = (at > -1) & (at < 0)
    assert float(values[between].min()) > 0
    assert float(values[between].max()) < 1
