"""The study set is what it says, and the summary says what the rows say."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from benchmarks.methods import COLUMNS, Trace, applications_to, summary
from benchmarks.study_set import AFFINE, GRID, N_CASES, motion, relative_error, study, tre_mm, truth
from duotomo.methods import State
from duotomo.solvers import Status
from duotomo.transforms import Motion


@pytest.mark.parametrize("case", range(N_CASES))
def test_the_object_stays_inside_the_grid(case: int) -> None:
    moved = motion(case).warp(GRID)(truth())
    # Warping changes volumes by the determinant, but loses nothing at the faces.
    kept = float(moved.sum()) * float(motion(case).determinants(GRID)[0, 0, 0])
    assert kept == pytest.approx(float(truth().sum()), rel=5e-3)


def test_motions_are_those_promised() -> None:
    large = motion(N_CASES - 1).inverse().physical()
    assert large["translation_mm"].tolist() == pytest.approx([10.0, 0.0, -20.0])  # type: ignore[union-attr]
    for case in range(N_CASES - 1):
        shift = motion(case).physical()["translation_mm"]
        assert float(shift.abs().max()) <= 8.0  # type: ignore[union-attr]
    assert len({tuple(motion(case).params.tolist()) for case in range(N_CASES)}) == N_CASES


def test_errors_are_zero_at_the_truth() -> None:
    assert tre_mm(motion(3), motion(3)) == pytest.approx(0.0, abs=1e-9)
    assert tre_mm(Motion(AFFINE, AFFINE.identity()), motion(3)) > 1.0
    assert relative_error(truth()) == 0.0
    assert relative_error(torch.zeros(GRID.shape)) == pytest.approx(1.0)


def test_noisy_data_differ_from_exact_ones_by_noise() -> None:
    exact, noisy = study(0, "a"), study(0, "b", extra=(1,))
    assert (len(exact.visits), len(noisy.visits)) == (2, 3)
    difference = noisy.visits[1].projections - exact.visits[1].projections
    assert 1e-3 < float(difference.std()) < 0.02


def row(case: int, name: str, tre: float, error: float, **more: Any) -> dict[str, Any]:
    solver = name if name in ("coupled", "alternating") else None
    values = (case, "simultaneous" if solver else name, solver, tre, error, 0.5, 1000, 2.0, "converged")
    return dict(zip(COLUMNS, values, strict=True)) | {"trace": []} | more


def test_the_summary_compares_methods_case_by_case() -> None:
    rows = [
        row(0, "coupled", 0.1, 0.6, trace=[(100, 0.5), (200, 0.2), (300, 0.1)]),
        row(0, "alternating", 0.2, 0.8),
        row(0, "sequential", 1.0, 0.9, registered_relative_error=1.2),
        row(0, "iterative", 1.0, 0.9, registered_relative_error=0.8),
    ]
    text = "\n".join(summary(rows))
    assert "coupled: TRE median 0.100, worst 0.100 mm; relative error 1.20 to 1.20 times" in text
    assert "reference 1.50 to 1.50, registered 2.00 to 2.00" in text
    assert "sequential / iterative relative error, registered: 1.50 to 1.50" in text
    assert "with 0.20 of its projector applications, median of 1 (worst 0.20); it ends worse in 0" in text


def test_a_trace_notes_what_every_block_has_cost() -> None:
    trace = Trace(motion(3))
    for count, params in ((10, AFFINE.identity()), (20, motion(3).params)):
        trace.save(
            State(
                stage=0,
                block=0,
                volumes={},
                coarsen=(1, 1, 1),
                model="affine",
                params=(params,),
                status=Status.STEP_LIMIT,
                reason="",
                applications=count,
                seconds=0.0,
                history=(),
            )
        )
    assert applications_to(0.5, trace.points) == 20
    assert applications_to(-1.0, trace.points) is None
