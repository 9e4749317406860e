"""How sure a motion is: the covariance of a small study, and what is said where there are no numbers."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from duotomo.errors import DuotomoError
from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.methods import (
    MotionUncertainty,
    Priors,
    Result,
    Settings,
    Study,
    Visit,
    bootstrap,
    summaries_of,
    uncertainty,
    uncertainty_of,
)
from duotomo.methods.bootstrap import Redrawn
from duotomo.methods.error_levels import quantile
from duotomo.methods.level import UNEXPLAINED
from duotomo.methods.motion_prior import FAR_MM, MotionPrior
from duotomo.methods.preconditioner import motion_curvatures
from duotomo.methods.sandwich import Form
from duotomo.methods.scales import scales_of
from duotomo.methods.structure import Structure
from duotomo.methods.uncertainty import profiled_curvature
from duotomo.operators import Projector
from duotomo.solvers import Status
from duotomo.transforms import Affine, BSpline, Motion, Transform
from tests.cases.scans import arc
from tests.cases.studies import BALLS, GRID, SCAN, shifted, study, truth

CENTERS = torch.tensor([ball.center_mm for ball in BALLS], dtype=torch.float64)
SPLINE = BSpline.shaped((5, 5, 5))


def solved(of: Study, transform: Transform) -> Result:
    """Return the truth as a result: the balls, and the motion of the moving visit."""
    motion = shifted(2.0, -1.0, 1.0).convert(transform)
    noise = 0.001 * torch.randn(GRID.shape, generator=torch.Generator().manual_seed(0))
    return Result(
        method="simultaneous",
        grid=GRID,
        volume=truth() + noise,
        motions=(motion,),
        status=Status.CONVERGED,
        reason="It is the truth.",
        applications=0,
        seconds=0.0,
        history=(),
    )


def noisier(of: Study, sigma: float) -> Study:
    """Return a study with noise added to its projections."""
    generator = torch.Generator().manual_seed(1)
    visits = []
    for one in of.visits:
        noise = sigma * torch.randn(one.projections.shape, generator=generator)
        visits.append(replace(one, projections=one.projections + noise))
    return replace(of, visits=tuple(visits))


def slopes_of(motion: Motion) -> torch.Tensor:
    """Return how the centres of the balls move along each parameter, (ball, xyz, parameter)."""
    found: torch.Tensor = torch.func.jacrev(lambda p: motion.transform.points(p, CENTERS))(motion.params)
    return found


@pytest.fixture(scope="module")
def visits() -> Study:
    return noisier(study(shifted(2.0, -1.0, 1.0)), 0.01)


@pytest.fixture(scope="module")
def settings() -> Settings:
    return Settings.staged(GRID, Affine)


@pytest.fixture(scope="module")
def affine(visits: Study, settings: Settings) -> MotionUncertainty:
    return uncertainty_of(visits, settings, solved(visits, Affine(GRID)))[0]


@pytest.fixture(scope="module")
def spline(visits: Study, settings: Settings) -> MotionUncertainty:
    return uncertainty_of(visits, settings, solved(visits, SPLINE(GRID)))[0]


def test_deviations_are_those_of_the_parameters(affine: MotionUncertainty) -> None:
    covariance = affine.covariance()
    values = torch.linalg.eigvalsh(covariance)
    assert float(values[0]) > 0
    slopes = slopes_of(affine.motion)
    expected = slopes @ covariance @ slopes.transpose(1, 2)
    torch.testing.assert_close(affine.covariance_mm2(CENTERS), expected, rtol=1e-8, atol=1e-12)
    torch.testing.assert_close(
        affine.deviation_mm(CENTERS), expected.diagonal(dim1=1, dim2=2).sqrt(), rtol=1e-8, atol=1e-9
    )
    assert bool(affine.is_determined(CENTERS).all())


def test_limited_angles_leave_depth_least_sure(affine: MotionUncertainty) -> None:
    x, y, z = affine.deviation_mm(CENTERS).mean(dim=0)
    assert z > 1.5 * max(x, y)
    first, *others = affine.least_determined(CENTERS)
    assert "depth" in first.words or "tilt" in first.words
    assert [first.share, *(one.share for one in others)] == sorted(
        [first.share, *(one.share for one in others)], reverse=True
    )


def test_the_data_of_more_noise_are_less_sure(visits: Study, settings: Settings) -> None:
    transform = Affine(GRID)
    plain = uncertainty_of(visits, settings, solved(visits, transform))[0].deviation_mm(CENTERS)
    worse = noisier(visits, 0.1)
    more = uncertainty_of(worse, settings, solved(worse, transform))[0].deviation_mm(CENTERS)
    assert bool((more > 1.5 * plain).all())


def test_ellipsoids_hold_what_they_say(affine: MotionUncertainty) -> None:
    radii, axes = affine.ellipsoids_mm(CENTERS, 0.95)
    covariance = affine.covariance_mm2(CENTERS)
    shaped = (axes * radii[..., None, :].square()) @ axes.transpose(-1, -2)
    torch.testing.assert_close(shaped, covariance * quantile(0.95), rtol=1e-7, atol=1e-12)
    # Drawn from Student's distribution with that covariance, as many lie inside.
    generator = torch.Generator().manual_seed(0)
    drawn = torch.distributions.Chi2(torch.tensor(5.0)).sample((20000,)).double()
    normal = torch.randn(20000, 3, dtype=torch.float64, generator=generator)
    distances = (normal * ((5 - 2) / drawn).sqrt()[:, None]).square().sum(dim=1)
    assert float((distances < quantile(0.95)).double().mean()) == pytest.approx(0.95, abs=0.01)
    assert float((distances < quantile(0.68)).double().mean()) == pytest.approx(0.68, abs=0.02)
    with pytest.raises(DuotomoError, match="between 0 and 1"):
        affine.ellipsoids_mm(CENTERS, 1.0)


def test_samples_have_the_covariance(affine: MotionUncertainty) -> None:
    moved = torch.stack([motion.points(CENTERS) for motion in affine.samples(2000)])
    found = (moved - affine.motion.points(CENTERS)).square().mean(dim=0).sqrt()
    torch.testing.assert_close(found, affine.deviation_mm(CENTERS), rtol=0.1, atol=1e-4)


@pytest.mark.slow
def test_control_points_as_a_dense_matrix(visits: Study, settings: Settings) -> None:
    """With all directions, the reduction to the dominant ones changes nothing."""
    result = solved(visits, BSpline.shaped((4, 4, 4))(GRID))
    fine = {"tolerance": 1e-4, "n_steps": 100}
    found = uncertainty_of(visits, settings, result, form="laplace", n_modes=192, **fine)[0]
    profiled, problem = profiled_curvature(visits, settings, result, **fine)
    units = torch.eye(profiled.n_params, dtype=torch.float64)
    curvature = profiled.products(units)
    diagonals = [one.diagonal for one in motion_curvatures(problem.misfit, profiled.volume, profiled.params)]
    prior = MotionPrior(result.motions[0].transform, problem.bending(diagonals)[0])
    root = prior.spread(units).T
    precision = torch.linalg.inv(root @ root.T)
    covariance = torch.linalg.inv((curvature + curvature.T) / 2 + precision)
    slopes = torch.func.jacrev(lambda p: result.motions[0].transform.points(p, CENTERS))(
        result.motions[0].params
    )
    expected = slopes @ covariance @ slopes.transpose(1, 2)
    torch.testing.assert_close(found.covariance_mm2(CENTERS), expected, rtol=2e-2, atol=1e-3)


def test_the_prior_is_that_of_the_bending_energy(spline: MotionUncertainty) -> None:
    prior = spline.prior
    assert prior is not None
    units = torch.eye(prior.n_params, dtype=torch.float64)
    root = prior.spread(units).T
    torch.testing.assert_close(prior.spread_adjoint(units), root, rtol=1e-9, atol=1e-9)
    # Control points that all move alike do not bend.
    alike = torch.zeros(prior.n_params, dtype=torch.float64)
    alike[: prior.n_params // 3] = 1
    solved_for = torch.linalg.solve(root, alike)
    assert float(solved_for @ solved_for) == pytest.approx(prior.n_params / 3 * (3 / FAR_MM) ** 2, rel=1e-6)
    slopes = slopes_of(spline.motion)
    for modes in (0 * spline.modes, spline.modes):
        beyond = root @ root.T - modes @ modes.T
        variances = (slopes @ beyond @ slopes.transpose(1, 2)).diagonal(dim1=1, dim2=2)
        found = prior.variance_beyond_mm2(CENTERS, modes)
        torch.testing.assert_close(found, variances, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("form", ["sandwich", "laplace", "noise"])
@pytest.mark.parametrize("transform", [Affine(GRID), SPLINE(GRID)], ids=["few", "many"])
def test_a_noise_says_the_same_as_the_weights_that_follow_from_it(
    transform: Transform, form: Form, visits: Study, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    sigma, air = 0.01, torch.tensor([[22.0, 3.0, 45.0]], dtype=torch.float64)
    monkeypatch.setattr(uncertainty, "scales_of", lambda *of: replace(scales_of(*of), sigmas=(sigma, sigma)))
    priors = replace(settings.priors, edges=0.0, offset=0.0, least_noise=0.0)
    alike, result = replace(settings, priors=priors), solved(visits, transform)
    # A level adds to the variance what no volume explains.
    weights = torch.full(SCAN.shape, (1 + UNEXPLAINED) / sigma**2)
    weighted = replace(visits, visits=tuple(replace(one, weights=weights) for one in visits.visits))
    points = torch.cat([CENTERS, air])
    found, expected = (
        uncertainty_of(one, alike, result, form=form, n_modes=40)[0].deviation_mm(points)
        for one in (visits, weighted)
    )
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=0)


def test_what_has_no_edges_is_not_determined(spline: MotionUncertainty) -> None:
    edge = torch.tensor([[8.0, 20.0, 24.0], [-16.0, 20.0, 24.0]])
    air = torch.tensor([[22.0, 3.0, 45.0], [-22.0, 40.0, 8.0]])
    assert spline.is_determined(edge).tolist() == [True, True]
    assert spline.is_determined(air).tolist() == [False, False]
    values = spline.map_mm(GRID)
    assert values.shape == (3, *GRID.shape)
    assert bool(values[:, 0, 0, 0].isnan().all())
    assert bool((values[~values.isnan()] > 0).all())


def test_structure_is_where_slopes_are() -> None:
    volume = torch.zeros(GRID.shape)
    volume[:, :, 8:] = 1.0
    found = Structure.of(volume, GRID, 1.8)
    edge, far = torch.tensor([[0.0, 21.0, 26.0]]), torch.tensor([[-20.0, 21.0, 26.0]])
    assert float(found.at(edge)) > 20 * float(found.at(far))
    assert float(found.at(torch.tensor([[500.0, 0.0, 0.0]]))) == 0
    assert not Structure.of(torch.zeros(GRID.shape), GRID, 1.8).values.any()


def test_control_points_of_nothing_are_those_of_the_prior(visits: Study, settings: Settings) -> None:
    """A curvature that is singular but for the prior: deviations of millimetres, and determined nowhere."""
    result = replace(solved(visits, SPLINE(GRID)), volume=torch.zeros(GRID.shape))
    (found,) = uncertainty_of(visits, settings, result, n_modes=20)
    assert found.is_known
    assert not found.is_determined(CENTERS).any()
    assert bool(found.map_mm(GRID).isnan().all())
    assert float(found.deviation_mm(CENTERS).min()) > 1
    (summary,) = summaries_of(replace(result, uncertainties=(found,)), (GRID,))
    assert summary.words == "the data determine the motion nowhere in the breast"


@pytest.mark.parametrize("why", ["not converged", "coarser", "folded", "squeezed", "thinned", "singular"])
def test_no_numbers_that_look_sure(why: str, visits: Study, settings: Settings) -> None:
    result = solved(visits, Affine(GRID))
    if why == "not converged":
        result = replace(result, status=Status.STEP_LIMIT, reason="The limit of 3 steps was reached.")
        words = "did not converge.*limit of 3 steps"
    elif why == "coarser":
        # A level of the run converged, not its last one.
        result = replace(result, grid=GRID.coarsen((2, 2, 2)), reason="It was a coarse level.")
        words = "did not converge.*a coarse level"
    elif why in ("squeezed", "thinned"):
        transform = Affine(GRID)
        factor, words = {
            "squeezed": (0.02, "nearly so: at the border"),
            "thinned": (0.6, "not that of a breast"),
        }[why]
        flat = torch.diag(torch.tensor([1.0, 1.0, factor], dtype=torch.float64))
        result = replace(
            result,
            motions=(Motion(transform, transform.params(matrix=flat, translation_mm=(0.0, 0.0, 0.0))),),
        )
    elif why == "folded":
        transform = SPLINE(GRID)
        generator = torch.Generator().manual_seed(0)
        params = 9 * torch.randn(transform.n_params, dtype=torch.float64, generator=generator)
        result = replace(result, motions=(Motion(transform, params),))
        words = "folds"
    else:
        result = replace(result, volume=torch.zeros(GRID.shape))
        words = "do not determine"
    (found,) = uncertainty_of(visits, settings, result)
    assert not found.is_known
    with pytest.raises(DuotomoError, match=words):
        found.samples(1)
    assert bool(found.deviation_mm(CENTERS).isnan().all())
    assert not found.is_determined(CENTERS).any()
    assert found.least_determined(CENTERS) == []
    assert bool(found.map_mm(GRID).isnan().all())


PARABOLAS = Priors(total_variation=60.0, smoothing=1000.0, nonnegativity=0.0, least_noise=0.0, edges=0.0)
"""With a smoothing far above the attenuation, total variation is quadratic."""


def sure(grid: VolumeGrid, acquisition: Acquisition, sigma: float, *, seed: int = 1) -> Study:
    """Return a study in float64 whose noise is known; where it is small, a motion follows it linearly."""
    motion, volume = shifted(2.0, -1.0, 1.0, grid=grid), truth(grid, torch.float64)
    project, generator = Projector(grid=grid, acquisition=acquisition), torch.Generator().manual_seed(seed)
    visits = []
    for views in (project(volume), project(motion.warp(grid, grid)(volume))):
        noise = sigma * torch.randn(views.shape, generator=generator, dtype=torch.float64)
        weights = torch.full_like(views, sigma**-2)
        visits.append(Visit(projections=views + noise, acquisition=acquisition, weights=weights))
    return Study(grid=grid, visits=tuple(visits))


@pytest.mark.parametrize("model", ["affine", pytest.param("control points", marks=pytest.mark.slow)])
def test_solved_again_and_again_it_varies_as_much(model: str) -> None:
    """The bootstrap has the covariance of the form "noise", within the error of its draws."""
    if model == "affine":
        grid, scan = GRID.coarsen((2, 2, 2)), arc((8, 13), 6.0)
        transform: Transform = Affine(grid)
    else:
        grid, scan = GRID, SCAN
        transform = BSpline.shaped((4, 4, 4))(grid)
    of, n_draws = sure(grid, scan, 0.0005), 24
    settings = replace(Settings.staged(grid, Affine), priors=PARABOLAS)
    start = shifted(2.0, -1.0, 1.0, grid=grid).convert(transform)
    found = replace(solved(of, transform), grid=grid, volume=truth(grid, torch.float64), motions=(start,))
    redrawn = Redrawn.of(of, settings, found, n_steps=150)
    base, factors = redrawn.base, redrawn.problem.level.coarsen
    volume = base.volume
    for axis, factor in enumerate(factors):
        volume = volume.repeat_interleave(factor, dim=axis)
    found = replace(found, volume=volume, motions=(Motion(transform, base.params[0]),))
    fine = {"tolerance": 1e-4, "n_steps": 500, "n_modes": transform.n_params}
    white = uncertainty_of(of, settings, found, form="noise", **fine)[0]
    drawn = torch.stack([redrawn.params(seed) for seed in range(n_draws)])
    spread = (drawn - drawn.mean(dim=0)).T / math.sqrt(n_draws - 1)
    # Of 12 parameters and 23 free draws, chi-square over 276: three deviations are 0.26.
    if model == "affine":
        factor = torch.linalg.cholesky(white.covariance())
        ratio = torch.linalg.solve_triangular(factor, spread, upper=False).square().sum() / 12
    else:
        along = slopes_of(white.motion) @ spread
        variances = white.covariance_mm2(CENTERS).diagonal(dim1=1, dim2=2)
        ratio = (along.square().sum(dim=-1) / variances).mean()
    assert 0.74 < float(ratio) < 1.26


def test_too_few_draws_and_unfinished_runs_say_so(visits: Study, settings: Settings) -> None:
    result = solved(visits, Affine(GRID))
    drawn = bootstrap(visits, settings, result, 2, n_steps=2)[0]
    assert drawn.form == "bootstrap"
    assert bool((drawn.deviation_mm(CENTERS) > 0).all())
    with pytest.raises(DuotomoError, match="n_draws"):
        bootstrap(visits, settings, result, 1)
    unfinished = replace(result, status=Status.STEP_LIMIT)
    assert not bootstrap(visits, settings, unfinished, 2)[0].is_known


def test_progress_is_heard(visits: Study, settings: Settings) -> None:
    heard: list[tuple[int, int]] = []
    uncertainty_of(
        visits, settings, solved(visits, Affine(GRID)), on_part=lambda done, of: heard.append((done, of))
    )
    assert heard[-1] == (12, 12)
    assert math.prod(a <= b for a, b in heard) == 1


def test_one_visit_has_no_motion(visits: Study, settings: Settings) -> None:
    alone = replace(visits, visits=visits.visits[:1])
    result = replace(solved(visits, Affine(GRID)), motions=())
    assert uncertainty_of(alone, settings, result) == ()
