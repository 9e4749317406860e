"""Velocities: the flow of a differential equation, its inverse, and that it never folds."""

from __future__ import annotations

import math

import pytest
import torch

from duotomo.geometry import VolumeGrid
from duotomo.transforms import BSpline, Velocity
from tests.cases.transforms import centers_mm, draw_params, normal

GRID = VolumeGrid.on_detector((16, 16, 20), (1.0, 1.0, 1.0))
CONTROL_SHAPE = (5, 5, 5)


def broad(flow: Velocity, *, size_mm: float, seed: int) -> torch.Tensor:
    """Return parameters of a sum of Gaussians a third as wide as the box, of at most about `size_mm`."""
    box_mm, middle_mm = (torch.tensor(t[::-1], dtype=torch.float64) for t in (GRID.size_mm, GRID.center_mm))
    at_mm = centers_mm(flow.lattice)
    total = torch.zeros(3, *flow.lattice.shape, dtype=torch.float64)
    for i in range(4):
        place, amount = normal((2, 3), seed=10 * seed + i)
        away = (at_mm - middle_mm - 0.25 * box_mm * place) / (box_mm / 3)
        total += amount[:, None, None, None] * torch.exp(-away.square().sum(dim=-1) / 2)
    return flow.params(velocities_mm=total * size_mm / total.norm(dim=0).max())


def flow_along(
    flow: Velocity, params: torch.Tensor, points_mm: torch.Tensor, *, n_steps: int
) -> torch.Tensor:
    """Return where points are after a unit of time, by the classical Runge-Kutta method."""
    spline = BSpline(flow.grid, flow.lattice)

    def v(at_mm: torch.Tensor) -> torch.Tensor:
        return spline.points(params, at_mm) - at_mm

    h = 1 / n_steps
    for _ in range(n_steps):
        a = v(points_mm)
        b = v(points_mm + h / 2 * a)
        c = v(points_mm + h / 2 * b)
        d = v(points_mm + h * c)
        points_mm = points_mm + h / 6 * (a + 2 * b + 2 * c + d)
    return points_mm


def test_a_velocity_is_integrated() -> None:
    flow = Velocity.over(GRID, CONTROL_SHAPE)
    points_mm = centers_mm(GRID)[::3, ::3, ::3].reshape(-1, 3)
    for seed in range(3):
        params = broad(flow, size_mm=5.0, seed=seed)
        there_mm = flow_along(flow, params, points_mm, n_steps=16)
        farthest_mm = float((there_mm - points_mm).norm(dim=-1).max())
        assert farthest_mm > 2
        assert float((flow.points(params, points_mm) - there_mm).norm(dim=-1).max()) < 0.01 * farthest_mm


def test_the_inverse_flows_back() -> None:
    # What cannot be undone lies in the lattice on which the flow is kept, so a finer one leaves less.
    left = {2: 0.0, 4: 0.0}
    points_mm = centers_mm(GRID).reshape(-1, 3)
    for finer in left:
        flow = Velocity.over(GRID, CONTROL_SHAPE, finer=finer)
        params = broad(flow, size_mm=5.0, seed=1)
        inverse = flow.inverse(params)
        back, back_params = inverse.transform, inverse.params
        there_mm = flow.points(params, points_mm)
        away_mm = back.points(back_params, there_mm) - points_mm
        left[finer] = float(away_mm.norm(dim=-1).max() / (there_mm - points_mm).norm(dim=-1).max())
    assert left[2] < 0.01
    assert left[4] < 0.002
    assert left[4] < left[2] / 3


def test_equal_velocities_are_a_translation_in_the_middle() -> None:
    flow = Velocity.over(GRID, CONTROL_SHAPE)
    shift_mm = torch.tensor([1.0, -0.5, 0.75], dtype=torch.float64)
    params = flow.params(velocities_mm=shift_mm[:, None, None, None].expand(3, *CONTROL_SHAPE))
    middle_mm = centers_mm(GRID)[4:-4, 4:-4, 4:-4]
    assert float((flow.points(params, middle_mm) - middle_mm - shift_mm).abs().max()) < 1e-3


def test_the_flow_of_a_linear_velocity_is_the_exponential_of_its_matrix() -> None:
    # Half a right angle about z, and a stretch along it. Splines hold linear maps, so the error is the
    # integration's alone, and that of the lattice's far ends.
    flow = Velocity.over(GRID, (8, 8, 8))
    turn = math.radians(45.0)
    matrix = torch.tensor([[0.0, -turn, 0.0], [turn, 0.0, 0.0], [0.0, 0.0, 0.3]], dtype=torch.float64)
    middle_mm = torch.tensor(GRID.center_mm[::-1], dtype=torch.float64)
    velocities_mm = (centers_mm(flow.lattice) - middle_mm) @ matrix.T
    params = flow.params(velocities_mm=velocities_mm.movedim(-1, 0))
    inner_mm = centers_mm(GRID)[5:-5, 5:-5, 6:-6]
    expected = middle_mm + (inner_mm - middle_mm) @ torch.linalg.matrix_exp(matrix).T
    assert float((expected - inner_mm).norm(dim=-1).max()) > 3
    assert float((flow.points(params, inner_mm) - expected).norm(dim=-1).max()) < 1e-3


def test_flows_along_one_field_add_up() -> None:
    # exp(s v) exp(t v) = exp((s + t) v)
    flow = Velocity.over(GRID, CONTROL_SHAPE)
    params, points_mm = broad(flow, size_mm=4.0, seed=2), centers_mm(GRID)[::4, ::4, ::4]
    in_two = flow.points(0.7 * params, flow.points(0.3 * params, points_mm))
    moved_mm = float((in_two - points_mm).norm(dim=-1).max())
    assert float((in_two - flow.points(params, points_mm)).norm(dim=-1).max()) < 0.005 * moved_mm


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_velocity_does_not_fold_where_a_spline_does(seed: int) -> None:
    # Neighbouring coefficients, four voxels apart, differ by about four voxels.
    spline, flow = BSpline.over(GRID, (7, 7, 8)), Velocity.over(GRID, (7, 7, 8))
    params = draw_params(spline, seed=seed, size_voxels=3.0)
    assert float(spline.determinants(params).min()) < 0
    assert float(flow.determinants(params).min()) > 0.1


def test_small_velocities_are_displacements() -> None:
    # exp(v) = id + v + v' v / 2 + ...
    spline, flow = BSpline.over(GRID, CONTROL_SHAPE), Velocity.over(GRID, CONTROL_SHAPE)
    params = broad(flow, size_mm=5.0, seed=3)
    away = [
        float((flow.displacement(h * params) - spline.displacement(h * params)).norm()) / h
        for h in (1e-2, 1e-3)
    ]
    assert away[0] < 0.01 * float(spline.displacement(params).norm())
    assert away[1] < 0.2 * away[0]
