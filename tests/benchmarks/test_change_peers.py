"""The difference after another registration: judged on its own pairs, taken the right way round."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks import change_peers
from benchmarks.change_judge_peers import after, beside
from benchmarks.change_peers import resampled
from benchmarks.change_volumes import Volumes
from benchmarks.peers.exchange import DEFORMABLE, Array, Job
from benchmarks.peers.registration import Found
from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.geometry.frame import voxel_centers_mm

Row = dict[str, Any]
LESION_MM = (10.0, 40.0, 30.0)
GRID = VolumeGrid(shape=(5, 7, 9), spacing_mm=(2.0, 2.0, 2.0), center_mm=(20.0, 7.0, 1.0))


def row(number: int, *, changed: bool, duotomo: float, difference: float) -> Row:
    """Return a row of the trial whose methods have one peak each, at the lesion where there is one."""
    return {
        "name": f"{'mass' if changed else 'none'}-{number}",
        "anatomy": f"anatomy{number % 5}",
        "kind": "mass" if changed else "none",
        "lesion_mm": LESION_MM if changed else None,
        "lesion_size_mm": 8.0 if changed else 0.0,
        "trusted": True,
        "not_trusted_for": [],
        "reason": "",
        "peaks": {
            "duotomo": [[*LESION_MM, duotomo]],
            "current visit": [[*LESION_MM, 1.0]],
            "difference": [[*LESION_MM, difference]],
        },
    }


def peer(name: str, z: float, failed: str | None = None) -> Row:
    """Return a row of another program with one peak, or none if it failed."""
    peaks = [] if failed else [[*LESION_MM, z]]
    return {"name": name, "program": "elastix", "peaks": peaks, "seconds": 1.0, "failed": failed}


def trial() -> list[Row]:
    """Return ten pairs with and ten without a change, told apart by duotomo, not by the difference."""
    return [
        row(number, changed=changed, duotomo=9.0 if changed else 4.0, difference=5.0)
        for changed in (True, False)
        for number in range(10)
    ]


def test_only_pairs_of_the_program_are_judged_and_by_all_methods() -> None:
    rows = trial()
    not_compared = row(99, changed=True, duotomo=0.0, difference=0.0) | {"peaks": {}}
    peers = [peer(one["name"], 8.0 if one["kind"] == "mass" else 3.0) for one in rows[:8] + rows[10:16]]
    peers += [peer("mass-99", 8.0), peer("mass-of-no-trial", 8.0)]

    found = beside([*rows, not_compared], peers)["on the pairs of elastix"]

    assert (found["pairs"], found["without change"], found["failed"]) == (14, 6, {})
    assert list(found["methods"]) == ["duotomo", "difference", after("elastix")]
    of = {name: one["sensitivity at 0.1, 0.5, 1 false positives"] for name, one in found["methods"].items()}
    assert of["duotomo"] == of[after("elastix")] == [1.0, 1.0, 1.0]
    assert of["difference"] == [0.0, 0.0, 1.0]
    for one in found["methods"].values():
        assert set(one) >= {"false positives per volume at 80 % sensitivity", "area under the curve"}
    assert set(found["bootstrap over anatomies"]) == {"difference", after("elastix")}
    low, middle, high = found["intervals over anatomies"]["duotomo"][
        "sensitivity at 0.1, 0.5, 1 false positives"
    ][0]
    assert (low, middle, high) == (1.0, 1.0, 1.0)


def test_a_failed_registration_misses_its_lesion_and_finds_nothing_where_nothing_changed() -> None:
    rows = trial()
    why = {"mass-0": "not done after 900 s", "none-0": "points that are not finite"}
    peers = [peer(one["name"], 8.0 if one["kind"] == "mass" else 9.0, why.get(one["name"])) for one in rows]

    found = beside(rows, peers)["on the pairs of elastix"]

    assert found["failed"] == why
    figures = found["methods"][after("elastix")]
    assert figures["sensitivity at 0.1, 0.5, 1 false positives"] == [0.0, 0.0, 0.9]
    assert figures["false positives per volume at 80 % sensitivity"] == pytest.approx(0.9)


def test_programs_without_a_pair_of_the_trial_say_so() -> None:
    assert beside(trial(), [peer("mass-of-no-trial", 8.0)]) == {"on the pairs of elastix": {"pairs": 0}}
    assert beside(trial(), []) == {}


def test_the_prior_volume_is_taken_from_where_the_voxels_lay() -> None:
    prior = np.random.default_rng(0).random(GRID.shape, dtype=np.float32)
    # What is at x now was one voxel further along x, and half a voxel along y, before.
    points_mm = voxel_centers_mm(GRID).reshape(-1, 3) + np.array([2.0, 1.0, 0.0])

    now = resampled(prior, points_mm, GRID)

    expected = (prior[:, :-1, 1:] + prior[:, 1:, 1:]) / 2
    torch.testing.assert_close(now[:, :-1, :-1], torch.from_numpy(expected))


def test_programs_get_air_around_the_volumes_which_stay_in_their_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = np.random.default_rng(0).random((2, *GRID.shape), dtype=np.float32) + 0.5
    volumes = Volumes(visit_1=values[0], visit_2=values[1], stated=values[0] > 0)
    jobs: list[Job] = []

    def program(name: str, job: Job, start_mm: Array, *, python: Path) -> dict[str, Found]:
        jobs.append(job)
        return {DEFORMABLE: Found(points_mm=job.points_mm, seconds=1.0, failed=None)}

    monkeypatch.setattr(change_peers, "run_program", program)
    found = change_peers.registered("elastix", volumes, GRID, python=Path("python"))

    assert found.points_mm is not None
    (job,) = jobs
    # The voxels of the current visit, found again by the origin of the image that programs get.
    index = np.rint((job.points_mm - job.moving_origin_mm) / job.spacing_mm).astype(int)
    np.testing.assert_allclose(job.moving[tuple(index[:, ::-1].T)], 1e3 * values[0].ravel(), rtol=1e-6)
    np.testing.assert_allclose(job.reference[tuple(index[:, ::-1].T)], 1e3 * values[1].ravel(), rtol=1e-6)
    assert job.moving.shape == (5 + 8, 7 + 4, 9 + 8)


def test_volumes_come_back_from_their_file_and_only_for_their_grid(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random((2, *GRID.shape), dtype=np.float32)
    made = Volumes(visit_1=values[0], visit_2=values[1], stated=values[0] > 0.5)
    path = tmp_path / "volumes" / "a.npz"
    made.save(path)
    assert [one.name for one in path.parent.iterdir()] == ["a.npz"]
    read = Volumes.load(path, GRID)
    np.testing.assert_allclose(read.visit_2, made.visit_2, atol=5e-4)
    np.testing.assert_array_equal(read.stated, made.stated)
    with pytest.raises(DuotomoError, match="another --voxel-mm"):
        Volumes.load(path, GRID.coarsen((1, 1, 2)))
    np.savez(path, visit_1=made.visit_1, stated=made.stated)
    with pytest.raises(DuotomoError, match="there is no visit_2"):
        Volumes.load(path, GRID)
