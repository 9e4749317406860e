"""Gains and offsets of views, minimised out: the laws of the misfit that is left, and what it refuses."""

from __future__ import annotations

import math
import pickle

import pytest
import torch

from duotomo.errors import DuotomoError, ShapeError
from duotomo.objectives import JointMisfit, ProjectionMisfit, Term
from duotomo.objectives.norms import normal_equations
from duotomo.objectives.nuisance import Nuisance, NuisanceFilter, ViewErrors
from duotomo.operators import Projector, Weighting
from duotomo.operators.adjoint_gap import adjoint_gap
from duotomo.solvers import Cgls
from duotomo.transforms import Translation
from tests.cases.operators import GRID, sweep
from tests.cases.transforms import normal

A = Projector(grid=GRID, acquisition=sweep())
TRUTH = normal(A.domain, seed=9).abs()
DATA = A(TRUTH) + 0.1 * normal(A.range, seed=1)
WEIGHTS = normal(A.range, seed=3).square()

SETTINGS = {
    "offset": Nuisance(offset=0.3, noise=0.7),
    "gain": Nuisance(gain=0.2),
    "mean gain": Nuisance(mean_gain=0.2),
    "all": Nuisance(offset=0.3, gain=0.2, mean_gain=0.1, noise=0.7),
    "free offset": Nuisance(offset=math.inf, gain=0.05),
    "free": Nuisance(offset=math.inf, gain=math.inf),
    "free with its mean": Nuisance(offset=math.inf, gain=math.inf, mean_gain=math.inf),
}

each_setting = pytest.mark.parametrize("nuisance", [pytest.param(n, id=name) for name, n in SETTINGS.items()])
each_weighting = pytest.mark.parametrize(
    "weights", [pytest.param(None, id="unweighted"), pytest.param(WEIGHTS, id="weighted")]
)


