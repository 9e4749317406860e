"""The objective of a stage is the sum of its parts, and needs no tuning."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from duotomo.methods import Priors, Study
from duotomo.methods.blocks import FIRST_STEP, WINDOW, volume_block
from duotomo.methods.level import Basis
from duotomo.methods.preconditioner import motion_curvatures
from duotomo.methods.priors import NO_PRIORS
from duotomo.methods.problem import Problem
from duotomo.methods.scales import level_of, scales_of
from duotomo.objectives import Nonnegativity, TotalVariation
from duotomo.solvers import Lbfgs
from tests.cases.studies import GRID, shifted, study
from tests.methods.runs import MODELS

NAMES = ["rigid", "bspline:4,4,4"]
SMALL = (2, 2, 2)
BASES: list[Basis] = ["voxel", "spline"]


def problem(
    model: str, *, priors: Priors | None = None, of: Study | None = None, basis: Basis = "spline"
) -> Problem:
    of = of or study(shifted(3.0, -2.0, 1.0), dtype=torch.float64)
    priors = priors or Priors()
    scales = scales_of(of, priors)
    level = level_of(of, SMALL, basis=basis, priors=priors, scales=scales)
    return Problem(level, [MODELS[model](GRID) for _ in of.moving], priors, scales)


def somewhere(one: Problem, seed: int = 0) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Return a volume with negative values, and parameters."""
    generator = torch.Generator().manual_seed(seed)
    volume = 0.03 * torch.randn(one.level.grid.shape, generator=generator, dtype=torch.float64) + 0.02
    rows = [0.3 * torch.randn(t.n_params, generator=generator, dtype=torch.float64) for t in one.transforms]
    return volume, rows


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("model", NAMES)
def test_the_objective_is_the_sum_of_misfit_and_priors(model: str, basis: Basis) -> None:
    one = problem(model, basis=basis)
    volume, rows = somewhere(one)
    objective, _ = one.of_both(volume, rows)
    diagonals = [curvature.diagonal for curvature in motion_curvatures(one.misfit, volume, rows)]
    x = one.misfit.join(volume, rows)
    scales, grid = scales_of(study(shifted(3.0, -2.0, 1.0), dtype=torch.float64), Priors()), one.level.grid
    weight = Priors().total_variation * one.level.noise_gradient_rms()
    variation = TotalVariation(grid, Priors().smoothing * scales.attenuation, depth_weight=1.0)
    parts = [
        one.misfit.value(x),
        weight * variation.value(volume),
        Priors().nonnegativity * one.curvature * Nonnegativity(grid).value(volume),
    ]
    bending = [p.value(row) for p, row in zip(one.bending(diagonals), rows, strict=True) if p]
    assert all(part > 0 for part in (*parts, *bending))
    assert len(bending) == (model != "rigid")
    assert one.of_volume(rows).value(volume) == pytest.approx(sum(parts), rel=1e-9)
    assert objective.value(x) == pytest.approx(sum(parts) + sum(bending), rel=1e-9)


@pytest.mark.parametrize("model", NAMES)
def test_without_priors_the_objective_is_the_misfit(model: str) -> None:
    one = problem(model, priors=NO_PRIORS)
    volume, rows = somewhere(one)
    objective, _ = one.of_both(volume, rows)
    x = one.misfit.join(volume, rows)
    assert objective.value(x) == one.misfit.value(x)
    assert one.of_volume(rows).value(volume) == pytest.approx(one.misfit.value(x), rel=1e-12)


@pytest.mark.parametrize("edges", [0.0, 0.1])
def test_priors_follow_the_units_of_the_data(edges: float) -> None:
    """In units c times smaller, all of the objective is c^2 times larger: there is nothing to tune.

    Where edges count less, rays are relative to their noise, and the objective stays the same.
    """
    c, priors = 8.0, Priors(edges=edges, offset=0.0)
    motion = shifted(3.0, -2.0, 1.0)
    plain = study(motion, dtype=torch.float64)
    scaled = replace(
        plain, visits=tuple(replace(visit, projections=c * visit.projections) for visit in plain.visits)
    )
    volume, rows = somewhere(problem("rigid"))
    values = [
        problem("rigid", of=plain, priors=priors).of_volume(rows).value(volume),
        problem("rigid", of=scaled, priors=priors).of_volume(rows).value(c * volume),
    ]
    assert values[1] == pytest.approx((1.0 if edges else c**2) * values[0], rel=1e-9)


def test_weights_say_how_strong_the_noise_is() -> None:
    """Weights 1 / c^2 for data c times larger: the same objective."""
    c = 8.0
    plain = study(shifted(3.0, -2.0, 1.0), dtype=torch.float64)
    values = []
    volume, rows = somewhere(problem("rigid"))
    for factor in (1.0, c):
        visits = tuple(
            replace(
                visit,
                projections=factor * visit.projections,
                weights=torch.full_like(visit.projections, 1e4 / factor**2),
            )
            for visit in plain.visits
        )
        one = problem("rigid", of=replace(plain, visits=visits), priors=Priors(offset=0.0))
        values.append(one.of_volume(rows).value(factor * volume))
    assert values[1] == pytest.approx(values[0], rel=1e-9)


@pytest.mark.parametrize("strength", [1e-3, 1e-1])
def test_bending_is_a_part_of_the_misfits_curvature(strength: float) -> None:
    one = problem("bspline:4,4,4", priors=Priors(bending=strength))
    zeros = one.transforms[0].identity()
    (prior,) = one.bending([torch.full_like(zeros, 7.0)])
    assert prior is not None
    product = prior.curvature(zeros)
    diagonal = torch.stack([d @ product(d) for d in torch.eye(len(zeros), dtype=torch.float64)])
    # For each mm of a voxel's edge.
    edge_mm = max(one.level.grid.spacing_mm)
    assert float(diagonal.mean()) == pytest.approx(7.0 * strength * edge_mm, rel=0.5)


def test_a_study_of_one_visit_has_no_parameters() -> None:
    one = problem("rigid", of=study(dtype=torch.float64))
    volume, _ = somewhere(one)
    objective, preconditioner = one.of_both(volume, [])
    assert objective.shape == (one.level.grid.n_voxels,)
    expected = one.volume_preconditioner(volume, [])(volume)
    torch.testing.assert_close(preconditioner(volume.flatten()), expected.flatten(), rtol=0, atol=0)


@pytest.mark.parametrize("basis", BASES)
def test_a_volume_of_voxels_makes_the_papers_own_steps(basis: Basis) -> None:
    """L-BFGS without a preconditioner, bit for bit; of splines, other steps."""
    one = problem("rigid", priors=NO_PRIORS, basis=basis)
    volume, rows = somewhere(one)
    solver = Lbfgs(
        n_steps=4, memory=5, tolerance=0.0, window=WINDOW, first_step=FIRST_STEP * float(volume.norm())
    )
    plain = solver.minimise(one.of_volume(rows), volume)
    found = volume_block(one, volume, rows, memory=5, n_steps=4, tolerance=0.0, on_step=None)
    assert torch.equal(found.volume, plain.value) == (basis == "voxel")
