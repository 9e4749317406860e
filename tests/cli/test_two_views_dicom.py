"""`duotomo joint cc.dcm mlo.dcm`: what DICOM says of two views is read, and what does not suit is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pydicom
import pytest
import torch

from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.io import SavedResult, read_result
from duotomo.io.dicom import write_dicom_projections
from duotomo.io.scan import Scan, Values
from duotomo.mechanics import BetweenViews, between_views
from duotomo.methods import uncertainty
from duotomo.transforms.compressions import Compressions
from tests.cases.transforms import compressions
from tests.cli.commands import NOT_TRUSTED, THICKNESS_MM, Ran, duotomo
from tests.cli.patients import patient
from tests.cli.tiny import tiny_study

QUICK = ("--steps", 1, "--quiet", "--no-uncertainty", "--voxel", "6,6,6")


@pytest.fixture(autouse=True)
def without_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let modes do what random numbers say: nothing is computed by finite elements."""

    def computed(model: BetweenViews, grid: VolumeGrid) -> Compressions:
        return compressions(grid, expected_mm=0.5)

    monkeypatch.setattr(between_views, "_computed", computed)
    monkeypatch.setattr("duotomo.methods.two_views.radii_at_rest_mm", lambda held, seen: (20.0, 30.0, 20.0))


def write_views(
    folder: Path,
    *,
    first_side: str = "R",
    side: str = "R",
    gantry_deg: float | None = 45.0,
    thickness_mm: float | None = THICKNESS_MM,
    crop: Callable[[Scan], Scan] = lambda scan: scan,
    change: Callable[[Any], None] | None = None,
    facts: tuple[str, ...] = ("laterality", "view"),
    **other: str,
) -> list[Path]:
    """Write a CC and an MLO of one patient; in the second file something may be missing, or another."""
    paths = [folder / "cc.dcm", folder / "mlo.dcm"]
    seen = [
        ({"laterality": first_side, "view": "CC"}, 0.0),
        ({"laterality": side, "view": "MLO"}, gantry_deg),
    ]
    whose = [patient(), patient(**other)]
    for path, visit, (said, angle), who in zip(paths, tiny_study().visits, seen, whose, strict=True):
        scan = Scan(
            projections=visit.projections,
            values=Values.LINE_INTEGRALS,
            acquisition=visit.acquisition,
            facts={name: value for name, value in said.items() if name in facts or path == paths[0]},
            thickness_mm=thickness_mm if path == paths[1] else THICKNESS_MM,
            gantry_deg=angle,
        )
        write_dicom_projections(path, crop(scan) if path == paths[1] else scan, identity=who)
    if change is not None:
        dataset = pydicom.dcmread(paths[1])
        change(dataset)
        dataset.save_as(paths[1])
    return paths


def joint(folder: Path, *words: object, **given: Any) -> Ran:
    return duotomo("joint", *write_views(folder, **given), *QUICK, *words, "--out", folder / "out")


def result(folder: Path) -> Any:
    return json.loads((folder / "out" / "result.json").read_text())


@pytest.mark.parametrize(("side", "roll_deg"), [("R", 45.0), ("L", -52.5)])
def test_the_roll_is_that_of_the_headers(side: str, roll_deg: float, tmp_path: Path) -> None:
    ran = joint(tmp_path, first_side=side, side=side, gantry_deg=-roll_deg, thickness_mm=47.0)
    assert ran.code == NOT_TRUSTED, ran.err
    index = result(tmp_path)
    first = index["settings"]["settings"]["stages"][0]["model"]
    assert first["transform"] == "recompression"
    assert first["moving"]["roll_deg"] == pytest.approx(roll_deg)
    # Plates stand where the header says, whatever the voxels.
    assert [first[view]["thickness_mm"] for view in ("reference", "moving")] == [THICKNESS_MM, 47.0]
    # Two views are meant to differ: nothing is said against them.
    assert index["settings"]["agreement"]["conflicts"] == []
    page = (tmp_path / "out" / "report.html").read_text()
    assert '<p class="alarm">' not in page
    # Nothing of a result that is not trusted is fused; the page says so.
    assert index["quality"]["fused"]["reason"] == "The result is not trusted."
    assert "The fused volume is that of visit 1 alone. The result is not trusted." in page
    saved = read_result(tmp_path / "out")
    assert torch.equal(saved.others["fused"], saved.others["visit_1"])
    assert saved.fused_mask is not None
    assert not bool(saved.fused_mask.any())


