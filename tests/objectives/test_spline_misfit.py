"""The misfit of a B-spline differentiated axis by axis, its local normalisation, and the folding penalty."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.objectives import CrossCorrelation, LocalCorrelation, SumOfSquares
from duotomo.objectives.local_correlation import locally_normalised, smoothed
from duotomo.objectives.priors.folding import FoldingPenalty
from duotomo.objectives.spline_misfit import SplineMisfit, along_axes, along_axes_adjoint
from duotomo.transforms import Affine, BSpline, Motion
from tests.cases.transforms import MOVING, REFERENCE, draw_params, normal

SPLINE = BSpline.over(REFERENCE, (4, 4, 5))
PARAMS = draw_params(SPLINE, seed=5, size_voxels=0.5)
VOLUME, TARGET = normal(REFERENCE.shape, seed=1), normal(MOVING.shape, seed=2)
MASK = normal(MOVING.shape, seed=3).clamp(min=0)

GRID = VolumeGrid.on_detector((24, 24, 24), (1.0, 1.0, 1.0))
COMPRESSED = BSpline.over(GRID, (5, 5, 5))


def misfit(
    kind: type[SumOfSquares] | type[CrossCorrelation],
    *,
    cubic: bool = False,
    mask: torch.Tensor | None = None,
    central_step: float | None = None,
) -> SumOfSquares | CrossCorrelation:
    return kind(
        SPLINE,
        VOLUME,
        TARGET,
        reference=REFERENCE,
        moving=MOVING,
        mask=mask,
        cubic=cubic,
        central_step=central_step,
    )


def squeezed(share: float) -> Motion:
    """Return a motion that squeezes the box along x towards its middle, to a share of its width there."""
    wave = torch.sin(torch.linspace(0, 2 * torch.pi, 24, dtype=torch.float64))
    field = torch.zeros(3, 24, 24, 24, dtype=torch.float64)
    field[0] = (1 - share) * 24 / (2 * torch.pi) * wave
    return Motion(COMPRESSED, COMPRESSED.fit(field).params)


@pytest.mark.parametrize("kind", [SumOfSquares, CrossCorrelation, LocalCorrelation])
@pytest.mark.parametrize("cubic", [False, True], ids=["linear", "cubic"])
@pytest.mark.parametrize("mask", [None, MASK], ids=["everywhere", "masked"])
def test_value_and_gradient_are_those_of_the_misfit(
    kind: type[SumOfSquares] | type[CrossCorrelation], cubic: bool, mask: torch.Tensor | None
) -> None:
    whole = misfit(kind, cubic=cubic, mask=mask)
    value, gradient = SplineMisfit(whole).value_and_gradient(PARAMS)
    expected, slope = whole.value_and_gradient(PARAMS)
    assert value == expected
    assert float((gradient - slope).norm()) < 1e-12 * float(slope.norm())


@pytest.mark.parametrize("mask", [None, MASK], ids=["everywhere", "masked"])
def test_with_blocks_of_one_voxel_the_curvature_is_that_of_the_misfit(mask: torch.Tensor | None) -> None:
    whole = misfit(SumOfSquares, cubic=True, mask=mask)
    axes = SplineMisfit(whole)
    assert axes.blocks == (1, 1, 1)
    d = normal(PARAMS.shape, seed=8)
    expected = whole.curvature(PARAMS)(d)
    assert float((axes.curvature(PARAMS)(d) - expected).norm()) < 1e-12 * float(expected.norm())
    diagonal = axes.diagonal(PARAMS)
    for i in (0, 40, len(PARAMS) - 1):
        unit = torch.zeros_like(PARAMS)
        unit[i] = 1
        assert float(whole.curvature(PARAMS)(unit)[i]) == pytest.approx(float(diagonal[i]), rel=1e-10)


def test_blocks_of_many_voxels_change_the_curvature_little() -> None:
    grid = VolumeGrid.on_detector((40, 40, 40), (1.0, 1.0, 1.0))
    spline = BSpline.over(grid, (5, 5, 5))
    f, g = (smoothed(normal(grid.shape, seed=seed), grid, 2.0) for seed in (1, 2))
    whole = SumOfSquares(spline, f, g)
    axes = SplineMisfit(whole)
    assert axes.blocks == (2, 2, 2)
    at, d = draw_params(spline, seed=3, size_voxels=0.5), normal((spline.n_params,), seed=4)
    expected = whole.curvature(at)(d)
    assert float((axes.curvature(at)(d) - expected).norm()) < 0.02 * float(expected.norm())


def test_the_curvature_of_a_correlation_is_not_below_its_own() -> None:
    whole = misfit(CrossCorrelation)
    bound, own = SplineMisfit(whole).curvature(PARAMS), whole.curvature(PARAMS)
    for seed in range(5):
        d = normal(PARAMS.shape, seed=seed)
        assert float(d @ bound(d)) > float(d @ own(d)) > 0


def test_products_along_axes_have_exact_adjoints() -> None:
    bases = [normal((n, m), seed=n) for n, m in ((7, 4), (6, 5), (9, 3))]
    c, v = normal((3, 4, 5, 3), seed=1), normal((3, 7, 6, 9), seed=2)
    there, back = along_axes(c, bases), along_axes_adjoint(v, bases)
    assert there.shape == v.shape
    assert abs(float((there * v).sum() - (c * back).sum())) < 1e-12 * float(there.norm() * v.norm())
    torch.testing.assert_close(there, torch.einsum("ckji,zk,yj,xi->czyx", c, *bases))


def test_other_transforms_and_differences_are_refused() -> None:
    affine = SumOfSquares(Affine(REFERENCE), VOLUME, VOLUME)
    with pytest.raises(DuotomoError, match=r"SplineMisfit: expected the misfit of a BSpline .* got Affine"):
        SplineMisfit(affine)
    with pytest.raises(DuotomoError, match=r"SplineMisfit: expected .* central_step=0.1"):
        SplineMisfit(misfit(SumOfSquares, central_step=0.1))


def test_grids_that_do_not_meet_have_no_gradient() -> None:
    far = replace(MOVING, center_mm=(1e4, 0.0, 0.0))
    apart = SumOfSquares(SPLINE, VOLUME, TARGET, reference=REFERENCE, moving=far)
    value, gradient = SplineMisfit(apart).value_and_gradient(PARAMS)
    assert value == SplineMisfit(apart).value(PARAMS) == math.inf
    assert float(gradient.norm()) == 0


def test_local_normalisation_removes_gain_and_slow_changes() -> None:
    f = normal(GRID.shape, seed=1)
    ours = locally_normalised(f, GRID)
    torch.testing.assert_close(locally_normalised(7 * f, GRID), ours)
    inner = (slice(6, -6),) * 3
    # A ramp is its own local mean; all that it changes is the floor, by the volume's mean square.
    ramp = torch.linspace(0, 0.5, 24, dtype=torch.float64)
    off = locally_normalised(f + ramp, GRID) - ours
    assert float(off[inner].norm()) < 0.05 * float(ours[inner].norm())
    assert float(locally_normalised(torch.zeros(GRID.shape), GRID).abs().max()) == 0


def test_smoothing_has_the_width_it_is_given_in_mm() -> None:
    grid = VolumeGrid.on_detector((31, 31, 31), (1.0, 0.5, 2.0))
    point = torch.zeros(grid.shape, dtype=torch.float64)
    point[15, 15, 15] = 1
    spread = smoothed(point, grid, 2.0)
    assert float(spread.sum()) == pytest.approx(1)
    for axis, spacing_mm in enumerate(grid.spacing_mm):
        at_mm = (torch.arange(31, dtype=torch.float64) - 15) * spacing_mm
        others = [other for other in range(3) if other != axis]
        assert float(spread.sum(dim=others) @ at_mm.square()) == pytest.approx(4.0, rel=0.03)


def test_compression_costs_and_folding_is_infinite() -> None:
    penalty = FoldingPenalty(COMPRESSED)
    determinants = [float(squeezed(share).determinants(GRID).min()) for share in (0.7, 0.3, -0.3)]
    assert determinants[0] > 0.5 > determinants[1] > 0 > determinants[2]
    gentle, strong, folded = (
        penalty.value_and_gradient(squeezed(share).params) for share in (0.7, 0.3, -0.3)
    )
    assert gentle[0] == 0
    assert 0 < strong[0] < math.inf
    assert folded[0] == math.inf
    # Downhill is towards the identity.
    assert float(strong[1] @ squeezed(0.3).params) > 0


def test_the_penalty_is_that_of_the_determinants_at_its_points() -> None:
    motion = squeezed(0.3)
    n = 4 * 2 + 1
    places = torch.linspace(-12, 12, n, dtype=torch.float64)
    z, y, x = torch.meshgrid(places, places, places, indexing="ij")
    c_z, c_y, c_x = GRID.center_mm
    points = torch.stack([x + c_x, y + c_y, z + c_z], dim=-1)
    r = (0.5 / torch.linalg.det(motion.jacobian(points))).log().clamp(min=0)
    expected = 0.5 * float(r.square().mean())
    assert FoldingPenalty(COMPRESSED).value(motion.params) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("threshold", [0.0, -1.0, math.inf, math.nan])
def test_a_threshold_is_positive(threshold: float) -> None:
    with pytest.raises(DuotomoError, match="FoldingPenalty: expected a positive threshold"):
        FoldingPenalty(SPLINE, threshold=threshold)
