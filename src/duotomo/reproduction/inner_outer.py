"""How many steps a turn of the alternation should make, the total held fixed."""

from __future__ import annotations

from duotomo.reproduction.case import Case
from duotomo.reproduction.compared_method import splits
from duotomo.reproduction.data_level import DataLevel
from duotomo.reproduction.experiment import Experiment, SetUp
from duotomo.reproduction.motions import LARGE, random_affine
from duotomo.reproduction.plan import Plan
from duotomo.reproduction.toroid import FIRST_SEED, ROOM_MM, full_grid, setting_of
from duotomo.transforms import Affine

SPLITS = ((1, 1), (2, 2), (5, 5), (10, 10), (50, 50), (4, 1), (8, 2), (40, 10))
"""Steps of the volume and of the motion in one turn."""


def _at(plan: Plan) -> SetUp:
    setting = setting_of(
        plan, "inner-outer", fills_the_cube=plan.level is DataLevel.AS_PUBLISHED, room_mm=ROOM_MM
    )

    def make(number: int) -> Case:
        transform = Affine(full_grid(setting.grid, plan))
        motion = random_affine(transform, FIRST_SEED + number - 1, LARGE)
        return setting.scans(plan, number).moved_by(setting.phantom, motion, {})

    n_total = 100 if plan.quick else 1000
    chosen = SPLITS[2:5:2] if plan.quick else SPLITS
    about = setting.about | {
        "motion": "the first random motion of toroid-simultaneous",
        "steps": f"{n_total} in all, of volume and motion together, split into turns",
    }
    methods = splits(setting.grid, Affine, n_total, chosen)
    return SetUp(about=about, n_cases=1, make=make, shown=1, methods=methods)


INNER_OUTER = Experiment(
    name="inner-outer",
    title="Inner and outer iterations of the alternation",
    paper=None,
    levels=tuple(DataLevel),
    at=_at,
)
