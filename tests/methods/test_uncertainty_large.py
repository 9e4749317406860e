"""The covariance of an affine motion on 48^3 voxels, against one made of differences of gradients alone."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.fft import fftn
from scipy.sparse.linalg import LinearOperator, cg

from duotomo.geometry import VolumeGrid
from duotomo.methods import Priors, Result, Settings, uncertainty_of
from duotomo.methods.level import FINEST
from duotomo.methods.problem import Problem
from duotomo.methods.profiled_curvature import ProfiledColumns, ProfiledCurvature
from duotomo.methods.sandwich import BLOCK_MM, BLOCKS, SPECTRUM, Form
from duotomo.methods.scales import level_of, scales_of
from duotomo.objectives import JointMisfit
from duotomo.solvers import Status
from duotomo.transforms import Affine, Motion
from tests.cases.scans import arc
from tests.cases.studies import shifted, truth
from tests.methods.test_uncertainty import sure

GRID = VolumeGrid.on_detector((48, 48, 48), (1.0, 1.0, 1.0), gap_mm=5.0)
SCAN = arc((30, 46), 2.0, n_views=3)
STEP = 2e-5
"""Of central differences in the parameters, which are in voxels; errors are of its square."""

PRIORS = Priors(total_variation=20.0, smoothing=0.5, edges=0.0)


class Differences:
    """Curvatures of a misfit by differences of its gradient, at data that are explained exactly.

    There the Hessian is that of Gauss and Newton, which depends on no data.
    """

    def __init__(self, misfit: JointMisfit, x: torch.Tensor) -> None:
        self.measured, self.x, self.n_voxels = misfit, x, misfit.grid.n_voxels
        volume, (params,) = misfit.split(x)
        shown = misfit.basis(volume)  # type: ignore[misc]
        first, second = misfit.terms
        warp = misfit.visits[1].warp(params)
        assert warp is not None
        explained = [
            replace(first, data=first.projector(shown)),
            replace(second, data=second.projector(warp(shown))),
        ]
        self.exact = JointMisfit(explained, misfit.grid, basis=misfit.basis)
        self.fixed = self.exact.volume_part([params])

    def gradient(self, x: torch.Tensor) -> np.ndarray:
        return self.exact.value_and_gradient(x)[1].numpy()

    def along_params(self) -> np.ndarray:
        """Return the rows of the Hessian along the parameters, (parameter, element)."""
        rows = []
        for i in range(self.n_voxels, len(self.x)):
            step = torch.zeros_like(self.x)
            step[i] = STEP
            # Of fourth order: Richardson's extrapolation.
            one, two = (
                (self.gradient(self.x + k * step) - self.gradient(self.x - k * step)) / (2 * k * STEP)
                for k in (1, 2)
            )
            rows.append((4 * one - two) / 3)
        return np.stack(rows)

    def of_volume(self, d: np.ndarray) -> np.ndarray:
        """Return `H_ff d`: the misfit is quadratic in the volume, and has no gradient at x."""
        volume, _ = self.exact.split(self.x)
        moved = volume + torch.from_numpy(d).reshape(volume.shape)
        return self.fixed.value_and_gradient(moved)[1].numpy().ravel()

    def rays(self, along: np.ndarray) -> list[np.ndarray]:
        """Return the changes of the whitened residuals of each visit along a direction."""
        step = 1e-5 * torch.from_numpy(along)
        pairs = zip(self.residuals(self.x + step), self.residuals(self.x - step), strict=True)
        return [(after - before) / 2e-5 for after, before in pairs]

    def residuals(self, x: torch.Tensor) -> list[np.ndarray]:
        volume, (params,) = self.measured.split(x)
        shown = self.measured.basis(volume)  # type: ignore[misc]
        first, second = self.measured.visits
        warp = second.warp(params)
        assert warp is not None
        return [first.misfit.residual(shown).numpy(), second.misfit.residual(warp(shown)).numpy()]


def of_priors(problem: Problem, volume: np.ndarray, attenuation: float):  # type: ignore[no-untyped-def]
    """Return the product with the curvature of total variation and of the penalty on negative values."""
    weight = PRIORS.total_variation * 0.6 * problem.level.noise_gradient_rms()
    smoothing = PRIORS.smoothing * attenuation

    def differences(f: np.ndarray) -> list[np.ndarray]:
        return [np.diff(f, axis=axis, append=np.take(f, [-1], axis=axis)) for axis in range(3)]

    lengths = np.sqrt(sum(part**2 for part in differences(volume)) + smoothing**2)
    below = PRIORS.nonnegativity * problem.curvature * (volume < 0)

    def product(d: np.ndarray) -> np.ndarray:
        cube = d.reshape(volume.shape)
        total = below * cube
        for axis, part in enumerate(differences(cube)):
            flow = weight * part / lengths
            total -= np.diff(flow, axis=axis, prepend=0 * np.take(flow, [0], axis=axis))
        return total.ravel()

    return product


@pytest.mark.slow
@torch.no_grad()
def test_affine_on_48_cubed(monkeypatch: pytest.MonkeyPatch) -> None:
    study = sure(GRID, SCAN, 0.01, seed=0)
    settings = replace(Settings.staged(GRID, Affine), priors=PRIORS)
    motion = shifted(2.0, -1.0, 1.0, grid=GRID).convert(Affine(GRID))
    generator = torch.Generator().manual_seed(1)
    noise = torch.randn(GRID.shape, generator=generator, dtype=torch.float64)
    # Away from the kinks of the interpolation, where a second derivative does not exist.
    drawn = 0.2 * torch.rand(12, generator=generator, dtype=torch.float64) + 0.05
    motion = Motion(motion.transform, motion.params + drawn)
    volume = truth(GRID, torch.float64) + 0.001 * noise
    result = Result(
        method="simultaneous",
        grid=GRID,
        volume=volume,
        motions=(motion,),
        status=Status.CONVERGED,
        reason="",
        applications=0,
        seconds=0.0,
        history=(),
    )
    scales = scales_of(study, PRIORS)
    level = level_of(study, FINEST, basis="spline", priors=PRIORS, scales=scales)
    moving = replace(PRIORS, total_variation=0.6 * PRIORS.total_variation)
    problem = Problem(level, [motion.transform], moving, scales)
    found = Differences(problem.misfit, problem.misfit.join(volume, [motion.params]))
    n = found.n_voxels
    along = found.along_params()
    priors = of_priors(problem, volume.numpy(), scales.attenuation)
    matrix = LinearOperator((n, n), matvec=lambda d: found.of_volume(d) + priors(d), dtype=float)
    rough = problem.volume_preconditioner(volume, [motion.params])
    preconditioner = LinearOperator(
        (n, n), matvec=lambda d: rough(torch.from_numpy(d)).numpy().ravel(), dtype=float
    )
    followed, data = [], []
    for row in along[:, :n]:
        solved, failed = cg(matrix, -row, rtol=1e-8, maxiter=1000, M=preconditioner)
        assert not failed
        followed.append(solved)
        data.append(found.of_volume(solved))
    change, product = np.stack(followed), np.stack(data)
    mixed = along[:, :n] @ change.T
    white = along[:, n:] + mixed + mixed.T + change @ product.T
    curvature = white + change @ np.stack([priors(one) for one in followed]).T
    inverse = np.linalg.inv(curvature)
    rays = [found.rays(np.concatenate([one, unit])) for one, unit in zip(change, np.eye(12), strict=True)]
    slopes = sandwiched([list(of) for of in zip(*rays, strict=True)], found.residuals(found.x))
    expected: dict[Form, np.ndarray] = {
        "laplace": inverse,
        "noise": inverse @ white @ inverse,
        "sandwich": inverse @ slopes @ inverse,
    }
    solved_once(monkeypatch)
    for form, covariance in expected.items():
        (own,) = uncertainty_of(study, settings, result, form=form, tolerance=1e-8, n_steps=1000)
        scale = 1 / np.sqrt(np.diag(covariance))
        difference = (own.covariance().numpy() - covariance) * scale[:, None] * scale
        assert float(np.abs(difference).max()) < 1e-6, form


def solved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the columns: all forms of the covariance are made of the same."""
    kept: dict[bytes, ProfiledColumns] = {}
    solve = ProfiledCurvature.columns

    def columns(self: ProfiledCurvature, directions: torch.Tensor) -> ProfiledColumns:
        key = directions.numpy().tobytes()
        if key not in kept:
            kept[key] = solve(self, directions)
        return kept[key]

    monkeypatch.setattr(ProfiledCurvature, "columns", columns)


def sandwiched(rays: list[list[np.ndarray]], residuals: list[np.ndarray]) -> np.ndarray:
    """Return the covariance of the slopes by blocks and spectrum of the residuals, ray by ray."""
    blocks, spectral = [], np.zeros((12, 12))
    edge = round(BLOCK_MM / SCAN.pixel_spacing_mm[0])
    for own, residual in zip(rays, residuals, strict=True):
        added = [(one * residual).sum(axis=0) for one in own]
        n_v, n_u = (math.ceil(size / edge) for size in added[0].shape)
        for v in range(n_v):
            for u in range(n_u):
                block = np.s_[v * edge : (v + 1) * edge, u * edge : (u + 1) * edge]
                blocks.append([one[block].sum() for one in added])
        amplitude = np.abs(fftn(residual)) / residual.size
        shaped = np.stack([(fftn(one) * amplitude).ravel() for one in own])
        spectral += (shaped @ shaped.conj().T).real
    summed = np.array(blocks).T
    result: np.ndarray = BLOCKS["few"] * summed @ summed.T + SPECTRUM["few"] * spectral
    return result