def stacked(
    nuisance: Nuisance, weights: torch.Tensor | None, data: torch.Tensor = DATA
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return columns and priors of all unknowns besides the volume: offsets, gains about the mean, mean."""
    n_views, roots = len(data), torch.ones_like(data) if weights is None else weights.sqrt()
    columns, deviations = [], []
    for view in range(n_views):
        offset = torch.zeros_like(data)
        offset[view] = 1.0
        columns.append(offset)
        deviations.append(nuisance.offset)
    for view in range(n_views):
        # A deviation of one view takes its share from the mean of all.
        gain = -data / n_views
        gain[view] += data[view]
        columns.append(gain)
        deviations.append(nuisance.gain)
    columns.append(data.clone())
    deviations.append(nuisance.mean_gain)
    kept = [(c, s) for c, s in zip(columns, deviations, strict=True) if s > 0]
    matrix = torch.stack([(roots * c).flatten() for c, _ in kept], dim=1)
    return matrix, torch.diag(torch.tensor([nuisance.noise / s for _, s in kept], dtype=torch.float64))


def brute_force(nuisance: Nuisance, weights: torch.Tensor | None, residual: torch.Tensor) -> float:
    """Return the minimum over gains and offsets by a dense least-squares solution."""
    columns, prior = stacked(nuisance, weights)
    whole = torch.cat([columns, prior])
    r = torch.cat([residual.flatten(), torch.zeros(len(prior), dtype=torch.float64)])
    theta = torch.linalg.pinv(whole, rtol=1e-10) @ r
    return 0.5 * float((r - whole @ theta).square().sum())


@each_weighting
@each_setting
def test_the_value_is_the_minimum_over_gains_and_offsets(
    nuisance: Nuisance, weights: torch.Tensor | None
) -> None:
    x, roots = normal(A.domain, seed=2), 1.0 if weights is None else weights.sqrt()
    misfit = ProjectionMisfit(A, DATA, weights, nuisance=nuisance)
    expected = brute_force(nuisance, weights, roots * (A(x) - DATA))
    assert misfit.value(x) == pytest.approx(expected, rel=1e-10)
    assert expected < 0.9995 * ProjectionMisfit(A, DATA, weights).value(x)


@each_weighting
@each_setting
def test_gradient_and_hessian_are_those_of_the_value(
    nuisance: Nuisance, weights: torch.Tensor | None
) -> None:
    x, d = normal(A.domain, seed=2), normal(A.domain, seed=4)
    misfit = ProjectionMisfit(A, DATA, weights, nuisance=nuisance)
    value, gradient = misfit.value_and_gradient(x)
    slope = float((gradient * d).sum())
    assert value == pytest.approx(misfit.value(x), rel=1e-13)
    left = [abs(misfit.value(x + h * d) - value - h * slope) for h in (1e-2, 5e-3, 2.5e-3)]
    assert all(1.95 < math.log2(left[i] / left[i + 1]) < 2.05 for i in range(2)), left
    curved = misfit.hessian_product(d)
    ahead, behind = (misfit.value_and_gradient(x + s * d) for s in (1.0, -1.0))
    torch.testing.assert_close((ahead[1] - behind[1]) / 2, curved, rtol=1e-10, atol=1e-10)
    assert ahead[0] - 2 * value + behind[0] == pytest.approx(float((d * curved).sum()), rel=1e-9)


@each_weighting
@each_setting
def test_the_whitened_problem_is_the_same_one(nuisance: Nuisance, weights: torch.Tensor | None) -> None:
    x, directions = normal(A.domain, seed=2), normal((4, *A.domain), seed=5)
    misfit = ProjectionMisfit(A, DATA, weights, nuisance=nuisance)
    operator, data = misfit.whitened()
    assert adjoint_gap(operator, generator=torch.Generator().manual_seed(0)) < 1e-12
    torch.testing.assert_close(operator(x) - data, misfit.residual(x), rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(operator(directions), misfit.columns(directions), rtol=1e-11, atol=1e-11)
    value, slope, matrix = normal_equations(misfit.columns(directions), misfit.residual(x))
    assert value == pytest.approx(misfit.value(x), rel=1e-12)
    gradient = misfit.value_and_gradient(x)[1].flatten()
    torch.testing.assert_close(slope, directions.flatten(1) @ gradient, rtol=1e-10, atol=1e-10)
    products = torch.stack([misfit.hessian_product(d) for d in directions]).flatten(1)
    torch.testing.assert_close(matrix, directions.flatten(1) @ products.T, rtol=1e-10, atol=1e-10)


@each_weighting
def test_the_minimiser_is_that_of_volume_gains_and_offsets_together(weights: torch.Tensor | None) -> None:
    nuisance = SETTINGS["all"]
    basis = torch.eye(math.prod(A.domain), dtype=torch.float64).view(-1, *A.domain)
    roots = torch.ones_like(DATA) if weights is None else weights.sqrt()
    images = (roots * A(basis)).flatten(1).T
    columns, prior = stacked(nuisance, weights)
    n_voxels, n_unknowns = images.shape[1], len(prior)
    # A little damping of the volume makes the minimiser unique: fewer rays than unknowns see some voxels.
    damping = 0.1 * torch.eye(n_voxels, dtype=torch.float64)
    zeros = torch.zeros(n_unknowns, n_voxels, dtype=torch.float64)
    whole = torch.cat(
        [
            torch.cat([images, -columns], dim=1),
            torch.cat([zeros, prior], dim=1),
            torch.cat([damping, zeros.T], dim=1),
        ]
    )
    target = torch.cat([(roots * DATA).flatten(), torch.zeros(n_unknowns + n_voxels, dtype=torch.float64)])
    together = torch.linalg.lstsq(whole, target[:, None]).solution[:, 0]
    volume, unknowns = together[:n_voxels], together[n_voxels:]

    misfit = ProjectionMisfit(A, DATA, weights, nuisance=nuisance)
    operator, data = misfit.whitened()
    own = operator(basis).flatten(1).T
    normal_matrix = own.T @ own + damping @ damping
    alone = torch.linalg.solve(normal_matrix, own.T @ data.flatten())
    torch.testing.assert_close(alone, volume, rtol=1e-7, atol=1e-9)

    found = misfit.view_errors(volume.view(A.domain))
    offsets, deviations, mean = unknowns[:3], unknowns[3:6], unknowns[6]
    torch.testing.assert_close(found.offsets, offsets, rtol=1e-7, atol=1e-9)
    torch.testing.assert_close(found.gains, deviations - deviations.mean() + mean, rtol=1e-7, atol=1e-9)


@each_weighting
def test_known_exactly_is_the_plain_misfit_bit_for_bit(weights: torch.Tensor | None) -> None:
    x, d = normal(A.domain, seed=2), normal(A.domain, seed=4)
    plain, known = (ProjectionMisfit(A, DATA, weights, nuisance=n) for n in (None, Nuisance(noise=0.3)))
    assert known.nuisance is None
    assert plain.value(x) == known.value(x)
    assert torch.equal(plain.value_and_gradient(x)[1], known.value_and_gradient(x)[1])
    assert torch.equal(plain.hessian_product(d), known.hessian_product(d))
    assert torch.equal(plain.residual(x), known.residual(x))
    assert torch.equal(plain.columns(d[None]), known.columns(d[None]))
    assert torch.equal(plain.whitened()[1], known.whitened()[1])


def test_a_narrow_prior_approaches_the_plain_misfit_and_a_wide_one_the_free() -> None:
    x = normal(A.domain, seed=2)

    def value(offset: float, gain: float) -> float:
        return ProjectionMisfit(A, DATA, nuisance=Nuisance(offset=offset, gain=gain)).value(x)

    plain, free = ProjectionMisfit(A, DATA).value(x), value(math.inf, math.inf)
    values = [value(s, s) for s in (1e-7, 1e-3, 0.1, 10.0, 1e7)]
    assert values == sorted(values, reverse=True)
    assert values[0] == pytest.approx(plain, rel=1e-10)
    assert values[-1] == pytest.approx(free, rel=1e-10)
    assert free < 0.99 * plain


def test_noise_and_weights_say_the_same() -> None:
    # Weights 1 / sigma^2 with noise 1 are no weights with noise sigma, but for the factor sigma^2.
    x, sigma = normal(A.domain, seed=2), 0.3
    weights = torch.full(A.range, sigma**-2, dtype=torch.float64)
    weighted = ProjectionMisfit(A, DATA, weights, nuisance=Nuisance(offset=0.1, gain=0.05))
    plain = ProjectionMisfit(A, DATA, nuisance=Nuisance(offset=0.1, gain=0.05, noise=sigma))
    assert plain.value(x) == pytest.approx(sigma**2 * weighted.value(x), rel=1e-12)
    for first, second in zip(
        vars(plain.view_errors(x)).values(), vars(weighted.view_errors(x)).values(), strict=True
    ):
        torch.testing.assert_close(first, second, rtol=1e-9, atol=1e-12)


@each_weighting
def test_gains_and_offsets_are_found(weights: torch.Tensor | None) -> None:
    clean = A(TRUTH)
    offsets = torch.tensor([0.3, -0.1, 0.05], dtype=torch.float64)
    gains = torch.tensor([0.04, -0.03, -0.01], dtype=torch.float64)
    measured = (clean - offsets[:, None, None]) / (1 + gains[:, None, None])
    nuisance = Nuisance(offset=math.inf, gain=math.inf, mean_gain=math.inf)
    misfit = ProjectionMisfit(A, measured, weights, nuisance=nuisance)
    assert misfit.value(TRUTH) < 1e-12 * ProjectionMisfit(A, measured, weights).value(TRUTH)
    found = misfit.view_errors(TRUTH)
    torch.testing.assert_close(found.gains, gains, rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(found.offsets, offsets, rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(found.corrected(measured), clean, rtol=1e-8, atol=1e-9)
    # Gains about their mean need no prior to be found either, if the mean is what it is said to be.
    about = ProjectionMisfit(A, measured, weights, nuisance=Nuisance(offset=math.inf, gain=math.inf))
    torch.testing.assert_close(about.view_errors(TRUTH).gains, gains, rtol=1e-8, atol=1e-10)


def test_the_mean_gain_holds_the_volume_where_noise_would_shrink_it() -> None:
    # With every gain free, f = 0 with a = -1 explains any data without a residual.
    nothing = torch.zeros(A.domain, dtype=torch.float64)
    free = ProjectionMisfit(A, DATA, nuisance=SETTINGS["free with its mean"])
    held = ProjectionMisfit(A, DATA, nuisance=SETTINGS["free"])
    assert free.value(nothing) < 1e-12 * ProjectionMisfit(A, DATA).value(nothing)
    assert held.value(TRUTH) < 0.1 * held.value(nothing)


def test_a_view_without_weight_does_not_take_the_mean_upon_itself() -> None:
    weights = torch.ones_like(DATA)
    weights[1] = 0.0
    nothing, free = torch.zeros(A.domain, dtype=torch.float64), SETTINGS["free"]
    three = ProjectionMisfit(A, DATA, weights, nuisance=free)
    two = ProjectionMisfit(
        Projector(grid=GRID, acquisition=sweep()[[0, 2]]), DATA[[0, 2]].clone(), nuisance=free
    )
    assert three.value(nothing) == pytest.approx(two.value(nothing), rel=1e-10)
    assert three.value(nothing) > 1.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@each_setting
def test_views_that_say_nothing_give_numbers(nuisance: Nuisance, dtype: torch.dtype) -> None:
    # No weight; constant line integrals; no object; a single ray that counts.
    data, weights = DATA.to(dtype).clone(), torch.ones(A.range, dtype=dtype)
    x = TRUTH.to(dtype)
    for change in range(5):
        p, w = data.clone(), weights.clone()
        if change == 0:
            w[0], p[0] = 0.0, 1e6
        elif change == 1:
            p[0] = 1.7
        elif change == 2:
            p[0] = 0.0
        elif change == 3:
            w[0] = 0.0
            w[0, 4, 5] = 1.0
        else:
            w.zero_()
        misfit = ProjectionMisfit(A, p, w, nuisance=nuisance)
        value, gradient = misfit.value_and_gradient(x)
        assert math.isfinite(value)
        assert 0 <= value <= ProjectionMisfit(A, p, w).value(x) * (1 + 1e-6)
        assert bool(torch.isfinite(gradient).all())
        assert bool(torch.isfinite(misfit.hessian_product(x)).all())
        errors = misfit.view_errors(x)
        assert bool(torch.isfinite(errors.gains).all() and torch.isfinite(errors.offsets).all())
        if change in (0, 4):
            assert float(errors.offsets[0].abs()) < 1e-9
            assert float(errors.gains[0].abs()) < 1e-9


@each_setting
def test_single_precision_agrees_with_double(nuisance: Nuisance) -> None:
    x = normal(A.domain, seed=2).float()
    exact = ProjectionMisfit(A, DATA.float().double(), WEIGHTS.float().double(), nuisance=nuisance)
    rounded = ProjectionMisfit(A, DATA.float(), WEIGHTS.float(), nuisance=nuisance)
    value, gradient = rounded.value_and_gradient(x)
    expected, slope = exact.value_and_gradient(x.double())
    assert value == pytest.approx(expected, rel=1e-5)
    assert gradient.dtype == torch.float32
    assert float((gradient - slope).norm() / slope.norm()) < 1e-5
    curved, expected_curved = rounded.hessian_product(x), exact.hessian_product(x.double())
    assert float((curved - expected_curved).norm() / expected_curved.norm()) < 1e-5


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@each_setting
def test_the_gpu_agrees_with_the_cpu(nuisance: Nuisance) -> None:
    x = normal(A.domain, seed=2)
    here = ProjectionMisfit(A, DATA, WEIGHTS, nuisance=nuisance)
    there = ProjectionMisfit(A, DATA.cuda(), WEIGHTS.cuda(), nuisance=nuisance)
    value, gradient = there.value_and_gradient(x.cuda())
    expected, slope = here.value_and_gradient(x)
    assert value == pytest.approx(expected, rel=1e-10)
    torch.testing.assert_close(gradient.cpu(), slope, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(there.view_errors(x.cuda()).gains, here.view_errors(x).gains)


def test_solvers_of_least_squares_take_it() -> None:
    misfit = ProjectionMisfit(A, DATA, nuisance=SETTINGS["free offset"])
    solution = Cgls(n_steps=2000, tolerance=1e-6).minimise(misfit)
    at_zero = misfit.value_and_gradient(torch.zeros(A.domain, dtype=torch.float64))[1]
    assert float(misfit.value_and_gradient(solution.value)[1].norm()) < 2e-6 * float(at_zero.norm())


def test_nothing_costs_another_projection() -> None:
    misfit, x = ProjectionMisfit(A, DATA, nuisance=SETTINGS["all"]), normal(A.domain, seed=2)
    misfit.value(x)
    misfit.value_and_gradient(x)
    misfit.hessian_product(x)
    misfit.columns(torch.stack([x, x, x]))
    misfit.view_errors(x)
    assert misfit.applications == 1 + 2 + 2 + 3 + 1


def test_a_term_of_the_joint_misfit_has_it() -> None:
    x, nuisance = normal(A.domain, seed=2), SETTINGS["all"]
    term = Term(projector=A, data=DATA, weights=WEIGHTS, nuisance=nuisance, transform=Translation(GRID))
    joint = JointMisfit([term], GRID)
    params = torch.zeros(3, dtype=torch.float64)
    alone = ProjectionMisfit(A, DATA, WEIGHTS, nuisance=nuisance)
    assert joint.value(joint.join(x, [params])) == pytest.approx(alone.value(x), rel=1e-12)
    value, slope, _ = joint.params_part(x).normal_equations(params)
    assert value == pytest.approx(alone.value(x), rel=1e-12)
    gradient = joint.value_and_gradient(joint.join(x, [params]))[1]
    torch.testing.assert_close(slope, gradient[-3:], rtol=1e-9, atol=1e-9)


def test_the_filter_has_an_exact_adjoint_and_pickles() -> None:
    own = NuisanceFilter(SETTINGS["all"], DATA, WEIGHTS.sqrt())
    assert adjoint_gap(own, generator=torch.Generator().manual_seed(1)) < 1e-12
    rays = normal((2, *A.range), seed=7)
    kept = rays.clone()
    once = own(rays)
    assert torch.equal(rays, kept)
    assert torch.equal(pickle.loads(pickle.dumps(own))(rays), once)
    torch.testing.assert_close(own(once), own.apply_(rays.clone(), twice=True), rtol=1e-11, atol=1e-11)


def test_corrected_takes_any_axes_after_the_view() -> None:
    errors = ViewErrors(
        gains=torch.tensor([0.5, 0.0], dtype=torch.float64),
        offsets=torch.tensor([0.0, 1.0], dtype=torch.float64),
    )
    corrected = errors.corrected(torch.ones(2, 3, 4))
    assert corrected.dtype == torch.float32
    assert torch.equal(corrected[0], torch.full((3, 4), 1.5))
    assert torch.equal(corrected[1], torch.full((3, 4), 2.0))


def test_a_known_exposure_has_no_errors_to_return() -> None:
    with pytest.raises(DuotomoError, match=r"view_errors: expected a misfit with nuisance parameters; got"):
        ProjectionMisfit(A, DATA).view_errors(TRUTH)


def test_data_without_an_axis_of_rays() -> None:
    line = torch.ones(3)
    with pytest.raises(ShapeError, match=r"NuisanceFilter: expected data \(view, ...\).*got \(3,\)"):
        ProjectionMisfit(Weighting(line), line, nuisance=Nuisance(offset=1.0))


@pytest.mark.parametrize("name", ["offset", "gain", "mean_gain"])
@pytest.mark.parametrize("value", [-0.1, math.nan])
def test_standard_deviations_are_not_negative(name: str, value: float) -> None:
    with pytest.raises(DuotomoError, match=f"Nuisance: expected {name} >= 0; got"):
        Nuisance(**{name: value})


@pytest.mark.parametrize("noise", [0.0, -1.0, math.inf, math.nan])
def test_noise_is_positive(noise: float) -> None:
    with pytest.raises(DuotomoError, match="Nuisance: expected noise > 0 and finite; got"):
        Nuisance(offset=0.1, noise=noise)
