"""Reconstruction and registration in turn: the paper's Algorithm 1."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from duotomo.errors import DuotomoError, GeometryError
from duotomo.geometry import VolumeGrid
from duotomo.methods import (
    Estimates,
    Settings,
    Study,
    averaged,
    iterative,
    replaced,
    symmetric,
)
from duotomo.methods.sequential import one_visit
from duotomo.objectives import CrossCorrelation
from duotomo.solvers import Status, Step
from tests.cases.studies import GRID, seen, shifted, study
from tests.methods.runs import OWN, SHIFT, TURN, VOXEL_MM, error_mm, short, stages


class Counting:
    """An update that changes nothing, and counts."""

    def __init__(self) -> None:
        self.calls: list[Estimates] = []

    def __call__(self, estimates: Estimates) -> tuple[torch.Tensor, ...]:
        self.calls.append(estimates)
        return estimates.volumes


def test_without_an_update_every_visit_is_on_its_own() -> None:
    of, settings = study(SHIFT, TURN), short()
    run = partial(iterative, volume_steps=2, update=Counting())
    result = run(of, settings)
    volumes = [result.volume, result.others["visit_2"], result.others["visit_3"]]
    alone = [run(one_visit(of, index), settings) for index in range(3)]
    assert all(torch.equal(volume, one.volume) for volume, one in zip(volumes, alone, strict=True))
    # The registration needs no projector.
    assert result.applications == sum(one.applications for one in alone)


def test_the_last_iteration_has_no_update() -> None:
    settings = Settings(stages=(*stages("translation", n_steps=6), *stages("rigid", None, n_steps=5)))
    counting = Counting()
    iterative(study(SHIFT), settings, update=counting, volume_steps=3)
    # 6 // 3 + 5 // 3 + 5 // 3 iterations.
    assert len(counting.calls) == 3
    assert [type(each.motions[0].transform).__name__ for each in counting.calls] == ["Translation"] * 2 + [
        "Rigid"
    ]


def test_a_stage_of_few_steps_makes_one_iteration_of_them() -> None:
    steps: list[Step] = []
    settings = Settings(stages=stages("translation", n_steps=2))
    result = iterative(study(SHIFT), settings, volume_steps=4, motion_steps=3, on_step=steps.append)
    words = [record.what for record in steps]
    assert words.count("visit 1 at 3 mm") == words.count("visit 2 at 3 mm") == 2
    assert 1 <= words.count("translation of visit 2 at 3 mm") <= 3
    assert result.reason == "The limit of 1 iterations was reached."
    assert result.status is Status.STEP_LIMIT


def test_a_stage_without_a_model_keeps_the_motion() -> None:
    both = Settings(stages=(*stages("rigid", n_steps=4), *stages(None, n_steps=4)))
    first = Settings(stages=both.stages[:1])
    one, two = (iterative(study(TURN), settings, volume_steps=4) for settings in (first, both))
    assert torch.equal(one.motions[0].params, two.motions[0].params)
    assert not torch.equal(one.volume, two.volume)


@pytest.mark.parametrize("update", [replaced, averaged, symmetric])
def test_motion_is_found(update: object) -> None:
    settings = Settings(stages=stages("translation", "rigid", n_steps=30))
    result = iterative(study(TURN, finer=3), settings, update=update)  # type: ignore[arg-type]
    assert error_mm(result.motions[0], TURN) < 0.3 * VOXEL_MM
    own, brought = result.others["visit_2"], result.others["visit_2_registered"]
    off = [float((volume - result.volume).norm() / result.volume.norm()) for volume in (own, brought)]
    assert off[1] < 0.5 * off[0]


def test_the_updates_are_not_the_same() -> None:
    settings = Settings(stages=stages("translation", n_steps=6))
    results = [
        iterative(study(SHIFT), settings, update=update, volume_steps=3)
        for update in (replaced, averaged, symmetric)
    ]
    assert not torch.equal(results[0].volume, results[1].volume)
    assert torch.equal(results[1].volume, results[2].volume)
    assert not torch.equal(results[1].others["visit_2"], results[2].others["visit_2"])


def test_visits_with_their_own_grids() -> None:
    motion = shifted(5.0, -3.0, 4.0, grid=OWN)
    of = Study(grid=GRID, visits=(seen(), seen(motion, grid=OWN), seen(SHIFT)))
    settings = Settings(stages=stages("translation", n_steps=20))
    result = iterative(of, settings, update=symmetric, misfit=CrossCorrelation)
    assert result.grids == {"visit_2": OWN}
    assert result.others["visit_2"].shape == OWN.shape
    for index, true in enumerate((motion, SHIFT)):
        assert error_mm(result.motions[index], true) < 0.3 * VOXEL_MM


def test_a_fresh_stage_starts_from_nothing() -> None:
    (stage,) = stages(None, n_steps=4)
    fresh = type(stage)(coarsen=stage.coarsen, model=None, n_steps=4, fresh=True)
    once, anew = (
        iterative(study(), Settings(stages=schedule), volume_steps=4)
        for schedule in ((stage,), (stage, fresh))
    )
    assert torch.equal(once.volume, anew.volume)


def test_precision_is_that_of_the_data() -> None:
    result = iterative(study(SHIFT, dtype=torch.float64), short(), volume_steps=2)
    assert {volume.dtype for volume in (result.volume, *result.others.values())} == {torch.float64}


@pytest.mark.parametrize("name", ["volume_steps", "motion_steps"])
def test_steps_are_needed(name: str) -> None:
    with pytest.raises(DuotomoError, match=f"iterative: expected {name} >= 1; got 0. Allow at least one"):
        iterative(study(SHIFT), short(), **{name: 0})  # type: ignore[arg-type]


def test_grids_that_share_no_volume_are_refused() -> None:
    beside = VolumeGrid(shape=(14, 14, 6), spacing_mm=(3.0, 3.0, 3.0), center_mm=(26.0, 21.0, 38.0))
    of = Study(grid=GRID, visits=(seen(), seen(shifted(-20.0, 0.0, 0.0, grid=beside), grid=beside)))
    settings = Settings(stages=stages("translation", n_steps=3), initial_guess=False)
    with pytest.raises(
        GeometryError, match="Study, visit 2: expected its grid to meet that of the reference"
    ):
        iterative(of, settings)