def test_a_roll_that_is_given_counts_and_the_header_may_then_be_silent(tmp_path: Path) -> None:
    ran = joint(tmp_path, "--roll", 40, "--transform", "recompression", gantry_deg=None)
    assert ran.code == NOT_TRUSTED, ran.err
    assert result(tmp_path)["settings"]["settings"]["stages"][0]["model"]["moving"]["roll_deg"] == 40


def implant(dataset: Any) -> None:
    dataset.BreastImplantPresent = "YES"


def without_angle(dataset: Any) -> None:
    for frame in dataset.PerFrameFunctionalGroupsSequence:
        del frame.PositionerPositionSequence
        del frame.IsocenterReferenceSystemSequence


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"change": without_angle},
            "from which follows how far the breast is turned between two views; got no Positioner Primary "
            "Angle (0018,1510) in visit 2. Give --roll 45",
        ),
        ({"gantry_deg": 2.0}, "within 40 degrees of 45 in MLO; got 2 in visit 2. Give --roll 45"),
        ({"gantry_deg": None}, "within 40 degrees of 45 in MLO; got 0 in visit 2. Give --roll 45"),
        ({"side": "L"}, "got different sides: visit 1 and visit 2 differ in Image Laterality (0020,0062)"),
        ({"PatientID": "PID-4712"}, "got different patients: visit 1 and visit 2 differ in Patient ID"),
        ({"change": implant}, "got Breast Implant Present (0028,1300) YES in visit 2. Reconstruct each view"),
        (
            {"thickness_mm": None},
            "expected the thickness of the compressed breast; got none in the file of visit 2. Pass it in "
            "mm: --thickness 50",
        ),
    ],
)
def test_what_two_views_lack_is_named_before_anything_is_computed(
    given: dict[str, Any], said: str, tmp_path: Path
) -> None:
    ran = joint(tmp_path, **given)
    assert ran.code == 2
    assert said in " ".join(ran.err.split())
    assert not (tmp_path / "out").exists()
    info = duotomo("info", *sorted(tmp_path.glob("*.dcm")))
    # What `info` says is what `joint` would say, but for the implant, which is no fault of a file.
    if "implant" not in str(given.get("change")):
        assert info.code == 2
        assert said in " ".join((info.out + info.err).split())


@pytest.mark.parametrize("words", [("--transform", "recompression"), ("--roll", 45)])
def test_three_views_are_too_many(words: tuple[object, ...], tmp_path: Path) -> None:
    files = write_views(tmp_path)
    ran = duotomo(
        *("joint", *files, files[1], *QUICK, "--allow-same-scan", *words, "--out", tmp_path / "out")
    )
    assert ran.code == 2
    assert "expected two visits, one for each view; got 3. Take the views two by two." in ran.err
    assert not (tmp_path / "out").exists()


def test_views_that_differ_are_still_refused_where_another_model_is_asked_for(tmp_path: Path) -> None:
    ran = joint(tmp_path, "--transform", "affine")
    assert ran.code == 2
    assert "got different views" in ran.err


