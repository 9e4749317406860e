"""The benchmark of a large pair runs on a small one, and tells what its steps cost."""

from __future__ import annotations

import re
import time
import warnings

import pytest
import torch

from benchmarks.large import main, timed
from benchmarks.stage_profile import StageProfile
from duotomo.geometry import VolumeGrid
from duotomo.objectives import TotalVariation
from duotomo.solvers import Step


@pytest.mark.parametrize("look", ["shares", "profile"])
def test_a_small_pair_is_timed_stage_by_stage(look: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--case", "small", "--steps", "2", "--look", look, "affine"])
    said = capsys.readouterr().out
    assert re.search(r"affine: [\d.]+ s after [\d.]+ s of two steps a stage, \d+ applications", said)
    assert len(re.findall(r"ms a step$", said, re.MULTILINE)) > 3
    if look == "shares":
        shares = [int(share) for share in re.findall(r"(\d+) %", said)]
        assert len(shares) == 4
        assert 97 <= sum(shares) <= 103
    else:
        assert re.search(
            r"^\d affine at [\d.]+ mm: [\d.]+ ms a step, GPU busy 0.00 ms; 0 kernels", said, re.MULTILINE
        )


def test_what_a_part_calls_of_itself_is_not_counted_twice() -> None:
    grid = VolumeGrid.on_detector((60, 60, 60), (1.0, 1.0, 1.0))
    prior, volume = TotalVariation(grid, smoothing=0.1), torch.rand(grid.shape)
    with timed("cpu") as seconds:
        began = time.perf_counter()
        prior.add_gradient(volume, torch.zeros_like(volume))
        whole = time.perf_counter() - began
    assert 0 < seconds["prior"] <= whole


def step(number: int, stage: int) -> Step:
    return Step(
        number=number, objective=1.0, gradient_norm=1.0, step_size=1.0, applications=0, seconds=0.0,
        stage=stage, what=f"model {stage}",
    )  # fmt: skip


def test_stages_that_are_short_or_early_are_left_out() -> None:
    look, before = StageProfile("cpu", first_stage=1, skip=2, n_steps=2), list(warnings.filters)
    # The last stage ends while its waits are told.
    for stage, n_steps in ((0, 20), (1, 5), (2, 9), (3, 6)):
        for number in range(n_steps):
            look(step(number, stage))
            torch.ones(3).sum()
    look.end()
    assert list(warnings.filters) == before
    assert [cost.stage for cost in look.costs] == ["2 model 2"]
    assert look.costs[0].n_kernels == look.costs[0].n_waits == 0
