"""How many steps a turn of the alternation should make, the total held fixed."""

from __future__ import annotations

from duotomo.experiments.case import Case, Scans
from duotomo.experiments.experiment import Experiment, SetUp
from duotomo.experiments.plan import Level, Plan
from duotomo.experiments.toroid import AFFINE, acquisition_of, grid_of, phantom_of, random_motion
from duotomo.experiments.way import splits
from duotomo.transforms import Affine

SPLITS = ((1, 1), (2, 2), (5, 5), (10, 10), (50, 50), (4, 1), (8, 2), (40, 10))
"""Steps of the volume and of the motion in one turn."""


def _at(plan: Plan) -> SetUp:
    spacing_mm = 2.0 if plan.quick else 1.0
    grid, acquisition = grid_of(spacing_mm), acquisition_of(spacing_mm)
    phantom = phantom_of(fills_the_cube=plan.level is Level.AS_PUBLISHED)

    def make(number: int) -> Case:
        scans = Scans(
            grid=grid,
            acquisition=acquisition,
            seed=None if plan.level is Level.AS_PUBLISHED else number,
            device=plan.device,
        )
        return scans.moved_by(phantom, Affine(grid_of(1.0)), random_motion(number))

    n_total = 100 if plan.quick else 1000
    chosen = SPLITS[2:5:2] if plan.quick else SPLITS
    about = {
        "grid": repr(grid),
        "phantom": repr(phantom),
        "motion": "the first random motion of toroid-simultaneous",
        "steps": f"{n_total} in all, of volume and motion together, split into turns",
    }
    return SetUp(about=about, n_cases=1, make=make, shown=1, ways=splits(grid, AFFINE, n_total, chosen))


INNER_OUTER = Experiment(
    name="inner-outer",
    title="Inner and outer iterations of the alternation",
    paper=None,
    levels=(Level.AS_PUBLISHED, Level.HONEST),
    at=_at,
)
