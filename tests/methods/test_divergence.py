"""What goes wrong in the middle of a run ends it with a status, and with the last state that was good."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from duotomo.errors import GeometryError
from duotomo.methods import Alternating, Priors, Settings, Stage, iterative, runner, sequential, simultaneous
from duotomo.methods import with_known_motion as known_motion
from duotomo.methods.blocks import coupled_block
from duotomo.methods.problem import Problem
from duotomo.methods.scales import level_of, scales_of
from duotomo.objectives import JointMisfit, SumOfSquares
from duotomo.objectives.joint_parts import ParamsPart, VolumePart
from duotomo.solvers import Status
from duotomo.transforms import Rigid
from tests.cases.studies import GRID, shifted, study
from tests.methods.runs import Memory, short, stages

MOTION = shifted(4.0, -2.0, 1.0)


def failing_after(n_calls: int, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    """Let a method of a class return NaN for all numbers after so many calls."""
    original, left = getattr(owner, name), [n_calls]

    def failing(self: Any, x: torch.Tensor) -> Any:
        left[0] -= 1
        value, *rest = original(self, x)
        return (value, *rest) if left[0] >= 0 else (math.nan, *(part * math.nan for part in rest))

    monkeypatch.setattr(owner, name, failing)


def test_the_last_good_volume_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    of, settings = study(MOTION), Settings(stages=stages(None, n_steps=30))
    failing_after(9, monkeypatch, VolumePart, "evaluate")
    kept = Memory()
    result = known_motion(of, settings, [MOTION], checkpoint=kept)
    assert result.status is Status.DIVERGED
    assert "did not reach a finite objective" in result.reason
    assert 0 < len(result.history) < 10
    monkeypatch.undo()
    scales = scales_of(of, Priors())
    level = level_of(of, (1, 1, 1), basis="spline", priors=Priors(), scales=scales)
    problem = Problem(level, [MOTION.transform], Priors(), scales)
    value = problem.of_volume([MOTION.params]).value(result.volume)
    assert value == pytest.approx(result.history[-1].objective, rel=1e-5)
    # The state that was kept says the same, and resuming does not try again.
    again = known_motion(of, settings, [MOTION], checkpoint=kept)
    assert torch.equal(again.volume, result.volume)
    assert (again.status, len(again.history)) == (Status.DIVERGED, len(result.history))


def test_coupled(monkeypatch: pytest.MonkeyPatch) -> None:
    failing_after(7, monkeypatch, JointMisfit, "evaluate")
    result = simultaneous(study(MOTION), short())
    assert result.status is Status.DIVERGED
    assert bool(result.volume.isfinite().all() and result.volume.any())
    assert result.volume.shape == result.grid.shape
    assert bool(result.motions[0].params.isfinite().all())


def test_a_motion_that_leaves_the_volume(monkeypatch: pytest.MonkeyPatch) -> None:
    left = [4]

    def far(*args: Any, **options: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise GeometryError("Rigid: expected the moving grid to land on the reference grid; got none.")
        return coupled_block(*args, **options)

    monkeypatch.setattr(runner, "coupled_block", far)
    result = simultaneous(study(MOTION), short())
    assert result.status is Status.DIVERGED
    assert result.reason.startswith("The motion left the volume, and is given as none. Rigid: expected")
    assert result.history
    assert not result.motions[0].params.any()
    assert result.volume.shape == result.grid.shape
    left[0] = 0  # From the start, the visits share no volume: nothing can be computed.
    with pytest.raises(GeometryError, match="land on the reference grid"):
        simultaneous(study(MOTION), short())


@pytest.mark.parametrize(("owner", "name"), [(VolumePart, "evaluate"), (ParamsPart, "normal_equations")])
def test_alternating(owner: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(stages=stages("translation", "rigid", n_steps=4), solver=Alternating(block=2))
    n_calls = 25 if owner is VolumePart else 3
    failing_after(n_calls, monkeypatch, owner, name)
    result = simultaneous(study(MOTION), settings)
    assert result.status is Status.DIVERGED
    assert bool(result.volume.isfinite().all() and result.volume.any())
    assert bool(result.motions[0].params.isfinite().all())


def test_at_the_very_start(monkeypatch: pytest.MonkeyPatch) -> None:
    failing_after(0, monkeypatch, VolumePart, "evaluate")
    for method in (simultaneous, sequential, iterative):
        result = method(study(MOTION), short())
        assert result.status is Status.DIVERGED
        assert "not finite at the start" in result.reason
        assert result.history == ()
        assert not result.volume.any()
        assert len(result.motions) == 1


@pytest.mark.parametrize("n_calls", [4, 12, 25, 33, 40])
def test_sequential(n_calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it happens, what there is lies on the grids that are named, with a motion for each visit."""
    failing_after(n_calls, monkeypatch, VolumePart, "evaluate")
    kept = Memory()
    of, settings = study(MOTION, shifted(1.0, 0.0, 0.0)), short()
    result = sequential(of, settings, checkpoint=kept)
    assert result.status is Status.DIVERGED
    assert result.volume.shape == result.grid.shape
    assert bool(result.volume.isfinite().all())
    assert len(result.motions) == 2
    for name, volume in result.others.items():
        assert volume.shape == result.grids.get(name, result.grid).shape
        assert bool(volume.isfinite().all())
    again = sequential(of, settings, checkpoint=kept)
    assert torch.equal(again.volume, result.volume)


@pytest.mark.parametrize("n_calls", [4, 12, 25])
def test_iterative(n_calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    failing_after(n_calls, monkeypatch, VolumePart, "evaluate")
    kept = Memory()
    result = iterative(study(MOTION), short(), volume_steps=3, checkpoint=kept)
    assert result.status is Status.DIVERGED
    assert "Reconstruction of visit" in result.reason
    assert result.volume.shape == result.grid.shape
    assert set(result.others) == {"visit_2", "visit_2_registered"}
    for volume in (result.volume, *result.others.values()):
        assert bool(volume.isfinite().all())
    again = iterative(study(MOTION), short(), volume_steps=3, checkpoint=kept)
    assert torch.equal(again.others["visit_2"], result.others["visit_2"])


def test_registration(monkeypatch: pytest.MonkeyPatch) -> None:
    failing_after(1, monkeypatch, SumOfSquares, "normal_equations")
    result = iterative(study(MOTION), short(), volume_steps=3)
    assert result.status is Status.DIVERGED
    assert "Registration of visit 2: " in result.reason
    assert bool(result.motions[0].params.isfinite().all())
    monkeypatch.undo()
    failing_after(0, monkeypatch, SumOfSquares, "normal_equations")
    result = sequential(study(MOTION), short())
    assert result.status is Status.DIVERGED
    assert "Registration of visit 2: The objective or its gradient is not finite" in result.reason
    assert bool(result.motions[0].params.isfinite().all())


def test_a_volume_that_stays_empty_has_no_motion(monkeypatch: pytest.MonkeyPatch) -> None:
    def flat(self: VolumePart, x: torch.Tensor) -> tuple[float, torch.Tensor]:
        return 1.0, torch.zeros_like(x)

    monkeypatch.setattr(VolumePart, "evaluate", flat)
    stage = Stage(coarsen=(2, 2, 2), model=Rigid, n_steps=3)
    result = simultaneous(study(MOTION), Settings(stages=(stage,)))
    assert result.status is Status.DIVERGED
    assert "stayed empty" in result.reason
    assert result.grid == GRID.coarsen(2)
