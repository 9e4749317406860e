"""Projections that others simulated: the lesion is seen, and comes back, where they put it.

Data: github.com/DIDSR/ReconDBT (R. Zeng, FDA), example_data, public domain: a breast phantom with one bright
lesion, seven noisy views, projected with the Image Reconstruction Toolbox, which shares no code with duotomo.
`fda_projections` brings them into the machine frame.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import ndimage

from duotomo.geometry import VolumeGrid, voxel_to_world, world_to_pixel
from duotomo.objectives import ProjectionMisfit
from duotomo.operators import Projector
from duotomo.reproduction.third_party.fda import FILE, FdaScan, fda_projections
from duotomo.solvers import Cgls

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("DUOTOMO_DATA", ROOT.parent / "shared" / "data"))

pytestmark = pytest.mark.skipif(
    not (DATA / FILE).exists(), reason=f"needs {FILE} in {DATA}; set DUOTOMO_DATA to the folder that holds it"
)


@pytest.fixture(scope="module")
def scan() -> FdaScan:
    return fda_projections(DATA)


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


def test_lesion_track(scan: FdaScan) -> None:
    """The lesion is within one pixel (0.4 mm) of where `world_to_pixel` puts it, in every view."""
    predicted = world_to_pixel(scan.acquisition, scan.lesion_center_mm)
    observed = np.stack([bright_spot(view, scan.acquisition.pixel_spacing_mm) for view in scan.projections])
    deviation = np.linalg.norm(observed - predicted, axis=1)
    print("lesion track, deviation in pixels per view:", deviation.round(2))
    assert deviation.max() < 1.0


def test_mirrored_sweep_would_be_noticed(scan: FdaScan) -> None:
    """The measure has teeth: with the sweep reversed, the outer views miss by many pixels."""
    predicted = world_to_pixel(scan.acquisition[::-1], scan.lesion_center_mm)
    observed = np.stack([bright_spot(view, scan.acquisition.pixel_spacing_mm) for view in scan.projections])
    assert np.linalg.norm(observed - predicted, axis=1)[[0, -1]].min() > 20


def test_reconstructed_lesion(scan: FdaScan) -> None:
    """Ten steps of CGLS on the whole breast put the lesion within 1 mm in plane and 3 mm in depth.

    The data do not say how thick the breast is; 50 mm from the detector up is assumed. Over 30 degrees a
    lesion 3.2 mm thick is smeared over more than 10 mm of depth, so its place in depth is a centroid's.
    """
    grid = VolumeGrid.on_detector((50, 170, 550), (1.0, *scan.acquisition.pixel_spacing_mm))
    data = torch.from_numpy(scan.projections).float()
    solution = Cgls(n_steps=10).minimise(ProjectionMisfit(Projector(grid, scan.acquisition), data))
    spot = bright_spot(solution.value.double().numpy(), grid.spacing_mm)
    deviation_mm = voxel_to_world(grid, spot) - scan.lesion_center_mm
    print("reconstructed lesion, deviation in mm (x, y, z):", deviation_mm.round(2))
    assert np.hypot(*deviation_mm[:2]) < 1.0
    assert abs(deviation_mm[2]) < 3.0
