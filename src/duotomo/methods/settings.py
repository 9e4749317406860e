"""The settings of a method: what makes it converge, all of it switchable."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.methods.level import FINEST, coarsening
from duotomo.methods.models import Model

LEAST_VOXELS = 12
"""A level of the pyramid has at least so many voxels along its longest axis, and a third along the others."""


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

    total_variation: float = 0.3
    smoothing: float = 0.01
    depth_weight: float = 1.0
    nonnegativity: float = 1.0
    bending: float = 1e-3
    least_noise: float = 1e-3

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 <= value < math.inf:
                raise DuotomoError(f"Priors: expected {name} >= 0 and finite; got {value}. Zero leaves it out.")
        if self.total_variation > 0 and self.smoothing == 0:
            raise DuotomoError(
                "Priors: expected smoothing > 0 with total_variation; got 0. Use 0.01, or "
                "duotomo.reconstruct.TotalVariation for the unsmoothed one."
            )


NO_PRIORS = Priors(total_variation=0, nonnegativity=0, bending=0)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """So many steps with one model of motion at one resolution.

    coarsen: voxels united along (z, y, x). model: None keeps the motion as it is. n_steps: at most. fresh:
    begin with an empty volume, free of what earlier, wrong motions have left in it.
    """

    coarsen: tuple[int, int, int]
    model: Model | None
    n_steps: int
    fresh: bool = False


@dataclass(frozen=True, kw_only=True)
class Coupled:
    """Volume and motion step together: quasi-Newton in (f, zeta), begun with Gauss-Newton's matrix of zeta.

    memory: steps remembered. block: steps between two checkpoints; the memory begins anew after each.
    """

    memory: int = 12
    block: int = 150


@dataclass(frozen=True, kw_only=True)
class Alternating:
    """Volume and motion step in turn, the other held fixed: the decoupled solver of the paper.

    volume_steps, motion_steps: of each turn. block: turns between two checkpoints. memory: of L-BFGS.
    """

    volume_steps: int = 6
    motion_steps: int = 2
    memory: int = 20
    block: int = 5


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a method runs.

    stages: in order. first_guess: start from the centres of attenuation instead of from identity. tolerance:
    a stage ends once a step lowers the objective by no more than this part of it. central_step: differentiate
    warps by central differences of this step in the parameters, as the paper does; None for exactly.
    """

    stages: tuple[Stage, ...]
    solver: Coupled | Alternating = Coupled()
    priors: Priors = Priors()
    first_guess: bool = True
    tolerance: float = 1e-5
    central_step: float | None = None

    def __post_init__(self) -> None:
        if not self.stages:
            raise DuotomoError("Settings: expected at least one stage; got none. Use Settings.staged.")

    @classmethod
    def staged(
        cls,
        grid: VolumeGrid,
        model: Model,
        *,
        solver: Coupled | Alternating | None = None,
        priors: Priors | None = None,
        n_steps: int = 120,
    ) -> Settings:
        """Return the settings that need no tuning: stiff models first, coarse grids first.

        Translation on the coarsest level; rigid, affine and the model itself on the next; the model on all
        finer ones. Then the volume is made anew with the motion found, from the coarsest level on, and both
        are polished together at full resolution, in up to `n_steps` steps.
        """
        levels = pyramid(grid)
        second = levels[1] if len(levels) > 1 else levels[0]
        stages = [Stage(coarsen=levels[0], model=Model("translation"), n_steps=20)]
        if model.name != "translation":
            stages.append(Stage(coarsen=second, model=Model("rigid"), n_steps=40))
        if model.name in ("affine", "bspline"):
            stages.append(Stage(coarsen=second, model=Model("affine"), n_steps=150))
        if model.name == "bspline":
            stages.append(Stage(coarsen=second, model=model, n_steps=150))
        stages += [Stage(coarsen=level, model=model, n_steps=60) for level in levels[2:]]
        stages += [Stage(coarsen=level, model=None, n_steps=200, fresh=level == levels[0]) for level in levels[:-1]]
        stages.append(Stage(coarsen=levels[-1], model=model, n_steps=n_steps))
        return cls(stages=tuple(stages), solver=solver or Coupled(), priors=priors or Priors())

    @classmethod
    def plain(cls, model: Model, *, n_turns: int = 100, volume_steps: int = 5, motion_steps: int = 5) -> Settings:
        """Return the paper's algorithm to the letter.

        Zero volume, identity, one resolution, one model, no prior, central differences, alternation.
        """
        solver = Alternating(volume_steps=volume_steps, motion_steps=motion_steps)
        return cls(
            stages=(Stage(coarsen=FINEST, model=model, n_steps=n_turns),),
            solver=solver,
            priors=NO_PRIORS,
            first_guess=False,
            tolerance=0.0,
            central_step=0.01,
        )

    def with_known_motion(self) -> Settings:
        """Return the same settings for a motion that is known: the stages keep it, and only the volume moves."""
        return replace(self, stages=tuple(replace(stage, model=None) for stage in self.stages))


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
