"""Draws of the noise beside the covariance: what counts as agreement, and that a killed run goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import bootstrap
from benchmarks.bootstrap import CASES, compared, judge, run, whitened


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
