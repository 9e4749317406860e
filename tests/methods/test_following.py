"""Coordinates in which the volume follows the motion: the same objective, and less coupling."""

from __future__ import annotations

import pytest
import torch

from duotomo.methods import Priors
from duotomo.methods.following import Following
from duotomo.methods.level import Basis, Level
from duotomo.methods.problem import Problem
from duotomo.methods.scales import scales_of
from tests.cases.studies import GRID, shifted, study, truth
from tests.methods.runs import MODELS

each_model = pytest.mark.parametrize("model", ["rigid", "bspline:4,4,4"])
each_basis = pytest.mark.parametrize("basis", ["voxel", "spline"])


def posed(model: str, basis: Basis) -> tuple[Problem, Following, torch.Tensor]:
    """Return a problem of three visits, its objective in the new coordinates, and x at y = 0."""
    of = study(shifted(3.0, -2.0, 1.0), shifted(-2.0, 1.0, 2.0), dtype=torch.float64)
    transforms = [MODELS[model](GRID) for _ in of.moving]
    one = Problem(Level(of, (2, 2, 2), basis=basis), transforms, Priors(), scales_of(of, Priors()))
    generator = torch.Generator().manual_seed(0)
    rows = [0.3 * torch.randn(t.n_params, generator=generator, dtype=torch.float64) for t in transforms]
    volume = truth(one.level.grid, torch.float64)
    x = one.misfit.join(volume, rows)
    return one, Following(one.of_both(volume, rows)[0], one.misfit, x), x


def drawn(one: Problem, seed: int) -> torch.Tensor:
    """Return a direction: of the volume in its own units, of the parameters in tenths of a voxel."""
    row = torch.randn(one.misfit.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    row[: one.level.grid.n_voxels] *= 0.01
    row[one.level.grid.n_voxels :] *= 0.1
    return row


@each_basis
@each_model
def test_it_begins_where_it_was_put(model: str, basis: Basis) -> None:
    one, following, x = posed(model, basis)
    y = torch.zeros_like(x)
    assert torch.equal(following.point(y), x)
    assert following.value(y) == following.objective.value(x)
    # The parameters are those of x, moved; only the volume is given something of them.
    d, n = drawn(one, 1), one.level.grid.n_voxels
    torch.testing.assert_close(following.point(d)[n:], (x + d)[n:], rtol=1e-13, atol=1e-13)
    assert not torch.allclose(following.point(d)[:n], (x + d)[:n], atol=1e-4)


@each_basis
@each_model
def test_its_gradient_is_that_of_its_value(model: str, basis: Basis) -> None:
    one, following, _ = posed(model, basis)
    at, d, step = drawn(one, 2), drawn(one, 3), 1e-5
    _, gradient = following.value_and_gradient(at)
    slope = (following.value(at + step * d) - following.value(at - step * d)) / (2 * step)
    # The warp's cubic pieces join where a second derivative jumps.
    assert float(gradient @ d) == pytest.approx(slope, rel=1e-5)


@each_model
def test_the_volume_no_longer_holds_the_motion_in_place(model: str) -> None:
    """The Gauss-Newton matrix couples a change of motion to the volume less than half as much as before."""
    one, following, x = posed(model, "voxel")
    n, push = one.level.grid.n_voxels, one.misfit.curvature(x)
    generator = torch.Generator().manual_seed(4)
    d = torch.zeros_like(x)
    d[n:] = torch.randn(len(x) - n, generator=generator, dtype=torch.float64)
    followed = following.point(d) - x
    before, after = push(d)[:n], push(followed)[:n]
    assert float(after.norm()) < 0.5 * float(before.norm())