@pytest.mark.parametrize("command", [("change",), ("joint", "--change")])
def test_views_that_differ_are_still_refused_where_changes_are_asked_for(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    ran = duotomo(*command, *write_views(tmp_path), *QUICK, "--out", tmp_path / "out")
    assert ran.code == 2
    assert "got different views" in ran.err
    assert not (tmp_path / "out").exists()


def test_views_without_a_view_need_a_roll(tmp_path: Path) -> None:
    ran = joint(tmp_path, "--transform", "recompression", facts=("laterality",), change=without_view)
    assert ran.code == 2
    assert "got no View Code Sequence (0054,0220) in visit 2. Give --roll 45" in " ".join(ran.err.split())


def without_view(dataset: Any) -> None:
    del dataset.ViewCodeSequence
    # Nobody can tell from which side then, but the private block has the geometry.
    del dataset.PatientOrientation


def cropped(scan: Scan) -> Scan:
    """Return a scan of a detector whose rows at one side are missing, through the breast."""
    n_u = scan.acquisition.detector_shape[1]
    half = n_u // 2
    d_u = scan.acquisition.pixel_spacing_mm[1]
    acquisition = scan.acquisition
    moved = acquisition.detector_centers_mm + (n_u - half) / 2 * d_u * acquisition.u_axes
    narrower: Acquisition = replace(
        acquisition,
        detector_center_mm=moved.tolist(),
        detector_shape=(acquisition.detector_shape[0], half),
    )
    return replace(scan, projections=scan.projections[:, :, n_u - half :], acquisition=narrower)


def test_a_breast_that_the_detector_cuts_off_is_not_trusted(tmp_path: Path) -> None:
    ran = joint(tmp_path, crop=cropped)
    assert ran.code == NOT_TRUSTED, ran.err
    said = result(tmp_path)["quality"]["trust"]
    (check,) = (
        one for one in said["checks"] if one["name"] == "breast within the detector" and not one["passed"]
    )
    assert "Visit 2: the breast is cut off by the detector's edge at -x" in said["reason"]
    assert check["remedy"].startswith("Take views that show the breast from side to side")
    assert "cut off by the detector's edge" in " ".join(ran.err.split())


def test_a_whole_breast_passes_that_check(tmp_path: Path) -> None:
    joint(tmp_path)
    checks = result(tmp_path)["quality"]["trust"]["checks"]
    assert [one["passed"] for one in checks if one["name"] == "breast within the detector"] == [True, True]


def trusted(tmp_path: Path) -> SavedResult:
    """Return the result of a pair of views that passes all checks."""
    words = ("--transform", "recompression", "--steps", 400, "--quiet", "--voxel", "6,6,6", "--uncertainty")
    ran = duotomo("joint", *write_views(tmp_path), *words, "--out", tmp_path / "out")
    assert ran.code == 0, ran.err
    return read_result(tmp_path / "out")


def test_a_trusted_pair_of_views_has_ellipsoids_and_a_fused_volume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # This breast is what the model of compressions takes it for; no real one is.
    monkeypatch.setattr(uncertainty, "COMPRESSED_MM", 0.1)
    saved = trusted(tmp_path)
    (known,) = saved.saved_uncertainties
    assert known.covariance_mm2 is not None
    assert saved.fused_mask is not None
    share = saved.quality["fused"]["share"]
    assert 0 < share <= 1
    mask = saved.fused_mask
    assert torch.equal(saved.others["fused"][mask], saved.volume[mask])
    assert torch.equal(saved.others["fused"][~mask], saved.others["visit_1"][~mask])
    page = (tmp_path / "out" / "report.html").read_text()
    assert '"linked": true' in page
    assert '"ellipsoidBack": "ellipsoidBack-0"' in page
    assert "The fused volume is from both views in" in page


def test_what_mechanics_leaves_is_too_much_for_a_fused_volume(tmp_path: Path) -> None:
    saved = trusted(tmp_path)
    (known,) = saved.saved_uncertainties
    assert known.covariance_mm2 is not None
    variances = known.covariance_mm2.diagonal(dim1=-2, dim2=-1)
    assert float(variances.nan_to_num(nan=9.0).min()) >= uncertainty.COMPRESSED_MM**2
    assert saved.quality["fused"]["share"] == 0
    assert saved.quality["fused"]["reason"] == "The motion is nowhere predicted to be right to 1 mm."
