"""The machines have their published numbers and share the machine frame."""

import math

import numpy as np
import pytest

from duotomo.geometry import MACHINES, VolumeGrid, hologic_dimensions, paper, pixel_to_world, world_to_pixel

# name: views, degrees in total, source to detector mm, pivot mm, pixel mm, (v, u)
PUBLISHED = {
    "paper": (11, 50, 660, 0, 1.0, (128, 128)),
    "ge_senoclaire": (9, 25, 660, 40, 0.1, (2394, 3062)),
    "hologic_dimensions": (15, 15, 700, 0, 0.14, (1664, 2048)),
    "siemens_inspiration": (25, 50, 650, 47, 0.085, (2816, 3584)),
    "victre": (25, 50, 650, 50, 0.085, (1500, 3000)),
}


def test_every_machine_is_listed():
    assert list(MACHINES) == list(PUBLISHED)


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_has_its_published_numbers(name):
    n_views, degrees, height_mm, pivot_mm, pixel_mm, detector_shape = PUBLISHED[name]
    scan = MACHINES[name]()
    assert scan.shape == (n_views, *detector_shape)
    assert scan.pixel_spacing_mm == (pixel_mm, pixel_mm)
    assert scan.source_mm[n_views // 2] == (0.0, 0.0, height_mm)
    about_pivot = np.arctan2(scan.sources_mm[:, 0], scan.sources_mm[:, 2] - pivot_mm)
    half_rad = math.radians(degrees) / 2
    np.testing.assert_allclose(about_pivot, np.linspace(-half_rad, half_rad, n_views), atol=1e-12)


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_is_mirrored_in_the_plane_x_is_zero(name):
    scan = MACHINES[name]()
    np.testing.assert_allclose(scan[::-1].sources_mm, scan.sources_mm * [-1, 1, 1], atol=1e-9)
    np.testing.assert_allclose(scan[::-1].normals, scan.normals * [-1, 1, 1], atol=1e-12)


@pytest.mark.parametrize("name", MACHINES)
def test_the_origin_is_under_the_middle_of_the_sweep_at_the_chest_wall(name):
    scan = MACHINES[name]()
    middle = scan[len(scan) // 2]
    n_u = scan.detector_shape[1]
    np.testing.assert_allclose(pixel_to_world(middle, (-0.5, (n_u - 1) / 2)), [(0, 0, 0)], atol=1e-9)
    # v grows towards the nipple, u along the tube's travel.
    grown = world_to_pixel(middle, (1.0, 1.0, 0.0)) - world_to_pixel(middle, (0.0, 0.0, 0.0))
    assert (grown > 0).all()


@pytest.mark.parametrize("name", MACHINES)
def test_a_thick_breast_fits_below_the_source(name):
    MACHINES[name]().check_above(VolumeGrid.on_detector((100, 10, 10), (1, 1, 1)))


def test_only_the_hologic_detector_tilts_by_its_4_2_degrees():
    tilts = {name: np.ptp(np.arctan2(*MACHINES[name]().normals[:, [0, 2]].T)) for name in MACHINES}
    assert tilts.pop("hologic_dimensions") == pytest.approx(math.radians(4.2))
    assert set(tilts.values()) == {0.0}
    # It turns the way the source does.
    assert hologic_dimensions().normals[-1, 0] > 0


def test_the_paper_leaves_the_detector_to_us():
    scan = paper(detector_shape=(60, 140), pixel_mm=0.5)
    assert scan.detector_shape == (60, 140)
    assert scan.pixel_spacing_mm == (0.5, 0.5)
    assert scan.source_mm == paper().source_mm
