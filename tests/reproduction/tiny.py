"""An experiment that takes no time: a small ring, moved by a shift, and methods that know the answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from duotomo.geometry import VolumeGrid
from duotomo.methods import Checkpoint, Result, Settings
from duotomo.phantoms import Ellipsoid, Toroid
from duotomo.reproduction import ComparedMethod, DataLevel, Experiment, Plan
from duotomo.reproduction.case import Case, Scans
from duotomo.reproduction.experiment import Published, SetUp
from duotomo.solvers import Status, Step
from duotomo.solvers.history import OnStep
from duotomo.transforms import Affine, Motion
from tests.cases.scans import arc

GRID = VolumeGrid.on_detector((12, 14, 14), (4.0, 4.0, 4.0), gap_mm=5.0)
SCAN = arc((16, 28), 4.0, n_views=5, degrees=40)
MIDDLE = GRID.center_mm[::-1]
RING = Toroid(
    center_mm=MIDDLE,
    major_radius_mm=12.0,
    minor_radius_mm=5.0,
    value=0.03,
    body=Ellipsoid(center_mm=MIDDLE, radii_mm=(22.0, 22.0, 14.0), value=0.046),
)
AFFINE = Affine(GRID)
STILL = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
PAPER = Published(better="simultaneous", ratio=31.0, relative_error={"sequential": 0.0057}, mse={})
SETTINGS = Settings.staged(GRID, Affine)


def shift(*translation_mm: float) -> Motion:
    """Return a translation."""
    return Motion(AFFINE, AFFINE.params(matrix=STILL, translation_mm=translation_mm))


UNMOVED = shift(0.0, 0.0, 0.0)


def tiny_case(number: int = 1, *, seed: int | None = None) -> Case:
    """Return a case whose ring moves by 3 mm along x and -4 mm along z, once for each number."""
    scans = Scans(grid=GRID, acquisition=SCAN, seed=seed)
    return scans.moved_by(RING, shift(3.0 * number, 0.0, -4.0 * number), {"number": number})


def result_of(case: Case, motion: Motion, volume: torch.Tensor | None = None, **changes: Any) -> Result:
    """Return what a method would have that found this motion and this volume, the truth unless given."""
    return Result(
        **{
            "method": "simultaneous",
            "grid": case.study.grid,
            "volume": case.truth if volume is None else volume,
            "motions": (motion,),
            "status": Status.CONVERGED,
            "reason": "It was told.",
            "applications": 7,
            "seconds": 0.5,
            "history": (STEP,),
            **changes,
        }
    )


STEP = Step(
    stage=0,
    what="affine at 4 mm",
    number=1,
    objective=1.0,
    gradient_norm=1.0,
    step_size=1.0,
    applications=4,
    seconds=0.1,
)

Hook = Callable[[Case, Checkpoint | None], None]


@dataclass
class Counted:
    """An experiment of two cases and two methods, and what was computed for it.

    made: cases that were made. calls: (method, case) in their order. hooks: what a method does before it
    returns, such as to go wrong.
    """

    n_cases: int = 2
    made: list[int] = field(default_factory=list)
    calls: list[tuple[str, int]] = field(default_factory=list)
    hooks: dict[str, Hook] = field(default_factory=dict)

    @property
    def experiment(self) -> Experiment:
        return Experiment(
            name="tiny",
            title="A tiny ring",
            paper=PAPER,
            levels=(DataLevel.AS_PUBLISHED, DataLevel.HONEST),
            at=self._at,
        )

    def _at(self, plan: Plan) -> SetUp:
        def make(number: int) -> Case:
            self.made.append(number)
            return tiny_case(number)

        methods = tuple(self._method(name) for name in ("sequential", "simultaneous"))
        return SetUp(about={"grid": repr(GRID)}, n_cases=self.n_cases, make=make, shown=1, methods=methods)

    def _method(self, name: str) -> ComparedMethod:
        def run(
            case: Case, settings: Settings, on_step: OnStep | None, checkpoint: Checkpoint | None
        ) -> Result:
            self.calls.append((name, case.about["number"]))
            if on_step is not None:
                on_step(STEP)
            if name in self.hooks:
                self.hooks[name](case, checkpoint)
            return result_of(case, case.motion if name == "simultaneous" else UNMOVED)

        return ComparedMethod(name=name, label=name, family=name, origin="ours", settings=SETTINGS, run=run)
