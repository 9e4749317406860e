"""The misfit of one visit: its weights, its cost, its minimum, and what it refuses."""

from __future__ import annotations

import math

import pytest
import torch

from duotomo.errors import DtypeError, DuotomoError, NonFiniteError, ShapeError
from duotomo.objectives import ProjectionMisfit, photon_weights
from duotomo.operators import Projector
from tests.cases.operators import GRID, sweep
from tests.cases.transforms import normal

A = Projector(grid=GRID, acquisition=sweep())
DATA = normal(A.range, seed=1)


def test_it_is_the_sum_of_weighted_squares() -> None:
    x, w = normal(A.domain, seed=2), normal(A.range, seed=3).square()
    left = A(x) - DATA
    assert ProjectionMisfit(A, DATA).value(x) == pytest.approx(0.5 * float(left.square().sum()))
    weighted = ProjectionMisfit(A, DATA, w)
    value, gradient = weighted.value_and_gradient(x)
    assert value == pytest.approx(0.5 * float((w * left.square()).sum()))
    torch.testing.assert_close(gradient, A.adjoint(w * left))
    torch.testing.assert_close(weighted.residual(x), w.sqrt() * left)
    torch.testing.assert_close(weighted.columns(x[None])[0], w.sqrt() * A(x))


def test_rays_of_weight_zero_do_not_count() -> None:
    x, w, other = normal(A.domain, seed=2), torch.ones(A.range, dtype=torch.float64), DATA.clone()
    w[1], other[1] = 0.0, 1e6
    assert ProjectionMisfit(A, other, w).value(x) == ProjectionMisfit(A, DATA, w).value(x)


def test_what_explains_the_data_is_the_minimum() -> None:
    x = normal(A.domain, seed=4)
    value, gradient = ProjectionMisfit(A, A(x)).value_and_gradient(x)
    assert value == 0
    assert torch.count_nonzero(gradient) == 0


def test_applications_are_counted() -> None:
    misfit, x = ProjectionMisfit(A, DATA), normal(A.domain, seed=2)
    counts = [misfit.applications]
    misfit.value(x)
    counts.append(misfit.applications)
    misfit.value_and_gradient(x)
    counts.append(misfit.applications)
    product = misfit.curvature(x)
    counts.append(misfit.applications)
    product(x)
    counts.append(misfit.applications)
    misfit.columns(torch.stack([x, x, x]))
    counts.append(misfit.applications)
    assert counts == [0, 1, 3, 3, 5, 8]


def test_photon_weights_are_inverse_variances() -> None:
    generator = torch.Generator().manual_seed(0)
    for p, photons in ((0.2, 4000.0), (1.5, 20000.0)):
        counts = torch.poisson(torch.full((40000,), photons * math.exp(-p), dtype=torch.float64), generator)
        spread = -torch.log(counts / photons)
        weight = float(photon_weights(torch.tensor([p], dtype=torch.float64), photons))
        assert weight * float(spread.var()) == pytest.approx(1.0, rel=0.03)


def test_data_of_another_shape() -> None:
    with pytest.raises(
        ShapeError, match=r"ProjectionMisfit: expected data \(view, v, u\) = \(3, 9, 11\); got"
    ):
        ProjectionMisfit(A, DATA[:2])


def test_data_that_are_not_finite() -> None:
    with pytest.raises(NonFiniteError, match="ProjectionMisfit: expected data to be finite"):
        ProjectionMisfit(A, torch.full(A.range, math.inf))


def test_weights_of_another_shape_or_precision() -> None:
    with pytest.raises(ShapeError, match="ProjectionMisfit: expected weights"):
        ProjectionMisfit(A, DATA, DATA[0])
    with pytest.raises(DtypeError, match=r"ProjectionMisfit: expected weights of torch.float64"):
        ProjectionMisfit(A, DATA, DATA.square().float())


def test_negative_weights() -> None:
    with pytest.raises(DuotomoError, match=r"ProjectionMisfit: expected weights >= 0; got -"):
        ProjectionMisfit(A, DATA, DATA)


def test_a_volume_of_another_precision() -> None:
    misfit = ProjectionMisfit(A, DATA)
    with pytest.raises(DtypeError, match=r"ProjectionMisfit: expected x of torch.float64; got torch.float32"):
        misfit.value(torch.zeros(A.domain))
    with pytest.raises(DtypeError, match=r"ProjectionMisfit: expected d of torch.float64; got torch.float32"):
        misfit.curvature(torch.zeros(A.domain))(torch.zeros(A.domain))


def test_a_volume_that_is_not_finite() -> None:
    with pytest.raises(NonFiniteError, match="expected volume to be finite"):
        ProjectionMisfit(A, DATA).value(torch.full(A.domain, math.nan, dtype=torch.float64))


@pytest.mark.parametrize("photons", [0.0, -1.0, math.inf, math.nan])
def test_photons_are_positive(photons: float) -> None:
    with pytest.raises(DuotomoError, match="photon_weights: expected photons > 0 and finite"):
        photon_weights(DATA, photons)
