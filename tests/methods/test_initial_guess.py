"""The first guess: the centre of attenuation, from the projections alone."""

from __future__ import annotations

from dataclasses import replace
from math import radians

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from duotomo.errors import GeometryError
from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.methods import Study, Visit
from duotomo.methods.initial_guess import centroid_mm, initial_params, initial_translations_mm
from duotomo.phantoms import Ellipsoid
from tests.cases.scans import arc
from tests.cases.studies import GRID, SCAN, seen, shifted, study
from tests.strategies import sixteenths

WIDE = arc((40, 60), 2.0, n_views=9)
OTHER = Acquisition.arc(
    n_views=5,
    angle_range_rad=radians(15),
    detector_tilt_range_rad=radians(4),
    source_to_detector_mm=700.0,
    pivot_height_mm=20.0,
    detector_shape=(50, 50),
    pixel_spacing_mm=(1.6, 2.4),
)

centers = st.tuples(sixteenths(-20, 20), sixteenths(22, 50), sixteenths(20, 50))


def ball(center_mm: tuple[float, float, float], acquisition: Acquisition = WIDE) -> Visit:
    """Return a scan of a ball, its line integrals exact."""
    solid = Ellipsoid(center_mm=center_mm, radii_mm=(8.0, 8.0, 8.0), value=0.05)
    views = torch.from_numpy(solid.line_integrals(acquisition))
    return Visit(projections=views, acquisition=acquisition)


@settings(max_examples=20)
@given(center_mm=centers)
def test_the_centre_of_a_ball_is_found(center_mm: tuple[float, float, float]) -> None:
    for acquisition in (WIDE, OTHER):
        found = centroid_mm(ball(center_mm, acquisition))
        assert float((found - torch.tensor(center_mm).double()).norm()) < 0.5


@settings(max_examples=10)
@given(one=centers, other=centers)
def test_the_guess_is_the_way_between_the_centres(
    one: tuple[float, float, float], other: tuple[float, float, float]
) -> None:
    grid = VolumeGrid.on_detector((30, 30, 30), (2.0, 2.0, 2.0))
    both = Study(grid=grid, visits=(ball(one), ball(other, OTHER)))
    (found,) = initial_translations_mm(both)
    # A point of the moving frame plus the translation is a point of the reference frame.
    expected = torch.tensor(one).double() - torch.tensor(other).double()
    assert float((torch.tensor(found).double() - expected).norm()) < 1.0


def test_rays_without_weight_do_not_count() -> None:
    whole = ball((3.0, 30.0, 30.0))
    dirty = whole.projections.clone()
    dirty[:, :6] = 5.0
    weights = torch.ones_like(dirty)
    weights[:, :6] = 0.0
    masked = replace(whole, projections=dirty, weights=weights)
    torch.testing.assert_close(centroid_mm(masked), centroid_mm(whole), atol=1e-9, rtol=0)
    assert float((centroid_mm(replace(masked, weights=None)) - centroid_mm(whole)).norm()) > 3.0


def test_views_that_show_nothing_do_not_count() -> None:
    whole = ball((3.0, 30.0, 30.0))
    some = replace(whole, projections=whole.projections.clone())
    some.projections[2] = 0.0
    torch.testing.assert_close(centroid_mm(some), centroid_mm(whole), atol=0.05, rtol=0)


def test_one_view_gives_a_point_on_its_ray() -> None:
    found = centroid_mm(ball((3.0, 30.0, 30.0), WIDE[4]))
    source = torch.tensor(WIDE.source_mm[4]).double()
    along = torch.tensor([3.0, 30.0, 30.0]).double() - source
    off = torch.linalg.cross(found - source, along / along.norm())
    assert float(off.norm()) < 0.2


def test_without_a_guess_nothing_is_moved() -> None:
    both = study(shifted(3.0, 0.0, 0.0))
    assert not initial_params(both, guess=False)[0].any()
    assert initial_params(both)[0].any()


def test_a_guess_that_leaves_the_volume_is_explained() -> None:
    # The narrow grid meets the rays, but what the data show lies far to its sides.
    left, right = torch.zeros(SCAN.shape), torch.zeros(SCAN.shape)
    left[:, :, 0], right[:, :, -1] = 1.0, 1.0
    narrow = VolumeGrid(shape=(10, 14, 4), spacing_mm=(3.0, 3.0, 3.0), center_mm=(20.0, 21.0, 0.0))
    visits = tuple(Visit(projections=views, acquisition=SCAN) for views in (left, right))
    with pytest.raises(GeometryError, match=r"Study, visit 2: .* share no volume.*whether the data show one"):
        initial_params(Study(grid=narrow, visits=visits))


def test_grids_that_share_no_volume_need_a_guess() -> None:
    far = replace(GRID, center_mm=(GRID.center_mm[0], GRID.center_mm[1], 60.0))
    motion = shifted(-60.0, 0.0, 0.0, grid=far)
    moved_mm = [(x + 60.0, y, z) for x, y, z in SCAN.source_mm]
    middles_mm = [(x + 60.0, y, z) for x, y, z in SCAN.detector_center_mm]
    beside = replace(SCAN, source_mm=moved_mm, detector_center_mm=middles_mm)
    both = Study(grid=GRID, visits=(seen(), seen(motion, acquisition=beside, grid=far)))
    with pytest.raises(
        GeometryError, match=r"visit 2: .*share no volume.* Check center_mm .*initial_guess=True"
    ):
        initial_params(both, guess=False)
    torch.testing.assert_close(initial_params(both)[0], motion.params, atol=0.1, rtol=0)
