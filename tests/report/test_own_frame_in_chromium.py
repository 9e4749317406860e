"""A visit in its own frame: crosshairs that the motion links, and the ellipse about a place it predicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from duotomo.geometry import VolumeGrid
from duotomo.geometry.frame import voxel_to_world
from duotomo.io import read_result
from duotomo.methods import in_moving, in_reference
from duotomo.report.page import is_two_views, write_page
from duotomo.transforms import Motion, Recompression, Translation
from duotomo.transforms.displacement_field import DisplacementField
from tests.cases.transforms import centers_mm, compressions
from tests.report.axe import faults
from tests.report.chromium import Page, expected_pixel, to_slice
from tests.report.page_results import GRID, LANDMARK, MOVED, body, result, save, spline, sure

OWN = VolumeGrid.on_detector((13, 30, 44), (2.0, 1.5, 1.5), gap_mm=1.0)
NEAR_MM = 0.5
"""Of what is read off pixels."""

READOUT = "return document.querySelector(`[data-role=${arguments[0]}] .readout`).textContent"
MEASURES = "return document.querySelector('.measures').textContent"
TITLE = "return document.querySelector(`[data-role=prior] h2 select`).selectedOptions[0].textContent"
PHONE = (390, 844)


def made(motion: Motion, **known: Any) -> Any:
    others = {"visit_1": body(LANDMARK), "visit_2_registered": body(MOVED), "visit_2": body(MOVED, grid=OWN)}
    found = result(motion=motion, others=others, grids={"visit_2": OWN})
    return replace(found, uncertainties=(sure(motion, up_to_x_mm=15.0, **known),))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page(save(tmp_path_factory.mktemp("own"), made(spline())))


@pytest.fixture
def page(driver: Any, path: Path) -> Page:
    opened = Page(driver, path)
    opened.key("o")
    opened.settle()
    return opened


def place_mm(page: Page, role: str, grid: VolumeGrid) -> Sequence[float]:
    """Return where the crosshair is, (x, y, z), from its pixels and its slice."""
    _, _, width, height = page.box(role)
    scale = min(width / grid.size_mm[1], height / grid.size_mm[2])
    right, down = (float(part) for part in page.data(role, "crosshair").split())
    y = grid.center_mm[1] + (right - width / 2) / scale
    x = grid.center_mm[2] + (down - height / 2) / scale
    z = grid.low_mm[0] + (float(page.data(role, "slice")) + 0.5) * grid.spacing_mm[0]
    return x, y, z


def point_at(page: Page, voxel: tuple[int, int, int]) -> torch.Tensor:
    """Point at a voxel of the reference; return where that is, (1, xyz)."""
    to_slice(page, voxel[0])
    page.click("reference", *expected_pixel(page, "reference", voxel))
    return torch.from_numpy(voxel_to_world(GRID, [voxel]).copy())


def test_pointing_in_the_reference_leads_to_the_tissue_in_the_other_frame(page: Page) -> None:
    at = point_at(page, LANDMARK)
    expected = in_moving(sure(spline()), at)
    x, y, z = expected.places_mm[0].tolist()
    found = place_mm(page, "prior", OWN)
    assert found[:2] == pytest.approx((x, y), abs=NEAR_MM)
    assert found[2] == pytest.approx(z, abs=OWN.spacing_mm[0] / 2 + 0.1)
    assert page.script(TITLE) == "Visit 2, own frame"
    line = page.script(READOUT, "reference").splitlines()[1]
    words = expected.words()[0].replace("-", "\u2212").replace(" x ", " \u00d7 ")
    assert line == f"in visit 2: {words}"
    # The outline of the ellipsoid is drawn where the tissue is, and nowhere else.
    ellipse = [float(part) for part in page.data("prior", "ellipse").split()]
    assert ellipse[:2] == pytest.approx([float(part) for part in page.data("prior", "crosshair").split()])
    _, _, width, height = page.box("prior")
    scale = min(width / OWN.size_mm[1], height / OWN.size_mm[2])
    size = torch.linalg.eigvalsh(expected.covariance_mm2[0, :2, :2]).sqrt() * expected._scale
    assert sorted(ellipse[2:4]) == pytest.approx(sorted((size * scale).tolist()), rel=0.15, abs=1)
    assert page.data("reference", "ellipse") == ""
    assert page.driver.get_log("browser") == []


def test_pointing_in_the_other_frame_leads_back(page: Page) -> None:
    point_at(page, LANDMARK)
    _, _, width, height = page.box("prior")
    page.click("prior", width / 2 + 20, height / 2 - 15)
    own = torch.tensor([place_mm(page, "prior", OWN)], dtype=torch.float64)
    right, down = (float(part) for part in page.data("prior", "crosshair").split())
    assert (right, down) == pytest.approx((width / 2 + 20, height / 2 - 15), abs=0.6)
    expected = in_reference(sure(spline()), own)
    x, y, z = expected.places_mm[0].tolist()
    found = place_mm(page, "reference", GRID)
    assert found[:2] == pytest.approx((x, y), abs=NEAR_MM)
    assert found[2] == pytest.approx(z, abs=GRID.spacing_mm[0])
    assert page.data("reference", "ellipse") != ""
    assert page.data("prior", "ellipse") == ""
    assert page.script(READOUT, "prior").splitlines()[1].startswith("in visit 1: x ")
    # Slices go by in the frame that the reader points in.
    before = int(page.data("prior", "slice"))
    page.mouse("prior", "mouseWheel", 100, 200, deltaX=0, deltaY=120)
    page.settle()
    assert int(page.data("prior", "slice")) == before + 1


def test_where_the_data_do_not_say_it_is_said(page: Page) -> None:
    point_at(page, (5, 16, 36))
    assert page.script(READOUT, "reference").splitlines()[1].endswith("mm, how surely is not known")
    assert page.data("prior", "ellipse") == ""


def test_keys_do_what_the_mouse_does(page: Page) -> None:
    point_at(page, LANDMARK)
    page.script("document.querySelector('[data-role=prior] .over').focus()")
    before = place_mm(page, "prior", OWN)
    page.driver.switch_to.active_element.send_keys("\ue008\ue014")  # Shift, right arrow
    page.settle()
    after = place_mm(page, "prior", OWN)
    assert after[1] - before[1] == pytest.approx(OWN.spacing_mm[1], abs=0.2)
    page.key("o")
    page.settle()
    assert page.script(TITLE) == "Visit 2, registered"
    page.key("o")
    page.settle()
    assert page.script(TITLE) == "Visit 2, own frame"
    spoken = "return document.querySelector('.spoken').textContent"
    page.key("ArrowDown")
    page.until(lambda: "in visit" in str(page.script(spoken)))


def test_enlarged_pictures_keep_the_crosshair_in_one_place(page: Page) -> None:
    point_at(page, LANDMARK)
    page.key("+")
    page.key("+")
    page.settle()
    places = [
        [float(part) for part in page.data(role, "crosshair").split()] for role in ("reference", "prior")
    ]
    assert places[0] == pytest.approx(places[1], abs=1.5)


def test_axe_finds_no_fault_and_a_phone_shows_it(driver: Any, path: Path, page: Page) -> None:
    assert faults(page) == []
    phone = Page(driver, path, size=PHONE, touch=True)
    phone.key("o")
    phone.key("2")
    phone.settle()
    assert faults(phone) == []
    assert phone.script(TITLE) == "Visit 2, own frame"
    assert phone.driver.get_log("browser") == []


def test_measures_stay_in_the_reference_frame_and_landmarks_in_both(page: Page) -> None:
    point_at(page, LANDMARK)
    page.key("a")
    page.key("l")
    page.key("L")
    page.settle()
    assert page.data("reference", "marks") == "region 1; landmark 1"
    assert page.data("prior", "marks") == "landmark 1"
    text = page.script(MEASURES)
    assert "Landmark 1: 0.0 mm" in text
    assert "inside the ellipsoid of 90 %" in text
    _, _, width, height = page.box("prior")
    page.key("l")
    page.set("Left drag", "landmark")
    page.click("prior", width / 2 + 60, height / 2 + 40)
    text = page.script(MEASURES)
    assert "outside the ellipsoid of 90 %" in text
    page.set("Left drag", "ruler")
    _, _, width, height = page.box("prior")
    page.drag("prior", (width / 2, height / 2), (width / 2 + 30, height / 2), "left")
    assert "Ruler" not in page.script(MEASURES)
    assert page.driver.get_log("browser") == []


def test_no_landmark_is_set_where_the_motion_leads_nowhere(driver: Any, tmp_path: Path) -> None:
    field = DisplacementField(GRID)
    # A mirror image: no tissue comes to lie so.
    displacement_mm = centers_mm(GRID).movedim(-1, 0) * torch.tensor([-2.0, 0.0, 0.0])[:, None, None, None]
    mirrored = Motion(field, field.params(displacement_mm=displacement_mm))
    opened = Page(driver, write_page(save(tmp_path, made(mirrored))))
    opened.key("o")
    opened.settle()
    assert "the motion leads nowhere" in opened.script(READOUT, "reference")
    opened.key("L")
    opened.settle()
    assert "Landmark" not in opened.script(MEASURES)
    # The next pair is whole: no half of it waits that was set nowhere.
    opened.key("l")
    opened.settle()
    assert "Landmark 1: mark it in the other visit too" in opened.script(MEASURES)
    assert opened.driver.get_log("browser") == []


def test_beside_a_line_is_outside_of_it(driver: Any, tmp_path: Path) -> None:
    still = Translation(GRID)
    known = made(Motion(still, still.identity()), deviations_mm=(0.0, 0.0, 1.1))
    opened = Page(driver, write_page(save(tmp_path, known)))
    opened.key("o")
    point_at(opened, LANDMARK)
    opened.key("l")
    opened.key("L")
    opened.settle()
    assert "inside the ellipsoid of 90 %" in opened.script(MEASURES)
    _, _, width, height = opened.box("prior")
    opened.set("Left drag", "landmark")
    opened.key("l")
    opened.click("prior", width / 2 + 60, height / 2 + 40)
    assert "outside the ellipsoid of 90 %" in opened.script(MEASURES)
    assert opened.driver.get_log("browser") == []


def test_two_compressions_open_each_in_its_own_frame(driver: Any, tmp_path: Path) -> None:
    transform = Recompression(OWN, compressions(OWN, expected_mm=3.0))
    folder = save(tmp_path, made(Motion(transform, transform.identity())))
    opened = Page(driver, write_page(folder))
    opened.settle()
    assert opened.script(TITLE) == "Visit 2, own frame"
    assert is_two_views(read_result(folder))
    assert opened.driver.get_log("browser") == []
