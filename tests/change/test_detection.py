"""What changed is found where it is, with its sign and size; what did not is not."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from duotomo.change import Change, Silent, change_of, refit
from duotomo.change.detection import score_map
from duotomo.errors import DuotomoError
from duotomo.geometry.frame import voxel_centers_mm, world_to_voxel
from duotomo.io import read_change, write_change
from duotomo.methods.comparison import visit_alone
from duotomo.phantoms import Ellipsoid
from duotomo.solvers import Status
from tests.change.changed import CONTRAST, GRID, MASS_MM, SHIFT_MM, SIZE_MM, found, solved


def _nearest(change: Change) -> float:
    place = torch.tensor(change.findings[0].place_mm)
    return float((place - torch.tensor(MASS_MM))[:2].norm())


def _largest_in_the_mass(change: Change) -> float:
    away = torch.from_numpy(voxel_centers_mm(GRID)) - torch.tensor(MASS_MM)
    return float(change.z_map[away.norm(dim=-1) < SIZE_MM / 2].abs().nan_to_num().max())


@pytest.mark.parametrize(("current", "prior", "kind"), [(CONTRAST, 0.0, "new"), (0.0, CONTRAST, "gone")])
def test_a_mass_is_the_first_finding(current: float, prior: float, kind: str) -> None:
    change = found(current, prior)
    assert change.reason == ""
    first = change.findings[0]
    assert first.kind == kind
    assert _nearest(change) < 2.0
    assert abs(first.place_mm[2] - MASS_MM[2]) < 6.0
    # The prior place is that of the same tissue before.
    for before, now, shift in zip(first.prior_place_mm, first.place_mm, SHIFT_MM, strict=True):
        assert before == pytest.approx(now + shift, abs=0.5)
    low, high = first.size_interval_mm
    assert low <= first.size_mm <= high
    assert first.size_mm == pytest.approx(SIZE_MM, abs=4.0)
    low, high = first.contrast_interval_per_mm
    assert low <= first.contrast_per_mm <= high
    sign = 1 if kind == "new" else -1
    assert sign * first.contrast_per_mm == pytest.approx(CONTRAST, rel=0.3)
    assert sign * first.z > change.threshold
    assert 0 <= first.p_value <= first.false_findings
    assert "nipple" in first.words


@pytest.mark.parametrize(("current", "prior"), [(CONTRAST, 0.0), (0.0, CONTRAST)])
def test_what_is_found_passes_the_checks_of_its_files(current: float, prior: float, tmp_path: Path) -> None:
    change = found(current, prior)
    write_change(tmp_path, change)
    assert read_change(tmp_path).findings == change.findings


def test_the_same_mass_at_both_visits_is_no_change() -> None:
    change = found(CONTRAST, CONTRAST)
    assert change.reason == ""
    assert 0 < change.litres < 0.2
    assert _largest_in_the_mass(change) < 0.3 * _largest_in_the_mass(found(CONTRAST, 0.0))
    near = [one for one in change.findings if math.dist(one.place_mm, MASS_MM) < 0.75 * SIZE_MM]
    assert near == []


def test_skin_and_air_are_silent() -> None:
    change = found(CONTRAST, CONTRAST)
    assert int(change.silent[0, -1, 0]) == Silent.OUTSIDE_BREAST
    assert torch.equal(change.z_map.isnan(), change.silent != int(Silent.STATED))


def test_the_volume_with_findings_keeps_the_contrast_that_the_joint_one_dilutes() -> None:
    study, settings, result = solved(CONTRAST, 0.0)
    index = tuple(round(float(one)) for one in world_to_voxel(GRID, MASS_MM))
    volume, alone = found(CONTRAST, 0.0).volume, visit_alone(study, settings, 0)
    assert float(volume[index] - result.volume[index]) > 0.2 * CONTRAST
    assert float(volume[index]) == pytest.approx(float(alone[index]), rel=1e-5)
    # Far from it the volume that both visits share stands.
    assert torch.equal(volume[:, :, :4], result.volume[:, :, :4])


def test_the_motion_takes_a_part_of_a_change() -> None:
    study, settings, result = solved(CONTRAST, 0.0)
    difference = score_map(study, settings, result, n_draws=1).difference
    mass = torch.from_numpy(
        Ellipsoid(center_mm=MASS_MM, radii_mm=(4.5, 4.5, 4.5), value=1.0).voxels(GRID)
    ).float()
    caused, left = difference.of_change(mass[None])[0], difference.left_of_change(mass)
    shares = float((mass * left).sum() / (mass * caused).sum())
    assert 0.5 < shares < 1.0


def test_what_is_not_known_of_a_size_is_not_known_of_its_contrast(monkeypatch: pytest.MonkeyPatch) -> None:
    study, settings, result = solved(CONTRAST, 0.0)
    maps = score_map(study, settings, result, n_draws=2)
    z, y, x = (round(float(one)) for one in world_to_voxel(GRID, MASS_MM))
    as_it_is = refit.refit(maps.difference, maps.slope, maps.scores, (z, y, x))
    monkeypatch.setattr(refit, "SIZE_LEFT", 2 * refit.SIZE_LEFT)
    less_sure = refit.refit(maps.difference, maps.slope, maps.scores, (z, y, x))
    assert less_sure.contrast_per_mm == as_it_is.contrast_per_mm
    (low, high), (lowest, highest) = (one.contrast_interval_per_mm for one in (as_it_is, less_sure))
    # The lower end may be that of the largest template already.
    assert lowest <= low < as_it_is.contrast_per_mm < high < highest


def test_a_run_that_did_not_converge_has_a_reason_and_no_findings() -> None:
    study, settings, result = solved(CONTRAST, 0.0)
    change = change_of(study, settings, replace(result, status=Status.STEP_LIMIT, reason="Too few steps."))
    assert "did not converge" in change.reason
    assert change.findings == ()
    assert bool(change.z_map.isnan().all())


def test_voxels_larger_than_what_is_looked_for_are_a_reason_and_no_scores() -> None:
    study, settings, result = solved(CONTRAST, 0.0)
    coarse = replace(study, grid=study.grid.coarsen(2))
    change = change_of(coarse, settings, result)
    assert change.reason.startswith(
        "A change of at most 12 mm takes voxels with edges of at most 6 mm; there are"
    )
    with pytest.raises(DuotomoError, match=r"there are edges of 8 mm\. Choose a finer grid"):
        score_map(coarse, settings, result)
