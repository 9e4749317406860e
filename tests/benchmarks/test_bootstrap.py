"""Draws of the noise beside the covariance: what counts as agreement, and that a killed run goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import bootstrap
from benchmarks.bootstrap import CASES, compared, judge, run, start, whitened
from benchmarks.bootstrap_newton import NewtonDraws, covariance_by_hessian
from duotomo.methods.bootstrap import Redrawn
from duotomo.solvers import Status
from duotomo.transforms import BSpline


def drawn(factor: np.ndarray, n: int = 400) -> np.ndarray:
    rows = np.random.default_rng(1).standard_normal((n, len(factor))) @ factor.T
    return rows - rows.mean(axis=0)


def test_draws_of_the_covariance_agree_with_it() -> None:
    found = whitened(drawn(np.eye(12)))
    assert abs(found["mean_square"] - 1) < 3 * found["standard_error_of_mean_square"]
    assert found["probability_of_mean_square"] > 0.01
    assert found["bartlett"][2] > 0.01
    for value, low, high in (found["least_eigenvalue"], found["largest_eigenvalue"]):
        assert 0.9 * low < value < 1.1 * high


def test_a_twelfth_that_is_too_wide_is_seen() -> None:
    found = whitened(drawn(np.diag([1.3] + [1.0] * 11)))
    value, _, high = found["largest_eigenvalue"]
    assert value > high
    assert found["bartlett"][2] < 0.01


def test_points_are_compared_in_mm() -> None:
    generator = np.random.default_rng(0)
    factor = generator.standard_normal((6, 6))
    slopes = generator.standard_normal((5, 3, 6))
    found = compared(drawn(factor), 4 * factor @ factor.T, slopes)
    assert found["points"]["in_plane_ratio"] == pytest.approx(0.5, rel=0.1)
    assert found["points"]["depth_ratio"] == pytest.approx(0.5, rel=0.1)
    assert found["mean_square"] == pytest.approx(0.25, rel=0.1)
    assert found["share_of_variance"] == pytest.approx(1)


@pytest.fixture(scope="module")
def tiny() -> Redrawn:
    """Draws of 4^3 control points on 4^3 voxels."""
    case = replace(CASES["bspline"], n=8, model=BSpline.shaped((4, 4, 4)))
    return Redrawn.of(*start(case), n_steps=400)


@pytest.mark.slow
@torch.no_grad()
def test_newton_ends_where_the_solver_of_the_run_goes(tiny: Redrawn) -> None:
    drawing = NewtonDraws.of(tiny)
    block = drawing.solved(3)
    assert block.status is Status.CONVERGED
    problem = tiny.drawn(3)
    objective, _ = problem.of_both(tiny.base.volume, tiny.base.params)
    slope = objective.value_and_gradient(problem.misfit.join(block.volume, block.params))[1]
    before = objective.value_and_gradient(drawing.still)[1]
    assert float(slope.norm()) < 1e-6 * float(before.norm())
    run = tiny.solved(3)
    assert block.objective <= run.objective
    assert block.objective == pytest.approx(run.objective, rel=1e-4)


@pytest.mark.slow
@torch.no_grad()
def test_the_covariance_by_the_hessian_is_that_of_dense_matrices(tiny: Redrawn) -> None:
    drawing = NewtonDraws.of(tiny)
    volume, params = tiny.drawn(None).misfit.split(drawing.still)
    covariance = covariance_by_hessian(tiny, replace(tiny.base, volume=volume, params=tuple(params)))
    expected = drawing.covariance()
    scale = expected.diagonal().rsqrt()
    assert float(((covariance - expected) * scale[:, None] * scale).abs().max()) < 1e-3


def test_killed_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(bootstrap.CASES, "affine", replace(CASES["affine"], n=12, n_steps=3))
    run(tmp_path, "affine", range(2))
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(files) == {"base.npz", *(f"draw_{seed:04d}.npz" for seed in range(2))}
    (tmp_path / "draw_0001.npz").unlink()
    run(tmp_path, "affine", range(2))
    with np.load(tmp_path / "draw_0001.npz") as file:
        again = file["params"]
    (tmp_path / "first.npz").write_bytes(files["draw_0001.npz"])
    with np.load(tmp_path / "first.npz") as file:
        np.testing.assert_array_equal(again, file["params"])
    with pytest.raises(SystemExit, match="at least 20 draws; got 2"):
        judge(tmp_path, "affine")
