"""The settings of a method: what makes it converge, all of it switchable."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.methods.level import FINEST, coarsening
from duotomo.methods.models import Model
from duotomo.methods.study import Study

LEAST_VOXELS = 12
"""A level of the pyramid has at least so many voxels along its longest axis, and a third along the others."""


LADDER = ("translation", "rigid", "affine")
"""Models without control points, stiffest first."""

SOFTENING = ((80, 80, 100, 100, 150), (150.0, 50.0, 15.0, 5.0, 1.0))
"""The steps of a B-spline's stages, and how many times stiffer than in the end it is in each."""

VOXELS_PER_PART = 8
"""A B-spline begins on the level that has so many voxels between two control points."""


@dataclass(frozen=True, kw_only=True)
class Priors:
    """What is known of the volume and the motion before looking, in units that need no tuning.

    total_variation: the prior's pull on a voxel, in units of the pull of noise alone: at 1, an edge must
    explain more of the data than noise could. smoothing: of the total variation, as a part of the object's
    attenuation. depth_weight: of differences along z. nonnegativity: the penalty on negative values, in units
    of the misfit's own curvature. bending: the curvature of the bending energy of a B-spline, as a part of
    the misfit's, each taken as a mean over the parameters. least_noise: the noise is taken to be at least
    this part of the largest line integral, for what a grid of voxels cannot explain. Zero leaves a prior out.
    """

    total_variation: float = 1.0
    smoothing: float = 0.01
    depth_weight: float = 1.0
    nonnegativity: float = 1.0
    bending: float = 2e-4
    least_noise: float = 1e-3

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 <= value < math.inf:
                raise DuotomoError(
                    f"Priors: expected {name} >= 0 and finite; got {value}. Zero leaves it out."
                )
        if self.total_variation > 0 and self.smoothing == 0:
            raise DuotomoError(
                "Priors: expected smoothing > 0 with total_variation; got 0. Use 0.01, or "
                "duotomo.reconstruct.TvLeastSquares for the unsmoothed one."
            )


NO_PRIORS = Priors(total_variation=0, nonnegativity=0, bending=0)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """So many steps with one model of motion at one resolution.

    coarsen: voxels united along (z, y, x). model: None keeps the motion as it is. n_steps: of the volume, at
    most; the motion makes them with it, or takes turns. fresh: begin with an empty volume, free of what
    earlier, wrong motions have left in it. stiffness: multiplies the bending energy.
    """

    coarsen: tuple[int, int, int]
    model: Model | None
    n_steps: int
    fresh: bool = False
    stiffness: float = 1.0

    def __post_init__(self) -> None:
        z, y, x = self.coarsen
        _check_counts("Stage", coarsen_z=z, coarsen_y=y, coarsen_x=x, n_steps=self.n_steps)


@dataclass(frozen=True, kw_only=True)
class Coupled:
    """Volume and motion step together: quasi-Newton in (f, zeta), begun with Gauss-Newton's matrix of zeta.

    memory: steps remembered. block: steps between two checkpoints; the memory begins anew after each.
    """

    memory: int = 12
    block: int = 150

    def __post_init__(self) -> None:
        _check_counts("Coupled", memory=self.memory, block=self.block)


