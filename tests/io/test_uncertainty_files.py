"""How sure a motion is comes back from a result folder; what is not known says why; damage is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
import SimpleITK as sitk
import torch

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.io import FileError, SavedUncertainty, read_result, write_result
from duotomo.io.result_index import entry_of
from duotomo.methods import MotionUncertainty, Result, summaries_of
from duotomo.methods.motion_prior import MotionPrior
from duotomo.transforms import Affine, BSpline, Motion, Translation
from tests.io.saved_helpers import GRID, SEEN, converged, draw, edited_index, result

FILE, MAP = "visit_2_uncertainty.json", "visit_2_uncertainty.nii.gz"


def shifted(*deviations: float) -> MotionUncertainty:
    """Return that of a shift whose components are off by so many voxels, independently."""
    shift = Translation(GRID)
    core = torch.diag(torch.tensor(deviations, dtype=torch.float64).square())
    motion = Motion(shift, shift.params(translation_mm=(0.1, 0.0, 0.0)))
    return MotionUncertainty(
        motion=motion, form="sandwich", modes=torch.eye(3, dtype=torch.float64), core=core
    )


def bent() -> MotionUncertainty:
    """Return that of control points of which the data determine a few directions."""
    spline = BSpline.over(SEEN, (4, 5, 4))
    prior = MotionPrior(spline, None)
    modes = draw(spline.n_params, 5, seed=1, dtype=torch.float64)
    eye = torch.eye(5, dtype=torch.float64)
    motion = Motion(spline, spline.identity())
    learnt = 0.5 * eye
    return MotionUncertainty(
        motion=motion, form="sandwich", modes=modes, core=0.1 * eye, prior=prior, learnt=learnt
    )


def found_with(*uncertainties: MotionUncertainty) -> Result:
    volume = draw(*GRID.shape, seed=0)
    motions = tuple(one.motion for one in uncertainties)
    return converged(grid=GRID, volume=volume, motions=motions, uncertainties=uncertainties)


def saved(folder: Path, *uncertainties: MotionUncertainty) -> tuple[SavedUncertainty, ...]:
    grids = (GRID, SEEN)[: len(uncertainties)]
    write_result(folder, found_with(*uncertainties), moving_grids=grids, settings={})
    return read_result(folder).saved_uncertainties


def same_place(found: VolumeGrid | None, expected: VolumeGrid) -> bool:
    return (
        found is not None
        and found.shape == expected.shape
        and found.spacing_mm == expected.spacing_mm
        and found.center_mm == pytest.approx(expected.center_mm)
    )


def test_few_parameters_come_back(tmp_path: Path) -> None:
    known = shifted(1.0, 2.0, 3.0)
    (found,) = saved(tmp_path, known)
    assert same_place(found.grid, GRID)
    assert found.map_mm is not None
    torch.testing.assert_close(found.map_mm, known.map_mm(GRID), atol=1e-5, rtol=0)
    summary = found.summary
    assert (summary.model, summary.form, summary.n_params, summary.reason) == (
        "Translation",
        "sandwich",
        3,
        "",
    )
    assert summary.covariance is not None
    assert torch.equal(summary.covariance, known.covariance())
    (expected,) = summaries_of(found_with(known), (GRID,))
    assert summary.to_dict() == expected.to_dict()
    x, y, z = known.deviation_mm(torch.zeros(1, 3))[0].tolist()
    assert summary.in_plane is not None
    assert summary.in_depth is not None
    assert summary.in_plane.median_mm == pytest.approx(np.sqrt((x**2 + y**2) / 2))
    assert summary.in_depth.upper_mm == pytest.approx(z)
    assert summary.determined == 1
    assert summary.least_determined[0].words == "shift along depth"
    assert summary.words in (tmp_path / "README.txt").read_text()


def test_other_programs_read_the_map(tmp_path: Path) -> None:
    known = shifted(1.0, 2.0, 3.0)
    saved(tmp_path, known)
    expected = known.deviation_mm(torch.zeros(1, 3))[0].numpy()
    image = nibabel.load(tmp_path / MAP)
    assert image.shape == (*GRID.shape[::-1], 1, 3)
    assert image.get_data_dtype() == np.float32
    np.testing.assert_allclose(image.get_fdata()[2, 3, 1, 0], expected, rtol=1e-5)
    # ITK does not turn a vector of this intent: deviations stay positive.
    itk = sitk.ReadImage(str(tmp_path / MAP))
    np.testing.assert_allclose(itk.GetPixel(2, 3, 1), expected, rtol=1e-5)


def test_control_points_have_modes_and_places_that_nothing_determines(tmp_path: Path) -> None:
    first, second = saved(tmp_path, shifted(1.0, 1.0, 1.0), bent())
    assert first.summary.covariance is not None
    summary = second.summary
    assert (summary.model, summary.n_params, summary.n_modes) == ("BSpline", 240, 5)
    assert summary.covariance is None
    assert same_place(second.grid, SEEN)
    assert second.map_mm is not None
    assert bool(second.map_mm.isnan().all())
    assert (summary.determined, summary.in_plane, summary.in_depth) == (0, None, None)
    assert summary.words == "the data determine the motion nowhere in the breast"


def test_what_is_not_known_says_why(tmp_path: Path) -> None:
    affine = Affine(GRID)
    unknown = MotionUncertainty.none(Motion(affine, affine.identity()), "The run did not converge.")
    (found,) = saved(tmp_path, unknown)
    assert found.map_mm is None
    assert not (tmp_path / MAP).exists()
    assert found.summary.reason == "The run did not converge."
    content = json.loads((tmp_path / FILE).read_text())
    assert content["covariance"] is None
    assert content["in_plane"] is None
    assert content["least_determined"] == []


def test_summaries_that_are_known_are_not_made_again(tmp_path: Path) -> None:
    of = found_with(shifted(1.0, 2.0, 3.0))
    (made,) = summaries_of(of, (GRID,))
    given = replace(made, determined=0.25)
    write_result(tmp_path, of, moving_grids=(GRID,), settings={}, summaries=(given,))
    (found,) = read_result(tmp_path).saved_uncertainties
    assert found.summary.to_dict() == given.to_dict()


def test_summaries_of_something_else_are_refused(tmp_path: Path) -> None:
    (made,) = summaries_of(found_with(shifted(1.0, 2.0, 3.0)), (GRID,))
    with pytest.raises(DuotomoError, match="write_result: expected summaries of 0 uncertainties; got 1"):
        write_result(tmp_path, result(), moving_grids=(GRID, SEEN), settings={}, summaries=(made,))


def test_a_folder_without_them_reads_as_before(tmp_path: Path) -> None:
    write_result(tmp_path, result(), moving_grids=(GRID, SEEN), settings={})
    assert read_result(tmp_path).saved_uncertainties == ()
    assert not any("uncertainty" in one.name for one in tmp_path.iterdir())


def test_a_new_result_without_them_removes_older_ones(tmp_path: Path) -> None:
    saved(tmp_path, shifted(1.0, 1.0, 1.0))
    write_result(
        tmp_path,
        replace(found_with(shifted(1.0, 1.0, 1.0)), uncertainties=()),
        moving_grids=(GRID,),
        settings={},
    )
    assert not any("uncertainty" in one.name for one in tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c | {"determined": 2.0}, r"got determined.*less than or equal to 1"),
        (lambda c: c | {"covariance": [[1.0]]}, "a covariance of 3 rows and columns"),
        (lambda c: c | {"in_plane": {"median_mm": -1.0, "upper_mm": 1.0}}, r"in_plane\.median_mm"),
        (lambda c: {"format": "other"}, "expected JSON as it was written"),
    ],
)
def test_a_summary_that_was_edited_is_refused(
    change: Callable[[Any], Any], message: str, tmp_path: Path
) -> None:
    saved(tmp_path, shifted(1.0, 1.0, 1.0))
    content = json.loads((tmp_path / FILE).read_text())
    (tmp_path / FILE).write_text(json.dumps(change(content)))
    with pytest.raises(FileError, match=f"expected {FILE} as it was written"):
        read_result(tmp_path)
    resealed(tmp_path, FILE)
    with pytest.raises(FileError, match=rf"(?s)read_uncertainty: .*{FILE}: .*{message}"):
        read_result(tmp_path)


def test_what_is_no_json_is_refused(tmp_path: Path) -> None:
    saved(tmp_path, shifted(1.0, 1.0, 1.0))
    (tmp_path / FILE).write_text("{")
    resealed(tmp_path, FILE)
    with pytest.raises(FileError, match=rf"{FILE}: expected JSON as write_result wrote it; got: "):
        read_result(tmp_path)
    (tmp_path / FILE).write_text(" " * 2**23)
    resealed(tmp_path, FILE)
    with pytest.raises(FileError, match="a file of more than"):
        read_result(tmp_path)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.full((5, 6, 4, 1, 3), -1.0), "expected standard deviations between 0 and 1e\\+06 mm; got others"),
        (np.ones((5, 6, 4)), r"expected \(x, y, z, 1, 3\) standard deviations; got \(5, 6, 4\)"),
    ],
)
def test_a_map_of_something_else_is_refused(values: Any, message: str, tmp_path: Path) -> None:
    saved(tmp_path, shifted(1.0, 1.0, 1.0))
    affine = nibabel.load(tmp_path / MAP).affine
    nibabel.Nifti1Image(values.astype(np.float32), affine).to_filename(tmp_path / MAP)
    resealed(tmp_path, MAP)
    with pytest.raises(FileError, match=rf"{MAP}: {message}"):
        read_result(tmp_path)


def resealed(folder: Path, file: str) -> None:
    """Let the index name a file that was changed as it is now."""
    edited_index(folder, lambda c: c | {"files": c["files"] | {file: entry_of("any", folder / file)}})


COVARIANCE = "visit_2_covariance.nii.gz"


def tilted() -> MotionUncertainty:
    """Return that of a shift whose components are off together."""
    shift = Translation(GRID)
    modes = torch.tensor([[1.0, 0.5, 0.0], [0.0, 2.0, 0.3], [0.2, 0.0, 1.5]], dtype=torch.float64)
    eye = torch.eye(3, dtype=torch.float64)
    return MotionUncertainty(motion=Motion(shift, shift.identity()), form="sandwich", modes=modes, core=eye)


def test_covariances_come_back_and_other_programs_read_them(tmp_path: Path) -> None:
    known = tilted()
    (found,) = saved(tmp_path, known)
    assert found.covariance_mm2 is not None
    assert found.coarse is not None
    expected = known.covariance_mm2(torch.zeros(1, 3))[0]
    assert found.covariance_mm2.shape == (*found.coarse.shape, 3, 3)
    torch.testing.assert_close(
        found.covariance_mm2, expected.expand_as(found.covariance_mm2), rtol=1e-5, atol=1e-6
    )
    image = nibabel.load(tmp_path / COVARIANCE)
    assert image.header.get_intent()[0] == "symmetric matrix"
    x, y, z = expected.tolist()
    np.testing.assert_allclose(image.get_fdata()[0, 0, 0, 0], [x[0], y[0], y[1], z[0], z[1], z[2]], rtol=1e-5)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.full((2, 2, 2, 1, 6), -1.0), "expected covariances up to 1e\\+12 mm\\^2"),
        (np.ones((2, 2, 2, 1, 3)), r"expected \(x, y, z, 1, 6\) covariances; got \(2, 2, 2, 1, 3\)"),
    ],
)
def test_covariances_of_something_else_are_refused(values: Any, message: str, tmp_path: Path) -> None:
    saved(tmp_path, tilted())
    affine = nibabel.load(tmp_path / COVARIANCE).affine
    nibabel.Nifti1Image(values.astype(np.float32), affine).to_filename(tmp_path / COVARIANCE)
    resealed(tmp_path, COVARIANCE)
    with pytest.raises(FileError, match=rf"read_uncertainty: .*{COVARIANCE}: {message}"):
        read_result(tmp_path)


def test_a_folder_without_covariances_reads_as_before(tmp_path: Path) -> None:
    saved(tmp_path, tilted())
    edited_index(tmp_path, lambda index: index["motions"][0]["uncertainty"].pop("covariance") and index)
    (found,) = read_result(tmp_path).saved_uncertainties
    assert found.map_mm is not None
    assert found.covariance_mm2 is None
