"""Compositions: the order of the parts, their parameters, and warps that are products."""

from __future__ import annotations

import pytest
import torch

from duotomo.geometry import VolumeGrid, voxel_to_world
from duotomo.transforms import Affine, BSpline, Composition, DisplacementField, Rigid, Translation, Velocity
from tests.cases.transforms import REFERENCE, draw_params

PARTS = [
    Translation(REFERENCE),
    BSpline.over(REFERENCE, (4, 4, 5)),
    Rigid(REFERENCE),
    Velocity.over(REFERENCE, (4, 4, 4)),
    Affine(REFERENCE),
    DisplacementField(REFERENCE.coarsen(2)),
]


def points_mm(n: int = 40) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    index = torch.rand(n, 3, generator=generator, dtype=torch.float64) * torch.tensor(REFERENCE.shape)
    return torch.from_numpy(voxel_to_world(REFERENCE, index.numpy()).copy())


@pytest.mark.parametrize("numbers", [(0,), (2, 1), (1, 2), (0, 1, 4), (1, 3, 2, 5), (5, 4, 3, 2, 1, 0)])
def test_points_go_through_the_parts_in_turn(numbers: tuple[int, ...]) -> None:
    parts = [PARTS[i] for i in numbers]
    each = [draw_params(part, seed=i) for i, part in enumerate(parts)]
    whole = Composition(*parts)
    expected = points_mm()
    for part, params in zip(parts, each, strict=True):
        expected = part.points(params, expected)
    got = whole.points(whole.join(*each), points_mm())
    assert float((got - expected).abs().max()) < 1e-10
    assert whole.n_params == sum(part.n_params for part in parts)


def test_order_matters() -> None:
    turn, shift = Rigid(REFERENCE), Translation(REFERENCE)
    p = turn.params(rotation_deg=(0.0, 0.0, 90.0), translation_mm=(0.0, 0.0, 0.0))
    t = shift.params(translation_mm=(1.0, 0.0, 0.0))
    middle_mm = torch.tensor(REFERENCE.center_mm[::-1], dtype=torch.float64)
    x, y = torch.eye(3, dtype=torch.float64)[:2]
    first_shifted = Composition(shift, turn)
    torch.testing.assert_close(first_shifted.points(torch.cat([t, p]), middle_mm), middle_mm + y)
    first_turned = Composition(turn, shift)
    torch.testing.assert_close(first_turned.points(torch.cat([p, t]), middle_mm), middle_mm + x)


def test_splitting_undoes_joining() -> None:
    whole = Composition(*PARTS)
    each = [draw_params(part, seed=i) for i, part in enumerate(PARTS)]
    params = whole.join(*each)
    assert params.shape == (whole.n_params,)
    for got, expected in zip(whole.split(params), each, strict=True):
        assert torch.equal(got, expected)
    assert torch.equal(whole.join(*whole.split(params)), params)


def test_a_composition_of_compositions_is_one_composition() -> None:
    a, b, c = PARTS[1], PARTS[2], PARTS[3]
    each = [draw_params(part, seed=i) for i, part in enumerate((a, b, c))]
    params = torch.cat(each)
    flat = Composition(a, b, c).points(params, points_mm())
    # (A B) C = A (B C)
    assert torch.equal(Composition(Composition(a, b), c).points(params, points_mm()), flat)
    assert torch.equal(Composition(a, Composition(b, c)).points(params, points_mm()), flat)


@pytest.mark.parametrize("cubic", [False, True], ids=["linear", "cubic"])
def test_warps_multiply_where_the_first_lands_on_voxels(cubic: bool) -> None:
    # f(S(T(x))) is the warp by T of the warp by S of f. Without interpolation in between, exactly.
    exact = VolumeGrid(shape=(5, 6, 7), spacing_mm=(1.5, 1.0, 0.5), center_mm=(4.0, 3.0, -1.0))
    first, second = Translation(exact), Rigid(exact)
    t = torch.tensor([1.0, -2.0, 0.0], dtype=torch.float64)
    s = draw_params(second, seed=5, turn_deg=20.0)
    volume = torch.randn(exact.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    whole = Composition(first, second).warp(torch.cat([t, s]), cubic=cubic)
    product = first.warp(t, cubic=cubic) @ second.warp(s, cubic=cubic)
    inside = (slice(None), slice(2, None), slice(None, -1))
    assert float(whole(volume)[inside].norm()) > 1
    assert float((whole(volume) - product(volume))[inside].abs().max()) < 1e-12


def test_the_grid_is_that_of_the_first_part() -> None:
    coarse = Translation(REFERENCE.coarsen(2))
    assert Composition(coarse, Rigid(REFERENCE)).grid == coarse.grid
