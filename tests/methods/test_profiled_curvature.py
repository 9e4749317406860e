"""The curvature with the volume profiled out is the Schur complement of the dense one."""

from __future__ import annotations

import pytest
import torch

from duotomo.methods.profiled_curvature import ProfiledCurvature
from tests.cases.studies import GRID, shifted, study, truth
from tests.methods.test_problem import problem, somewhere

CASES = [
    ("rigid", 2),
    ("affine", 1),
    ("bspline:4,4,4", 1),
    pytest.param("bspline:5,5,5", 2, marks=pytest.mark.slow),
]


def dense(one: object, volume: torch.Tensor, rows: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return H_zz - H_zf H_ff^-1 H_fz and H_ff^-1 H_fz, from products with unit vectors."""
    misfit = one.misfit  # type: ignore[attr-defined]
    product = misfit.curvature(misfit.join(volume, rows))
    matrix = torch.stack([product(unit) for unit in torch.eye(misfit.shape[0], dtype=torch.float64)])
    n = volume.numel()
    of_volume = matrix[:n, :n].clone()
    for prior in one.volume_priors:  # type: ignore[attr-defined]
        own = prior.curvature(volume)
        units = torch.eye(n, dtype=torch.float64).reshape(n, *volume.shape)
        of_volume += torch.stack([own(unit).flatten() for unit in units])
    response = torch.linalg.solve(of_volume, matrix[:n, n:])
    return matrix[n:, n:] - matrix[n:, :n] @ response, response


@pytest.mark.parametrize(("model", "n_moving"), CASES)
def test_as_the_dense_matrix(model: str, n_moving: int) -> None:
    motions = [shifted(3.0, -2.0, 1.0), shifted(-1.0, 2.0, 0.5)][:n_moving]
    one = problem(model, of=study(*motions, dtype=torch.float64))
    volume, rows = somewhere(one)
    volume = torch.nn.functional.avg_pool3d(truth(dtype=torch.float64)[None, None], 2)[0, 0] + 0.1 * volume
    expected, response = dense(one, volume, rows)
    profiled = ProfiledCurvature(one, volume, rows, tolerance=1e-8, n_steps=1000)
    units = torch.eye(profiled.n_params, dtype=torch.float64)
    chosen = units if profiled.n_params <= 24 else units[:: profiled.n_params // 8]
    columns = profiled.columns(chosen)
    found = columns.rays @ columns.rays.T + columns.volumes.flatten(1) @ columns.priors.flatten(1).T
    own = chosen @ expected @ chosen.T
    scale = own.diagonal().clamp(min=1e-12 * float(own.diagonal().max())).rsqrt()
    assert float(((found - own) * scale[:, None] * scale).abs().max()) < 1e-6
    torch.testing.assert_close(columns.volumes.flatten(1), -(chosen @ response.T), rtol=0, atol=1e-6)
    products = profiled.products(chosen)
    assert float(((products - chosen @ expected).abs() / float(expected.abs().max())).max()) < 1e-6


def test_an_unfinished_solve_makes_it_larger_and_never_indefinite() -> None:
    one = problem("affine")
    volume, rows = somewhere(one)
    expected, _ = dense(one, volume, rows)
    profiled = ProfiledCurvature(one, volume, rows, tolerance=0.0)
    before = None
    for n_steps in (0, 2, 5, 20):
        columns = profiled.with_steps(n_steps).columns(torch.eye(12, dtype=torch.float64))
        found = columns.rays @ columns.rays.T + columns.volumes.flatten(1) @ columns.priors.flatten(1).T
        trace = float(found.trace())
        assert trace >= float(expected.trace()) * (1 - 1e-9)
        assert before is None or trace <= before
        before = trace


def test_residuals_are_those_of_the_misfit() -> None:
    one = problem("rigid")
    volume, rows = somewhere(one)
    profiled = ProfiledCurvature(one, volume, rows)
    value = one.misfit.value(one.misfit.join(volume, rows))
    assert float(profiled.residuals().square().sum()) / 2 == pytest.approx(value)
    parts = profiled.split(profiled.residuals())
    assert [part.shape for part in parts] == [visit.projections.shape for visit in one.level.visits]
    assert GRID.n_voxels > volume.numel()
