"""Cases of two views: the tissue is the same in both, and what was scanned is what lies there."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import calculix, two_view_cases, two_view_scan, two_view_squeeze
from benchmarks.calculix import Load, Solved
from benchmarks.change_anatomies import ANATOMIES, FAT, GLAND, MASS, WALL_MM
from benchmarks.hexahedra import Floats, Hexahedra, half_ball
from benchmarks.peers.available import Available
from benchmarks.peers.rtk import available
from benchmarks.two_view_bodies import MUSCLE, RestBody, _near, _star, _with_parts, bodies, make_body
from benchmarks.two_view_case import TwoViewCase
from benchmarks.two_view_cases import Scale, Scanning, case_of, line, prepare, squeezes
from benchmarks.two_view_squeeze import leaned, press, shear_kpa, turned
from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.geometry.frame import voxel_centers_mm
from duotomo.operators import Projector

# Raised while ITK's extension modules are loaded; as an error it would end the process.
pytestmark = pytest.mark.filterwarnings(
    "ignore:builtin type .* has no __module__ attribute:DeprecationWarning"
)

RADII = np.array([36.0, 44.0, 30.0])
CENTER = np.array([0.0, -WALL_MM, 0.0])
LESIONS = np.array([[8.0, 14.0, 2.0], [-10.0, 10.0, 6.0]])
SCALE = Scale(scanning=Scanning(voxel_mm=4.0), n_core=2, n_layers=1)


def small_body(side: str = "R") -> RestBody:
    """Return a half ellipsoid of fat with a ball of gland and two lesions in it, which hangs by 5 mm."""
    grid = VolumeGrid(shape=(64, 46, 76), spacing_mm=(1.0,) * 3, center_mm=(0.0, 11.0, 0.0))
    points = voxel_centers_mm(grid)
    rest = FAT * (np.linalg.norm((points - CENTER) / RADII, axis=-1) < 1) * (points[..., 1] > -WALL_MM)
    rest[np.linalg.norm(points - (0.0, 8.0, 0.0), axis=-1) < 20] = GLAND - 0.01
    for middle in LESIONS:
        rest[np.linalg.norm(points - middle, axis=-1) < 5] = 0.12

    def place(q: Floats) -> Floats:
        placed: Floats = CENTER + RADII * q - np.array([0.0, 0.0, 5.0]) * q[:, 1:2] ** 2
        return placed

    return RestBody(
        name="small",
        side=side,
        density="scattered",
        split="development",
        place=place,
        anatomy=lambda q: CENTER + RADII * q,
        rest=rest,
        grid=grid,
        nipple_mm=CENTER + np.array([0.0, RADII[1], 0.0]),
        lesions_mm=LESIONS,
        lesion_sizes_mm=np.full(2, 10.0),
        muscle=lambda points_mm: np.zeros(points_mm.shape[:-1]),
    )


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> TwoViewCase:
    if calculix.installed() is None:
        pytest.skip("CalculiX (ccx) is not installed")
    if not available():
        pytest.skip(str(available()))
    folder = tmp_path_factory.mktemp("two_view") / "case_00"
    case_of(small_body(), SCALE).write(folder)
    return TwoViewCase.read(folder)


def test_each_view_is_a_scan_of_its_volume(case: TwoViewCase) -> None:
    assert case.study.visits[1].grid == case.mlo.grid
    for visit, truth in zip(case.study.visits, (case.cc, case.mlo), strict=True):
        projector = Projector(grid=truth.grid, acquisition=visit.acquisition)
        expected = projector(torch.from_numpy(truth.volume))
        error = (visit.projections - expected).square().sum() / expected.square().sum()
        assert float(error) < 0.01


def test_the_oblique_frame_is_carried_into_the_craniocaudal_one(case: TwoViewCase) -> None:
    cc, mlo = case.cc, case.mlo
    assert len(cc.landmarks_mm) == len(mlo.landmarks_mm) == 300
    for there, here in (
        (mlo.landmarks_mm, cc.landmarks_mm),
        (mlo.lesions_mm, cc.lesions_mm),
        (mlo.nipple_mm[None], cc.nipple_mm[None]),
    ):
        assert case.to_reference(there) == pytest.approx(here, abs=0.01)


def test_lesions_lie_where_the_volumes_have_them(case: TwoViewCase) -> None:
    for truth in (case.cc, case.mlo):
        points = voxel_centers_mm(truth.grid)
        for middle in truth.lesions_mm:
            near = np.linalg.norm(points - middle, axis=-1) < 3
            assert truth.volume[near].mean() > 0.09
        assert truth.volume.max() < 0.13


def test_the_plates_hold_the_breast_and_little_of_it_is_lost(case: TwoViewCase) -> None:
    for truth in (case.cc, case.mlo):
        z = truth.nodes_mm[:, 2]
        low, high = two_view_cases.SUPPORT_MM, two_view_cases.SUPPORT_MM + truth.thickness_mm
        assert low - 1.5 < z.min()
        assert z.max() < high + 1.5
    assert np.abs(case.about["volume_change"]).max() < 0.03
    assert case.about["least_jacobian"] > 0
    assert "small R scattered development" in line(case)


def test_a_case_that_is_there_is_kept_and_one_that_fails_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "case_03").mkdir()
    (tmp_path / "case_03" / "case.json").write_text("{}")
    item = 3, ("fatty1", "R")
    assert prepare(item, out=tmp_path, breast_mr=None, scale=SCALE) == "case_03 fatty1: there"

    def fails(*arguments: object, **options: object) -> TwoViewCase:
        raise DuotomoError("plates")

    monkeypatch.setattr(two_view_cases, "make", fails)
    said = prepare((4, ("fatty1", "R")), out=tmp_path, breast_mr=None, scale=SCALE)
    assert said == "case_04 fatty1: left out: plates"
    assert not (tmp_path / "case_04").exists()


def test_a_case_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(DuotomoError, match=r"expected case\.json in .*; it is not there"):
        TwoViewCase.read(tmp_path)


def test_a_scan_needs_rtk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(two_view_scan, "available", lambda: Available("RTK is away"))
    with pytest.raises(DuotomoError, match="expected RTK to project with; RTK is away"):
        two_view_scan.scan(small_body(), None, 5.0, Scanning(), np.random.default_rng(0))  # type: ignore[arg-type]


def test_the_oblique_machine_looks_from_the_inner_side_down() -> None:
    # x to the patient's right, z up: the inner side of the right breast is at -x.
    for side, inner in (("R", -1.0), ("L", 1.0)):
        _, mlo = squeezes(small_body(side), np.random.default_rng(0))
        source = turned(np.array([[inner, 0.0, 1.0]]), mlo.roll_rad)[0]
        # It is above the middle of the detector, give or take the angle's distance from 45 degrees.
        assert source[2] > 1.4
        assert abs(source[0]) < 0.13
        # And what points to the armpit runs along the detector.
        armpit = turned(np.array([[-inner, 0.0, 1.0]]), mlo.roll_rad)[0]
        assert abs(armpit[0]) > 1.4


def test_a_turn_keeps_lengths_and_the_axis_to_the_nipple() -> None:
    points = np.random.default_rng(0).normal(size=(20, 3))
    assert turned(turned(points, 0.7), -0.7) == pytest.approx(points)
    assert turned(points, 0.7)[:, 1] == pytest.approx(points[:, 1])
    assert turned(np.array([[0.0, 0.0, 1.0]]), math.pi / 2) == pytest.approx(np.array([[1.0, 0.0, 0.0]]))


def test_gland_and_muscle_make_elements_stiff() -> None:
    body = small_body()
    cc, _ = squeezes(body, np.random.default_rng(0))
    mesh = half_ball(body.place, n_core=4, n_layers=2)
    frame = half_ball(body.anatomy, n_core=4, n_layers=2).nodes_mm
    shear = shear_kpa(mesh, frame, body, cc)
    middles = mesh.middles_mm()
    deep = np.linalg.norm(middles - (0, 8, 0), axis=1) < 8
    rim = np.linalg.norm(middles - (0, 8, 0), axis=1) > 28
    assert shear[rim] == pytest.approx(cc.fat_kpa)
    assert shear[deep].min() > 1.3 * cc.fat_kpa


def test_a_lean_is_linear_along_x_and_z() -> None:
    mesh = half_ball(lambda q: q * RADII, n_core=2, n_layers=1)
    wall = mesh.nodes_mm[mesh.wall]
    assert leaned(mesh, (3.0, -2.0, 0.0)) == pytest.approx(3 * wall[:, 0] / 36 - 2 * wall[:, 2] / 30)


def test_breasts_of_all_densities_come_first_and_in_both_splits() -> None:
    names = bodies(None)
    assert len(names) == len({name for name, _ in names}) == 16
    assert {side for _, side in names} == {"R", "L"}
    assert [name[:-1] for name, _ in names[:4]] == ["fatty", "scattered", "heterogeneous", "dense"]


@pytest.mark.parametrize(("side", "outwards"), [("R", 1.0), ("L", -1.0)])
def test_muscle_and_lesions_are_where_they_belong(side: str, outwards: float) -> None:
    plain = small_body(side)
    points = voxel_centers_mm(plain.grid)
    mixed = np.where(plain.rest > 0, np.where(np.sin(points.sum(axis=-1) / 4) > 0, GLAND, FAT), 0.0)
    body = _with_parts(
        np.random.default_rng(0),
        name="small",
        side=side,
        anatomy=next(one for one in ANATOMIES if one.name == "fatty1"),
        place=plain.place,
        frame=plain.anatomy,
        rest=mixed,
        grid=plain.grid,
        nipple=plain.nipple_mm,
        radii=RADII,
    )
    assert len(body.lesions_mm) == len(body.lesion_sizes_mm) > 0
    assert body.value_at(body.lesions_mm) == pytest.approx(MASS, rel=0.02)
    # The muscle lies towards the armpit, above and outside.
    armpit = np.array([[18.0 * outwards, -WALL_MM + 1.5, 18.0]])
    assert body.muscle(armpit) == 1
    assert body.muscle(armpit * (-1, 1, 1)) == 0
    assert body.value_at(armpit) == pytest.approx(MUSCLE, rel=0.02)
    assert body.rest[plain.rest == 0].max() == 0


def test_womens_breasts_need_their_folder() -> None:
    with pytest.raises(FileNotFoundError, match="no folder of images for AR"):
        make_body("AR", "R", None)


def test_a_womans_images_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no A_\*\.nii\.gz"):
        make_body("AR", "R", tmp_path)


def test_the_outline_of_voxels_is_that_of_the_body() -> None:
    body = small_body()
    outline = _star(body.rest > 0, body.grid)
    assert outline.center_mm == pytest.approx(CENTER, abs=0.6)
    ways = np.array([[0.0, 1.0, 0.0], [1.0, 0.2, 0.0], [0.0, 0.2, -1.0]])
    true = np.linalg.norm(ways, axis=1) / np.linalg.norm(ways / RADII, axis=1)
    assert outline.reach_mm(ways) == pytest.approx(true, rel=0.06)
    near = _near(outline, body.grid)
    assert (near[body.rest > 0] == 1).mean() > 0.99
    assert near[0, 0, 0] == 0


def test_what_does_not_close_is_tried_in_smaller_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def fails(mesh: Hexahedra, load: Load, folder: Path) -> Solved:
        asked.append(load.n_increments)
        if len(asked) < 3:
            raise DuotomoError("expected the plates to close")
        return Solved(moved_mm=mesh.nodes_mm, seconds=0.0, n_increments=1, n_iterations=1)

    monkeypatch.setattr(two_view_squeeze, "solve", fails)
    body = small_body()
    cc, _ = squeezes(body, np.random.default_rng(0))
    pressed, _ = press(body, cc, tmp_path, n_core=2, n_layers=1)
    assert asked == [14, 28, 50]
    # Nothing moved but where the breast lies, and that it hangs.
    shift = pressed.moved_mm - pressed.rest_mm
    assert shift[:, 0] == pytest.approx(cc.shift_mm[0])
    assert pressed.least_jacobian == pytest.approx(1, abs=0.3)
    monkeypatch.setattr(two_view_squeeze, "_TRIES", (14,))
    asked.clear()
    with pytest.raises(DuotomoError, match="expected the plates to close"):
        press(body, cc, tmp_path, n_core=2, n_layers=1)


def test_the_command_says_what_is_missing_and_lists_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(calculix, "PROGRAM", "no_such_ccx")
    monkeypatch.setattr(sys, "argv", ["two_view_cases", "prepare", str(tmp_path / "out")])
    with pytest.raises(SystemExit, match=r"the program no_such_ccx \(CalculiX\) is not installed"):
        two_view_cases.main()
    (tmp_path / "case_01").mkdir()
    about = {"name": "fatty2", "side": "L", "density": "fatty", "split": "judged"}
    (tmp_path / "case_01" / "case.json").write_text(json.dumps(about))
    monkeypatch.setattr(sys, "argv", ["two_view_cases", "list", str(tmp_path)])
    two_view_cases.main()
    assert capsys.readouterr().out == "case_01 fatty2 L fatty judged\n"
