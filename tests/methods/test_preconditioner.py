"""The preconditioner: near the inverse curvature along the motion, and fit for a quasi-Newton method."""

from __future__ import annotations

import pytest
import torch

from duotomo.methods import Priors, preconditioner
from duotomo.methods.level import Basis, Level
from duotomo.methods.preconditioner import (
    MOTION_SHARE,
    diagonal_estimate,
    inverse_curvature,
    motion_curvatures,
)
from duotomo.methods.priors import NO_PRIORS
from duotomo.methods.problem import Problem
from duotomo.methods.scales import scales_of
from tests.cases.studies import GRID, shifted, study, truth
from tests.methods.runs import MODELS

NAMES = ["rigid", "bspline:4,4,4"]
BASES: list[Basis] = ["voxel", "spline"]

each_model = pytest.mark.parametrize("model", NAMES)
each_basis = pytest.mark.parametrize("basis", BASES)


def problem(model: str, basis: Basis = "spline", priors: Priors = NO_PRIORS) -> Problem:
    of = study(shifted(3.0, -2.0, 1.0), dtype=torch.float64)
    transforms = [MODELS[model](GRID) for _ in of.moving]
    return Problem(Level(of, (2, 2, 2), basis=basis), transforms, priors, scales_of(of, priors))


def rows_of(one: Problem, seed: int = 0) -> list[torch.Tensor]:
    """Return parameters of each moving visit."""
    generator = torch.Generator().manual_seed(seed)
    return [0.3 * torch.randn(t.n_params, generator=generator, dtype=torch.float64) for t in one.transforms]


