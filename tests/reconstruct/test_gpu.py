"""Reconstructions and simulated visits on a CUDA device are those of the CPU."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch

from duotomo.reconstruct import reconstruct
from duotomo.simulate import same_grid_noise_free, scan
from duotomo.transforms import Motion, Rigid
from tests.reconstruct.algorithms import EVERY
from tests.reconstruct.visit import DATA, GRID, PHOTONS, SCAN, Body

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.skipif(find_spec("triton") is None, reason="needs triton"),
]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", EVERY)
def test_every_algorithm_finds_the_volume_of_the_cpu(name: str, weighted: bool) -> None:
    if weighted and name == "filtered back projection":
        return
    values = []
    for device in ("cpu", "cuda"):
        data = DATA.double().to(device)
        weights = PHOTONS * torch.exp(-data) if weighted else None
        algorithm = EVERY[name][0]
        solution = reconstruct(data, grid=GRID, acquisition=SCAN, algorithm=algorithm, weights=weights)
        assert solution.value.device.type == device
        values.append(solution.value.cpu())
    # The weight of total variation comes from other random numbers on another device.
    tolerance = 0.05 if name == "total variation" else 1e-8
    assert float((values[1] - values[0]).norm() / values[0].norm()) < tolerance


def test_moved_visit_on_the_device_is_that_of_the_cpu() -> None:
    rigid = Rigid(GRID)
    params = rigid.params(rotation_deg=(2.0, -8.0, 4.0), translation_mm=(1.0, 0.5, -2.0))
    here, there = (
        same_grid_noise_free(
            Body(), GRID, SCAN, device=device, dtype=torch.float64, motion=Motion(rigid, params)
        )
        for device in ("cpu", "cuda")
    )
    torch.testing.assert_close(there.cpu(), here, rtol=1e-10, atol=1e-12)
    noisy = [
        scan(
            Body(),
            GRID,
            SCAN,
            generator=torch.Generator(device=device).manual_seed(0),
            photons=1e12,
            transform=rigid,
            params=params,
        )
        for device in ("cpu", "cuda")
    ]
    assert noisy[1].device.type == "cuda"
    torch.testing.assert_close(noisy[1].cpu(), noisy[0], rtol=0, atol=5e-5)
