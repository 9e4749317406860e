"""The study set: a toroid in soft tissue, 70^3 at 1 mm, 11 + 11 views, twenty random motions and a large one.

Motions are affine, drawn with fixed seeds: rotations up to 15 degrees about each axis, scales 0.9 to 1.1,
shears up to 0.1, translations up to 8 mm. The last is the large motion of the paper: the body turns by -30
degrees about y and moves by (10, 0, -20) mm.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.methods import Study, Visit
from duotomo.phantoms import Ellipsoid, Toroid
from duotomo.simulate import same_grid_noise_free, scan
from duotomo.transforms import Affine, Transform, target_registration_error

N_CASES = 21
GRID = VolumeGrid.on_detector((70, 70, 70), (1.0, 1.0, 1.0), gap_mm=5.0)
ACQUISITION = Acquisition.arc(
    n_views=11,
    angle_range_rad=math.radians(50),
    source_to_detector_mm=660.0,
    pivot_height_mm=0.0,
    # As wide as the cube's shadow in the outermost views, so that no view is cut off.
    detector_shape=(84, 168),
    pixel_spacing_mm=(1.0, 1.0),
)
_Z, _Y, _X = GRID.center_mm
# Small enough to stay inside the cube in every one of the motions.
PHANTOM = Toroid(
    center_mm=(_X, _Y, _Z),
    major_radius_mm=14.0,
    minor_radius_mm=6.0,
    value=0.034,
    modulation=0.5,
    body=Ellipsoid(center_mm=(_X, _Y, _Z), radii_mm=(22.0, 22.0, 11.0), value=0.046),
)
AFFINE = Affine(GRID)


def truth() -> torch.Tensor:
    """Return the phantom on the grid, (z, y, x)."""
    return torch.from_numpy(PHANTOM.voxels(GRID, dtype=np.float32))


def motion(case: int) -> torch.Tensor:
    """Return the true parameters of a case, moving_to_reference."""
    if case == N_CASES - 1:
        turn = _rotation(0.0, math.radians(-30.0), 0.0)
        body = AFFINE.params(matrix=turn.tolist(), translation_mm=(10.0, 0.0, -20.0))
        # Where the body goes is the inverse of where a moved point came from.
        inverse = AFFINE.inverse(body)
        assert inverse is not None
        return inverse[1]
    generator = np.random.default_rng(1000 + case)
    turn = _rotation(*np.radians(generator.uniform(-15, 15, 3)))
    scale = np.diag(generator.uniform(0.9, 1.1, 3))
    shear = np.eye(3)
    shear[0, 1], shear[0, 2], shear[1, 2] = generator.uniform(-0.1, 0.1, 3)
    shift = generator.uniform(-8, 8, 3)
    return AFFINE.params(matrix=(turn @ shear @ scale).tolist(), translation_mm=shift.tolist())


def study(case: int, data: str, *, device: str = "cpu", extra: tuple[int, ...] = ()) -> Study:
    """Return the visits of a case; data "a": same grid, no noise; "b": twice finer grid, Poisson noise.

    extra: cases whose motions give further visits.
    """
    visits = []
    for number, params in enumerate([None, motion(case), *(motion(other) for other in extra)]):
        moved = {} if params is None else {"transform": AFFINE, "params": params}
        if data == "a":
            views = same_grid_noise_free(PHANTOM, GRID, ACQUISITION, **moved)
        else:
            generator = torch.Generator().manual_seed(100 * case + number)
            views = scan(PHANTOM, GRID, ACQUISITION, generator=generator, **moved)
        visits.append(Visit(projections=views.to(device), acquisition=ACQUISITION))
    return Study(grid=GRID, visits=tuple(visits))


def tre_mm(transform: Transform, params: torch.Tensor, true_params: torch.Tensor) -> float:
    """Return the mean target registration error over the voxels of the object."""
    inside = torch.nonzero(truth() > 0.5 * PHANTOM.body.value).double()  # type: ignore[union-attr]
    low, spacing = torch.tensor(GRID.low_mm), torch.tensor(GRID.spacing_mm)
    reference_mm = (low + (inside + 0.5) * spacing).flip(1).double()
    inverse = AFFINE.inverse(true_params)
    assert inverse is not None
    moving_mm = AFFINE.points(inverse[1], reference_mm)
    return float(target_registration_error(transform, params, moving_mm, reference_mm).mean())


def relative_error(volume: torch.Tensor) -> float:
    """Return `|f - truth|^2 / |truth|^2`."""
    true = truth()
    return float((volume.cpu() - true).square().sum() / true.square().sum())


def _rotation(about_x: float, about_y: float, about_z: float) -> np.ndarray:
    """Return the rotation about x, then y, then z."""
    (cx, cy, cz), (sx, sy, sz) = np.cos([about_x, about_y, about_z]), np.sin([about_x, about_y, about_z])
    turn_x = np.array([[1, 0, 0], [0, cx, -sx], [0, sx, cx]])
    turn_y = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    turn_z = np.array([[cz, -sz, 0], [sz, cz, 0], [0, 0, 1]])
    product: np.ndarray = turn_z @ turn_y @ turn_x
    return product