def joint_row(one: Problem, seed: int) -> torch.Tensor:
    return torch.randn(one.misfit.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def exact_matrix(one: Problem, volume: torch.Tensor, rows: list[torch.Tensor]) -> torch.Tensor:
    """Return `J^T W J` along the parameters, column by column."""
    product = one.misfit.params_part(volume).curvature(torch.cat(rows))
    return torch.stack([product(d) for d in torch.eye(len(torch.cat(rows)), dtype=torch.float64)])


@each_basis
@each_model
def test_it_is_symmetric_and_positive_definite(model: str, basis: Basis) -> None:
    one = problem(model, basis, Priors())
    _, precondition = one.of_both(truth(one.level.grid, torch.float64), rows_of(one))
    n = one.level.grid.n_voxels
    a, b = (joint_row(one, seed) for seed in (1, 2))
    before = a.clone()
    assert float(a @ precondition(b)) == pytest.approx(float(precondition(a) @ b), rel=1e-9)
    assert torch.equal(a, before)
    # Volume and parameters do not meet; along the parameters the whole matrix tells.
    volume_only = torch.cat([a[:n], torch.zeros_like(a[n:])])
    of_volume = one.volume_preconditioner(truth(one.level.grid, torch.float64), rows_of(one))
    torch.testing.assert_close(precondition(volume_only)[:n], of_volume(a[:n]), rtol=0, atol=1e-12)
    assert not bool(precondition(volume_only)[n:].any())
    columns = torch.zeros(one.misfit.n_params, *one.misfit.shape, dtype=torch.float64)
    columns[:, n:] = torch.eye(one.misfit.n_params, dtype=torch.float64)
    matrix = torch.stack([precondition(column)[n:] for column in columns])
    assert float((matrix - matrix.T).abs().max()) < 1e-9 * float(matrix.abs().max())
    assert float(torch.linalg.eigvalsh(matrix).min()) > 0


@each_basis
def test_along_few_parameters_it_inverts_the_gauss_newton_matrix(basis: Basis) -> None:
    one = problem("rigid", basis)
    volume, rows = truth(one.level.grid, torch.float64), rows_of(one)
    _, precondition = one.of_both(volume, rows)
    n = one.level.grid.n_voxels
    d = torch.zeros(one.misfit.shape, dtype=torch.float64)
    d[n:] = torch.randn(6, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    pushed = one.misfit.curvature(one.misfit.join(volume, rows))(d)
    pushed[:n] = 0
    # A millionth of the diagonal is added to the matrix.
    expected = MOTION_SHARE * one.volume_preconditioner(volume, rows).largest * d
    torch.testing.assert_close(precondition(pushed), expected, atol=1e-4 * float(expected.norm()), rtol=0)


@each_basis
def test_the_estimate_of_the_diagonal_tends_to_the_true_one(
    basis: Basis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With many draws of signs; the true diagonal is averaged over neighbours, as the estimate is."""
    monkeypatch.setattr(preconditioner, "N_PROBES", 400)
    one = problem("bspline:4,4,4", basis)
    volume, rows = truth(one.level.grid, torch.float64), rows_of(one)
    exact = exact_matrix(one, volume, rows).diagonal().reshape(1, 3, 4, 4, 4)
    smooth = torch.nn.functional.avg_pool3d(exact, 3, stride=1, padding=1, count_include_pad=False).flatten()
    # sqrt(2 / 400) of each is 7 %; neighbours see the same rays, so their mean is little better.
    assert float((diagonal_estimate(one.misfit, 0, volume, rows) - smooth).norm()) < 0.1 * float(
        smooth.norm()
    )
    # It is far from even: one number for all would not do.
    assert float((smooth - smooth.mean()).norm()) > 0.5 * float(smooth.norm())


@each_basis
def test_a_few_draws_give_the_size_of_the_diagonal(basis: Basis) -> None:
    one = problem("bspline:4,4,4", basis)
    volume, rows = truth(one.level.grid, torch.float64), rows_of(one)
    guess = diagonal_estimate(one.misfit, 0, volume, rows)
    exact = exact_matrix(one, volume, rows).diagonal()
    # Rays that cross one object are correlated: of four draws even the mean has an error of sqrt(2 / 4).
    assert 1 / 3 < float(guess.mean() / exact.mean()) < 3
    assert torch.equal(guess, diagonal_estimate(one.misfit, 0, volume, rows))


def test_parameters_off_a_lattice_share_their_mean() -> None:
    one = problem("rigid")
    guess = diagonal_estimate(one.misfit, 0, truth(one.level.grid, torch.float64), rows_of(one))
    torch.testing.assert_close(guess, guess.mean().expand(6), rtol=1e-12, atol=0)


def test_few_parameters_have_the_whole_matrix() -> None:
    one = problem("rigid")
    volume, rows = truth(one.level.grid, torch.float64), rows_of(one)
    (found,) = motion_curvatures(one.misfit, volume, rows)
    exact = exact_matrix(one, volume, rows)
    assert found.matrix is not None
    torch.testing.assert_close(found.matrix, exact, rtol=1e-9, atol=1e-9 * float(exact.abs().max()))
    torch.testing.assert_close(found.diagonal, exact.diagonal(), rtol=1e-9, atol=0)


def test_control_points_in_air_are_not_left_free() -> None:
    """Where the diagonal vanishes, the inverse stays below a hundred times that of the stiffest point."""
    one = problem("bspline:4,4,4")
    (transform,) = one.transforms
    diagonal = torch.zeros(3, 64, dtype=torch.float64)
    diagonal[:, :5] = torch.tensor([[4.0], [2.0], [1.0]], dtype=torch.float64)
    (like,) = motion_curvatures(one.misfit, truth(one.level.grid, torch.float64), rows_of(one))
    assert like.matrix is None
    curvature = type(like)(diagonal=diagonal.flatten())
    inverse = inverse_curvature(transform, curvature, 0.0, 1.0)(torch.ones(192, dtype=torch.float64))
    rows = inverse.reshape(3, 64)
    torch.testing.assert_close(rows[:, 0], MOTION_SHARE / diagonal[:, 0])
    torch.testing.assert_close(rows[:, 5:], (100 * rows[:, :1]).expand(3, 59))
    # Bending stiffens all of them by its part of the mean.
    bent = inverse_curvature(transform, curvature, 0.5, 1.0)(torch.ones(192, dtype=torch.float64))
    torch.testing.assert_close(
        MOTION_SHARE / bent - MOTION_SHARE / inverse, torch.full_like(bent, 0.5 * 35 / 192)
    )
