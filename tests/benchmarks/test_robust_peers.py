"""Rows and medians of other programs say what happened, failures included; jobs carry start and direction."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy.ndimage import map_coordinates

from benchmarks.peers import known_pair
from benchmarks.peers.exchange import AFFINE, DEFORMABLE, Job
from benchmarks.peers.registration import check, job_of, run
from benchmarks.robust_peers import centroid_mm, chosen, kind_of, table
from duotomo.geometry import VolumeGrid


def job(*, deformable: bool) -> Job:
    """Return the job of the known pair."""
    reference, moving = known_pair.volumes(deformable=deformable)
    return job_of(
        reference,
        moving,
        origin_mm=known_pair.ORIGIN_MM,
        spacing_mm=known_pair.SPACING_MM,
        points_mm=known_pair.points(deformable=deformable)[0],
        start_mm=known_pair.START_MM,
        deformable=deformable,
    )


@pytest.mark.parametrize("deformable", [False, True])
def test_the_known_motion_takes_moving_points_to_the_reference(deformable: bool) -> None:
    reference, moving = known_pair.volumes(deformable=deformable)
    index = np.array([[16, 17, 13], [12, 20, 11], [19, 15, 14]])
    places_mm = known_pair.ORIGIN_MM + known_pair.SPACING_MM * index
    moved = (
        known_pair.motion(places_mm, deformable=deformable) - known_pair.ORIGIN_MM
    ) / known_pair.SPACING_MM

    expected = map_coordinates(reference, moved[:, ::-1].T, order=3)
    np.testing.assert_allclose(moving[tuple(index[:, ::-1].T)], expected, rtol=0.02)


def test_a_job_is_displaced_by_its_start_and_comes_back_from_its_file(tmp_path: Path) -> None:
    made = job(deformable=True)
    np.testing.assert_allclose(made.moving_origin_mm - made.reference_origin_mm, known_pair.START_MM)
    made.save(tmp_path / "job.npz")
    read = Job.load(tmp_path / "job.npz")
    assert (read.deformable, read.spacing_mm) == (True, known_pair.SPACING_MM)
    np.testing.assert_array_equal(read.moving, made.moving)
    # The mask holds the body and a margin, not the whole box.
    assert (made.moving_mask[made.moving > 30] == 1).all()
    assert made.moving_mask.mean() < 0.9


def test_a_program_that_ends_with_an_error_gives_a_failure_for_each_model(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho 'no such module' >&2\nexit 1\n")
    program.chmod(0o755)
    found = run("elastix", job(deformable=True), known_pair.START_MM, python=program)
    assert {model: one.failed for model, one in found.items()} == {
        AFFINE: "no such module",
        DEFORMABLE: "no such module",
    }
    assert check("elastix", python=program) == "elastix, affine: no such module"


def test_a_program_that_gives_nothing_back_has_failed() -> None:
    silent = shutil.which("true")
    assert silent is not None
    found = run("greedy", job(deformable=False), known_pair.START_MM, python=Path(silent))
    assert list(found) == [AFFINE]
    assert found[AFFINE].failed == "no points came back"


def test_the_centroid_of_one_voxel_is_its_centre() -> None:
    grid = VolumeGrid.on_detector((3, 4, 6), (2.0, 2.0, 2.0))
    volume = -np.ones(grid.shape, dtype=np.float32)
    volume[2, 0, 5] = 1.0
    np.testing.assert_allclose(centroid_mm(volume, grid), [5.0, 1.0, 5.0])


def test_failures_count_as_infinite_and_the_better_model_counts() -> None:
    found = {
        ("a", "elastix affine"): 2.0,
        ("a", "elastix deformable"): 1.0,
        ("b", "elastix affine"): 3.0,
        ("b", "elastix deformable"): None,
    }
    rows = [
        {"case": case, "kind": "wave", "method": method, "tre_mm": tre_mm}
        for (case, method), tre_mm in found.items()
    ]
    lines = {line[:24].strip(): line[24:].split() for line in table(rows)}
    assert lines["elastix affine"] == ["2.500", "2.500", "0", "of", "2"]
    assert lines["elastix deformable"] == ["inf", "inf", "1", "of", "2"]
    assert lines["elastix best"] == ["2.000", "2.000", "0", "of", "2"]


def test_a_limit_spreads_over_kinds_and_patients(tmp_path: Path) -> None:
    for patient in "AC":
        for kind in ("small_0", "small_1", "wave_0", "wave_0_cut15"):
            (tmp_path / f"{patient}L_{kind}.npz").touch()
    paths = chosen(tmp_path, [], ["small", "wave"], 4)
    assert {(path.name[0], kind_of(path.stem)) for path in paths} == {
        (patient, kind) for patient in "AC" for kind in ("small", "wave")
    }
    assert len(chosen(tmp_path, ["C"], [], None)) == 4
    assert [path.stem for path in chosen(tmp_path, ["A"], ["wave_cut15"], None)] == ["AL_wave_0_cut15"]
