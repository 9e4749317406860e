"""The study set: the toroid's twenty random motions and the large one, numbered from 0.

Set-up and motions are those of the experiment toroid-simultaneous.
"""

from __future__ import annotations

import numpy as np
import torch

from duotomo.methods import Study, Visit
from duotomo.reproduction.motions import published_motion
from duotomo.reproduction.toroid import N_MOTIONS, acquisition_of, grid_of, phantom_of, random_motion
from duotomo.simulate import same_grid_noise_free, scan
from duotomo.transforms import Affine, Motion, target_registration_error

N_CASES = N_MOTIONS + 1
GRID, ACQUISITION = grid_of(1.0), acquisition_of(1.0)
PHANTOM = phantom_of(fills_the_cube=False)
AFFINE = Affine(GRID)


def truth() -> torch.Tensor:
    """Return the phantom on the grid, (z, y, x)."""
    return torch.from_numpy(PHANTOM.voxels(GRID, dtype=np.float32))


def motion(case: int) -> Motion:
    """Return the true motion of a case, moving_to_reference."""
    return published_motion(AFFINE) if case == N_MOTIONS else random_motion(case + 1)


def study(case: int, data: str, *, device: str = "cpu", extra: tuple[int, ...] = ()) -> Study:
    """Return the visits of a case; data "a": same grid, no noise; "b": twice finer grid, Poisson noise.

    extra: cases whose motions give further visits.
    """
    visits = []
    for number, moved in enumerate([None, motion(case), *(motion(other) for other in extra)]):
        if data == "a":
            views = same_grid_noise_free(PHANTOM, GRID, ACQUISITION, motion=moved)
        else:
            generator = torch.Generator().manual_seed(100 * case + number)
            views = scan(PHANTOM, GRID, ACQUISITION, generator=generator, motion=moved)
        visits.append(Visit(projections=views.to(device), acquisition=ACQUISITION))
    return Study(grid=GRID, visits=tuple(visits))


def tre_mm(found: Motion, true: Motion) -> float:
    """Return the mean target registration error over the voxels of the object."""
    inside = torch.nonzero(truth() > 0.5 * PHANTOM.body.value).double()  # type: ignore[union-attr]
    low, spacing = torch.tensor(GRID.low_mm), torch.tensor(GRID.spacing_mm)
    reference_mm = (low + (inside + 0.5) * spacing).flip(1).double()
    moving_mm = true.inverse().points(reference_mm)
    return float(target_registration_error(found, moving_mm, reference_mm).mean())


def relative_error(volume: torch.Tensor) -> float:
    """Return `|f - truth|^2 / |truth|^2`."""
    true = truth()
    return float((volume.cpu() - true).square().sum() / true.square().sum())
