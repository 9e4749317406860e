"""What logs of a cohort say of its attempts."""

from __future__ import annotations

from pathlib import Path

from benchmarks.cohort_faults import attempts, wanted_kills

LOG = """--- attempt 1, 2026-11-19 13:00:00
Nothing to resume: starting from the beginning
  rigid at 3 mm: 40 steps, objective 0.1, 387 projector applications, 0.7 s
--- attempt 1 from its checkpoint, 2026-11-19 13:00:10
--- attempt 1 from its checkpoint, 2026-11-19 13:00:20
Resuming in stage 2, after 40 steps and 2 s
  rigid at 3 mm: 40 steps, objective 0.1, 387 projector applications, 0.7 s
--- attempt 1, 2026-11-19 13:00:30
  rigid at 3 mm: 40 steps, objective 0.1, 387 projector applications, 0.7 s
--- attempt 1, 2026-11-19 13:00:40
Finished already: cases/a holds the result. Leave out --resume to compute it again.
"""


def test_an_attempt_has_the_steps_that_it_went_on_after(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text(LOG)
    found = attempts(tmp_path / "log.txt")
    assert [steps for _, steps in found] == [0, None, 40, 0, None]
    assert [moment - found[0][0] for moment, _ in found] == [0, 10, 20, 30, 40]


def test_the_scheduler_is_killed_once_among_the_workers() -> None:
    plan = wanted_kills(10, 200.0)
    assert [kind for _, kind in plan].count("scheduler") == 1
    assert len(plan) == 11
    assert [moment for moment, _ in plan] == sorted(moment for moment, _ in plan)
