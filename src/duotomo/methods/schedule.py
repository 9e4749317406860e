"""The multi-resolution schedule: which model of motion is estimated at which resolution, in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.methods.level import FINEST, Factors, coarsening
from duotomo.transforms import Affine, Model, Rigid, Translation
from duotomo.transforms.models import ChainModel, model_repr

LEAST_VOXELS = 16
"""Voxels of a pyramid level along its longest axis, at least, and a third of that along the others."""

LARGEST_MM = 12.0
"""Edge of the voxels of a pyramid level, at most."""

JUDGED_MM = 6.0
"""Edge of the voxels, at most, where control points may be added to an affine motion."""

LADDER: tuple[Model, ...] = (Translation, Rigid, Affine)
"""Models without control points, stiffest first."""

SOFTENING = (10.0, 3.0)
"""Factors of the bending energy in the first stages of a model with control points."""

FIRST_STEPS, LATTICE_STEPS, LEVEL_STEPS, LAST_STEPS = 25, 150, 100, 300
"""Steps of motion and volume, at most: of a model that others follow, of one with control points at each
stiffness, of a level, and of the finest level without control points."""

VOXELS_PER_INTERVAL = 8
"""Voxels between two control points, at least, of the first level of a model with control points."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage of the multi-resolution schedule: one model of motion at one resolution.

    Parameters
    ----------
    coarsen : tuple of int
        Voxels combined along (z, y, x).
    model : Model or None
        Builds the transform of each moving visit; None keeps the motion fixed.
    n_steps : int
        Steps of the volume, at most; the motion is updated together or in turn with it.
    fresh : bool
        Start from a volume of zeros, without the artefacts of earlier, inaccurate motions.
    stiffness : float
        Multiplies the bending energy.

    Raises
    ------
    DuotomoError
        If a count is below 1, or the model is not callable.
    """

    coarsen: Factors
    model: Model | None
    n_steps: int
    fresh: bool = False
    stiffness: float = 1.0

    def __post_init__(self) -> None:
        z, y, x = self.coarsen
        check_counts("Stage", coarsen_z=z, coarsen_y=y, coarsen_x=x, n_steps=self.n_steps)
        if self.model is not None and not callable(self.model):
            raise DuotomoError(
                f"Stage: expected a model that builds a transform on a grid, such as Affine or "
                f"BSpline.spaced(25.0); got {self.model!r}. Pass the class, not its name."
            )

    def __repr__(self) -> str:
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        shown = {**{name: repr(value) for name, value in values.items()}, "model": model_repr(self.model)}
        return f"Stage({', '.join(f'{name}={value}' for name, value in shown.items())})"


def check_counts(where: str, **counts: int) -> None:
    """Raise unless every count is a whole number from 1 on."""
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise DuotomoError(
                f"{where}: expected {name} as a whole number >= 1; got {count!r}. Choose another."
            )


def pyramid(grid: VolumeGrid) -> list[Factors]:
    """Return the levels' factors, coarsest first, each with voxels of about half the size of the one before.

    Examples
    --------
    >>> pyramid(VolumeGrid.on_detector((70, 70, 70), (1.0, 1.0, 1.0)))
    [(4, 4, 4), (2, 2, 2), (1, 1, 1)]
    """
    levels = [FINEST]
    edge_mm = min(grid.spacing_mm)
    while True:
        factors = coarsening(grid, edge_mm * 2 ** len(levels))
        shape = grid.coarsen(factors).shape
        too_few = max(shape) < LEAST_VOXELS or min(shape) < LEAST_VOXELS // 3
        if too_few or edge_mm * 2 ** len(levels) > LARGEST_MM:
            return levels[::-1]
        levels.append(factors)


def models_of(stages: Sequence[Stage]) -> tuple[Model, ...]:
    """Return the models of a schedule, each once, in their order."""
    return tuple(dict.fromkeys(stage.model for stage in stages if stage.model is not None))


def stages_of(
    grid: VolumeGrid, model: Model, *, through: tuple[Model, ...] | None, n_steps: int
) -> tuple[Stage, ...]:
    """Return the schedule that `Settings.staged` describes."""
    levels = pyramid(grid)
    interval_mm = model(grid).control_spacing_mm
    through = _stiffer(model) if through is None else through
    # A volume made with another motion holds that motion in place: models begin with a volume of their own.
    stages = [
        Stage(coarsen=levels[0], model=one, n_steps=FIRST_STEPS, fresh=number > 0)
        for number, one in enumerate(through)
    ]
    if interval_mm is None:
        stages.append(Stage(coarsen=levels[0], model=model, n_steps=FIRST_STEPS, fresh=bool(through)))
        stages.append(Stage(coarsen=levels[0], model=model, n_steps=LEVEL_STEPS, fresh=True))
        stages += [Stage(coarsen=level, model=model, n_steps=LEVEL_STEPS) for level in levels[1:-1]]
    else:
        first = _first_level(grid, interval_mm, levels)
        if through:
            stages.append(replace(stages[-1], n_steps=LEVEL_STEPS, fresh=True))
            # An affine motion is refined where the data can tell whether it is enough.
            judged = first > 0 and _edge_mm(grid, levels[first - 1]) <= JUDGED_MM
            between = levels[1 : first if judged else first + 1]
            stages += [Stage(coarsen=level, model=through[-1], n_steps=LEVEL_STEPS) for level in between]
        stages += [
            Stage(
                coarsen=levels[first],
                model=model,
                n_steps=LATTICE_STEPS,
                stiffness=stiffness,
                fresh=number == 0 and bool(through),
            )
            for number, stiffness in enumerate((*SOFTENING, 1.0))
        ]
        stages += [Stage(coarsen=level, model=model, n_steps=LEVEL_STEPS) for level in levels[first + 1 : -1]]
    last = LAST_STEPS if interval_mm is None else LEVEL_STEPS
    stages.append(Stage(coarsen=levels[-1], model=model, n_steps=min(n_steps, last)))
    # The motion has settled by now; the volume takes longer.
    stages.append(Stage(coarsen=levels[-1], model=None, n_steps=n_steps))
    return tuple(stages)


def _stiffer(model: Model) -> tuple[Model, ...]:
    """Return the models that come before another one, stiffest first."""
    if model in LADDER:
        return LADDER[: LADDER.index(model)]
    if isinstance(model, ChainModel) and model.parts[0] in LADDER:
        return LADDER[: LADDER.index(model.parts[0]) + 1]
    return LADDER


def _edge_mm(grid: VolumeGrid, level: Factors) -> float:
    return max(spacing * factor for spacing, factor in zip(grid.spacing_mm, level, strict=True))


def _first_level(grid: VolumeGrid, interval_mm: tuple[float, float, float], levels: list[Factors]) -> int:
    """Return the number of the coarsest level that resolves the control points, or of the finest."""
    for number, level in enumerate(levels):
        edges = (spacing * factor for spacing, factor in zip(grid.spacing_mm, level, strict=True))
        pairs = zip(edges, interval_mm, strict=True)
        if all(edge * VOXELS_PER_INTERVAL <= interval for edge, interval in pairs):
            return number
    return len(levels) - 1
