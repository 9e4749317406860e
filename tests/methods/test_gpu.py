"""A joint step on a CUDA device: the objective and the quasi-Newton method, against the CPU."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch

from duotomo.methods import Priors
from duotomo.methods.following import Following
from duotomo.methods.level import Basis, Level
from duotomo.methods.problem import Problem
from duotomo.methods.scales import scales_of
from duotomo.objectives import Objective
from duotomo.solvers import Lbfgs
from tests.cases.studies import GRID, shifted, study, truth
from tests.methods.runs import MODELS

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.skipif(find_spec("triton") is None, reason="needs triton"),
]

each_model = pytest.mark.parametrize("model", ["translation", "rigid", "affine", "bspline:4,4,4"])
each_basis = pytest.mark.parametrize("basis", ["voxel", "spline"])


def posed(model: str, basis: Basis, device: str, *, follows: bool) -> tuple[Objective, torch.Tensor]:
    """Return the joint objective of three visits in double precision, and where to begin."""
    of = study(shifted(3.0, -2.0, 1.0), shifted(-2.0, 1.0, 2.0), dtype=torch.float64).to(device)
    transforms = [MODELS[model](GRID) for _ in of.moving]
    priors = Priors()
    one = Problem(Level(of, (2, 2, 2), basis=basis), transforms, priors, scales_of(of, priors))
    generator = torch.Generator().manual_seed(0)
    rows = [0.3 * torch.randn(t.n_params, generator=generator, dtype=torch.float64) for t in transforms]
    volume = truth(one.level.grid, torch.float64).to(device) - 0.005
    x = one.misfit.join(volume, rows)
    objective: Objective = one.misfit
    for prior in one.volume_priors:
        objective = objective + one.misfit.on_volume(prior)
    for index, bending in enumerate(one.bending([torch.ones_like(row) for row in rows])):
        if bending is not None:
            objective = objective + one.misfit.on_params(index, bending)
    return (Following(objective, one.misfit, x), torch.zeros_like(x)) if follows else (objective, x)


@each_basis
@each_model
@pytest.mark.parametrize("follows", [False, True], ids=["plain", "following"])
def test_value_and_gradient_are_those_of_the_cpu(model: str, basis: Basis, follows: bool) -> None:
    (on_cpu, x), (on_gpu, at) = (posed(model, basis, device, follows=follows) for device in ("cpu", "cuda"))
    step = 1e-3 * torch.randn(x.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    value, gradient = on_cpu.value_and_gradient(x + step)
    found, slope = on_gpu.value_and_gradient(at + step.cuda())
    assert found == pytest.approx(value, rel=1e-9)
    n = GRID.coarsen((2, 2, 2)).n_voxels
    for part in (slice(0, n), slice(n, None)):
        assert float((slope[part].cpu() - gradient[part]).norm() / gradient[part].norm()) < 1e-9


@each_basis
@pytest.mark.parametrize("model", ["affine", "bspline:4,4,4"])
def test_steps_are_those_of_the_cpu(model: str, basis: Basis) -> None:
    ends = []
    for device in ("cpu", "cuda"):
        objective, x = posed(model, basis, device, follows=False)
        solution = Lbfgs(n_steps=8, memory=3, first_step=1e-3).minimise(objective, x)
        ends.append((solution.value.cpu(), [step.objective for step in solution.history]))
    (x, values), (found, on_gpu) = ends
    assert on_gpu == pytest.approx(values, rel=1e-6)
    assert float((found - x).norm() / x.norm()) < 1e-5
