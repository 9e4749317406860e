"""The multi-resolution schedule: which model of motion is estimated at which resolution, in which order."""

from __future__ import annotations

from dataclasses import dataclass, fields

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.methods.level import FINEST, Factors, coarsening
from duotomo.transforms import Affine, Model, Rigid, Translation
from duotomo.transforms.models import ChainModel, model_repr

LEAST_VOXELS = 12
"""Voxels of a pyramid level along its longest axis, at least, and a third of that along the others."""

LADDER: tuple[Model, ...] = (Translation, Rigid, Affine)
"""Models without control points, stiffest first."""

SOFTENING = ((80, 80, 100, 100, 150), (150.0, 50.0, 15.0, 5.0, 1.0))
"""Steps of the stages of a model with control points, and the factor of its bending energy in each."""

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
        if max(shape) < LEAST_VOXELS or min(shape) < LEAST_VOXELS // 3 or len(levels) == 5:
            return levels[::-1]
        levels.append(factors)


def stages_of(
    grid: VolumeGrid, model: Model, *, through: tuple[Model, ...] | None, n_steps: int
) -> tuple[Stage, ...]:
    """Return the schedule that `Settings.staged` describes."""
    levels = pyramid(grid)
    interval_mm = model(grid).control_spacing_mm
    through = _stiffer(model) if through is None else through
    second = levels[1] if len(levels) > 1 else levels[0]
    stages = [Stage(coarsen=levels[0], model=through[0] if through else model, n_steps=20)]
    stages += [Stage(coarsen=second, model=stiffer, n_steps=20) for stiffer in through[1:]]
    if interval_mm is None:
        coarse = levels[:3]
        stages.append(Stage(coarsen=second, model=model, n_steps=150))
        stages += [Stage(coarsen=level, model=model, n_steps=80) for level in coarse[2:]]
        stages += _anew(coarse[:-1], n_steps=200)
        stages += [Stage(coarsen=level, model=model, n_steps=120) for level in levels[2:-1]]
    else:
        fine = _fine_levels(grid, interval_mm, levels)
        stages += _anew(levels[: levels.index(fine[0]) + 1], n_steps=100)
        stages += [
            Stage(coarsen=level, model=model, n_steps=steps, stiffness=stiffness)
            for level, steps, stiffness in zip((*fine[:1] * 2, *fine[-1:] * 3), *SOFTENING, strict=True)
        ]
    stages.append(Stage(coarsen=levels[-1], model=model, n_steps=n_steps))
    return tuple(stages)


def _stiffer(model: Model) -> tuple[Model, ...]:
    """Return the models that come before another one, stiffest first."""
    if model in LADDER:
        return LADDER[: LADDER.index(model)]
    if isinstance(model, ChainModel) and model.parts[0] in LADDER:
        return LADDER[: LADDER.index(model.parts[0]) + 1]
    return LADDER[:1]


def _anew(levels: list[Factors], *, n_steps: int) -> list[Stage]:
    """Return stages that reconstruct the volume from zeros, for a fixed motion."""
    return [
        Stage(coarsen=level, model=None, n_steps=n_steps, fresh=index == 0)
        for index, level in enumerate(levels)
    ]


def _fine_levels(
    grid: VolumeGrid, interval_mm: tuple[float, float, float], levels: list[Factors]
) -> list[Factors]:
    """Return the one or two finest levels, the coarser of which still resolves the control points."""
    fine = [
        level
        for level in levels
        if all(
            spacing * factor * VOXELS_PER_INTERVAL <= interval
            for spacing, factor, interval in zip(grid.spacing_mm, level, interval_mm, strict=True)
        )
    ]
    return (fine or levels[-1:])[-2:]
