"""Projections that others simulated: the lesion casts its shadow, and comes back, where they put it.

Data: github.com/DIDSR/ReconDBT (R. Zeng, FDA), example_data, public domain: a breast phantom with one bright
lesion, seven noisy views, projected with the Image Reconstruction Toolbox, which shares no code with duotomo.
Their origin is the pivot, 45 mm above the detector; ours is on the detector.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import torch
from scipy import ndimage

from duotomo.geometry import Acquisition, VolumeGrid, voxel_to_world, world_to_pixel
from duotomo.operators import Projector
from duotomo.solvers import Cgls

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("DUOTOMO_DATA", ROOT.parent / "shared" / "data")) / "fda_dbt_projections"

PIXEL_MM, N_U, N_V = 0.4, 615, 170
PIVOT_TO_SOURCE_MM, PIVOT_HEIGHT_MM = 605.0, 45.0
LESION_MM = np.array([-0.2, 31.0, -21.4 + PIVOT_HEIGHT_MM])

pytestmark = pytest.mark.skipif(
    not (DATA / "g_noi.mat").exists(),
    reason=f"needs g_noi.mat in {DATA}; set DUOTOMO_DATA to the folder that holds fda_dbt_projections",
)


@pytest.fixture(scope="module")
def projections() -> np.ndarray:
    """Line integrals (view, v, u); the file's axes are (s, t, view) with s along x and t along y."""
    return scipy.io.loadmat(DATA / "g_noi.mat")["g_noi"].transpose(2, 1, 0)


@pytest.fixture(scope="module")
def acquisition() -> Acquisition:
    """Seven views, theta from -15 to 15 degrees; positive theta is towards negative x."""
    theta = np.radians(-15.0 + 5.0 * np.arange(7))
    source_mm = np.stack(
        [
            -PIVOT_TO_SOURCE_MM * np.sin(theta),
            np.zeros(7),
            PIVOT_TO_SOURCE_MM * np.cos(theta) + PIVOT_HEIGHT_MM,
        ],
        axis=1,
    )
    return Acquisition.from_vectors(
        source_mm=source_mm,
        detector_center_mm=np.tile((0.0, N_V * PIXEL_MM / 2, 0.0), (7, 1)),
        u_mm=np.tile((PIXEL_MM, 0.0, 0.0), (7, 1)),
        v_mm=np.tile((0.0, PIXEL_MM, 0.0), (7, 1)),
        detector_shape=(N_V, N_U),
    )


def bright_spot(image: np.ndarray, spacing_mm: tuple[float, ...]) -> np.ndarray:
    """Return the index of the brightest spot of an image or a volume, blind to where it should be.

    Smooth it by 0.4 mm, find the peak, take the median within 10 mm of the peak as background, and form the
    centroid, weighted by what exceeds the background, of the connected part above half the peak's height.
    """
    calm = ndimage.gaussian_filter(image, 0.4 / np.array(spacing_mm))
    peak = np.unravel_index(calm.argmax(), calm.shape)
    reach = np.rint(10.0 / np.array(spacing_mm)).astype(int)
    box = tuple(slice(max(p - r, 0), p + r + 1) for p, r in zip(peak, reach, strict=True))
    excess = np.zeros_like(calm)
    excess[box] = calm[box] - np.median(image[box])
    labels, _ = ndimage.label(excess > excess[peak] / 2)
    return np.array(ndimage.center_of_mass(excess, labels, labels[peak]))


def test_lesion_track(projections: np.ndarray, acquisition: Acquisition) -> None:
    """The lesion's shadow is within one pixel (0.4 mm) of where `world_to_pixel` puts it, in every view."""
    predicted = world_to_pixel(acquisition, LESION_MM)
    observed = np.stack([bright_spot(view, acquisition.pixel_spacing_mm) for view in projections])
    deviation = np.linalg.norm(observed - predicted, axis=1)
    print("lesion track, deviation in pixels per view:", deviation.round(2))
    assert deviation.max() < 1.0


def test_mirrored_sweep_would_be_noticed(projections: np.ndarray, acquisition: Acquisition) -> None:
    """The measure has teeth: with the sweep reversed, the outer views miss by many pixels."""
    predicted = world_to_pixel(acquisition[::-1], LESION_MM)
    observed = np.stack([bright_spot(view, acquisition.pixel_spacing_mm) for view in projections])
    assert np.linalg.norm(observed - predicted, axis=1)[[0, -1]].min() > 20


def test_reconstructed_lesion(projections: np.ndarray, acquisition: Acquisition) -> None:
    """Ten steps of CGLS on the whole breast put the lesion within 1 mm in plane and 3 mm in depth.

    The data do not say how thick the breast is; 50 mm from the detector up is assumed. Over 30 degrees a
    lesion 3.2 mm thick is smeared over more than 10 mm of depth, so its place in depth is a centroid's.
    """
    grid = VolumeGrid.on_detector((50, N_V, 550), (1.0, PIXEL_MM, PIXEL_MM))
    data = torch.from_numpy(np.ascontiguousarray(projections, dtype=np.float32))
    solution = Cgls(n_steps=10).solve(Projector(grid=grid, acquisition=acquisition), data)
    spot = bright_spot(solution.value.double().numpy(), grid.spacing_mm)
    deviation_mm = voxel_to_world(grid, spot) - LESION_MM
    print("reconstructed lesion, deviation in mm (x, y, z):", deviation_mm.round(2))
    assert np.hypot(*deviation_mm[:2]) < 1.0
    assert abs(deviation_mm[2]) < 3.0
