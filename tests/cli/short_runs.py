"""Runs of `joint` that are short, and end as a test wants them to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from duotomo import methods
from duotomo.methods import Result, Settings, Trust
from duotomo.methods.input_checks import Check
from duotomo.solvers import Status


def ended(status: Status, *, n_steps: int) -> Callable[..., Result]:
    """Return the simultaneous method with few steps, and a status of its own."""
    original = methods.simultaneous

    def method(study: Any, settings: Settings, **options: Any) -> Result:
        stages = tuple(replace(stage, n_steps=n_steps) for stage in settings.stages[:1])
        found = original(study, replace(settings, stages=stages, stiffer=()), **options)
        return replace(found, status=status, reason="That is how it ended.", applications=1000)

    return method


def trusting(passed: bool) -> Callable[..., Trust]:
    """Return a verdict that is known beforehand."""
    check = Check(name="convergence", passed=passed, value=0.0, limit=0.0, text="It did or did not converge.")
    return lambda *_, **__: Trust.of_checks((check,))


def shorten(monkeypatch: pytest.MonkeyPatch, *, n_steps: int) -> None:
    """Leave out most steps, rays held back, and visits alone."""
    monkeypatch.setattr(methods, "trust_of", trusting(True))
    monkeypatch.setattr(methods, "with_visits_alone", lambda _study, _settings, result, **_: result)
    monkeypatch.setattr(methods, "simultaneous", ended(Status.CONVERGED, n_steps=n_steps))