@dataclass(frozen=True, kw_only=True)
class Alternating:
    """Volume and motion step in turn, the other held fixed: the decoupled solver of the paper.

    volume_steps, motion_steps: of each turn. memory: of L-BFGS. block: volume steps between two checkpoints.
    """

    volume_steps: int = 6
    motion_steps: int = 2
    memory: int = 12
    block: int = 150

    def __post_init__(self) -> None:
        steps = {"volume_steps": self.volume_steps, "motion_steps": self.motion_steps}
        _check_counts("Alternating", **steps, memory=self.memory, block=self.block)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a method runs.

    stages: in order. initial_guess: start from the centres of attenuation instead of from identity. tolerance:
    a stage ends once a step lowers the objective by no more than this part of it. central_step: differentiate
    warps by central differences of this step in the parameters, as the paper does; None for exactly.
    """

    stages: tuple[Stage, ...]
    solver: Coupled | Alternating = field(default_factory=Coupled)
    priors: Priors = field(default_factory=Priors)
    initial_guess: bool = True
    tolerance: float = 1e-5
    central_step: float | None = None

    def __post_init__(self) -> None:
        if not self.stages:
            raise DuotomoError("Settings: expected at least one stage; got none. Use Settings.staged.")

    @classmethod
    def for_study(
        cls,
        study: Study,
        model: Model,
        *,
        solver: Coupled | Alternating | None = None,
        priors: Priors | None = None,
        n_steps: int = 120,
    ) -> Settings:
        """Return the staged settings that suit a study.

        With two visits, those of `staged`. With more, only the translation comes before the model: a rigid
        stage that leads one visit astray spoils the volume that all of them share.
        """
        through = ("translation",) if len(study.moving) > 1 and model.name != "translation" else None
        return cls.staged(study.grid, model, solver=solver, priors=priors, through=through, n_steps=n_steps)

    @classmethod
    def staged(
        cls,
        grid: VolumeGrid,
        model: Model,
        *,
        solver: Coupled | Alternating | None = None,
        priors: Priors | None = None,
        through: tuple[str, ...] | None = None,
        n_steps: int = 120,
    ) -> Settings:
        """Return the settings that need no tuning: stiff models first, coarse grids first.

        through: the models before `model`, stiffest first; None for all that are stiffer, but only the
        translation before a B-spline, which begins so stiff that it moves like an affine transform.

        A first model on the coarsest level, the others on the next, the model itself there and on the third.
        Then the volume is made anew with the motion found, and both are polished together from the third
        level to the full resolution, there in up to `n_steps` steps. A B-spline begins where there are enough
        voxels between its control points, with a volume made for the motion before it, and grows softer from
        stage to stage.
        """
        levels = pyramid(grid)
        if through is None:
            through = ("translation",) if model.name == "bspline" else LADDER[: LADDER.index(model.name)]
        second = levels[1] if len(levels) > 1 else levels[0]
        stages = [Stage(coarsen=levels[0], model=Model(through[0]) if through else model, n_steps=20)]
        stages += [Stage(coarsen=second, model=Model(name), n_steps=20) for name in through[1:]]
        if model.control_shape is None:
            coarse = levels[:3]
            stages.append(Stage(coarsen=second, model=model, n_steps=150))
            stages += [Stage(coarsen=level, model=model, n_steps=80) for level in coarse[2:]]
            stages += _anew(coarse[:-1], n_steps=200)
            stages += [Stage(coarsen=level, model=model, n_steps=120) for level in levels[2:-1]]
        else:
            fine = _fine_levels(grid, model.control_shape, levels)
            stages += _anew(levels[: levels.index(fine[0]) + 1], n_steps=100)
            stages += [
                Stage(coarsen=level, model=model, n_steps=steps, stiffness=stiffness)
                for level, steps, stiffness in zip((*fine[:1] * 2, *fine[-1:] * 3), *SOFTENING, strict=True)
            ]
        stages.append(Stage(coarsen=levels[-1], model=model, n_steps=n_steps))
        return cls(stages=tuple(stages), solver=solver or Coupled(), priors=priors or Priors())

    @classmethod
    def plain(
        cls, model: Model, *, n_turns: int = 100, volume_steps: int = 5, motion_steps: int = 5
    ) -> Settings:
        """Return the paper's algorithm to the letter.

        Zero volume, identity, one resolution, one model, no prior, central differences, alternation.
        """
        solver = Alternating(volume_steps=volume_steps, motion_steps=motion_steps)
        return cls(
            stages=(Stage(coarsen=FINEST, model=model, n_steps=n_turns * volume_steps),),
            solver=solver,
            priors=NO_PRIORS,
            initial_guess=False,
            tolerance=0.0,
            central_step=0.01,
        )

    def with_known_motion(self) -> Settings:
        """Return the same settings for a motion that is known: in all stages only the volume moves."""
        return replace(self, stages=tuple(replace(stage, model=None) for stage in self.stages))


def _anew(levels: list[tuple[int, int, int]], *, n_steps: int) -> list[Stage]:
    """Return stages that make the volume from nothing, for the motion as it is."""
    return [
        Stage(coarsen=level, model=None, n_steps=n_steps, fresh=index == 0)
        for index, level in enumerate(levels)
    ]


def _fine_levels(
    grid: VolumeGrid, control_shape: tuple[int, int, int], levels: list[tuple[int, int, int]]
) -> list[tuple[int, int, int]]:
    """Return the one or two finest levels, the coarser of which still sees what a B-spline does."""
    parts = [size / (n - 3) for size, n in zip(grid.size_mm, control_shape, strict=True)]
    fine = [
        level
        for level in levels
        if all(
            spacing * factor * VOXELS_PER_PART <= part
            for spacing, factor, part in zip(grid.spacing_mm, level, parts, strict=True)
        )
    ]
    return (fine or levels[-1:])[-2:]


def _check_counts(where: str, **counts: int) -> None:
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise DuotomoError(
                f"{where}: expected {name} as a whole number >= 1; got {count!r}. Choose another."
            )


def pyramid(grid: VolumeGrid) -> list[tuple[int, int, int]]:
    """Return the levels' factors, coarsest first, each with voxels of about half the size of the one before.

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
