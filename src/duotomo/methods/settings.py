"""The settings of a method: schedule, solver, priors and tolerances."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.methods.level import FINEST, Basis
from duotomo.methods.priors import NO_PRIORS, Priors
from duotomo.methods.schedule import LADDER, Stage, check_counts, models_of, stages_of
from duotomo.methods.study import Study
from duotomo.transforms import Affine, BSpline, Model

N_STEPS = 4000
"""Steps that finish the volume at full resolution, at most."""

AUTOMATIC_MM = 22.0
"""From one control point to the next, where the data ask for control points."""


LARGE_VOXELS, LARGE_MEMORY = 50_000_000, 10
"""From how many voxels on fewer steps are remembered, and how many: 120 million need 22 GiB, not 31."""


@dataclass(frozen=True, kw_only=True)
class Coupled:
    """Joint quasi-Newton steps in volume and motion, preconditioned by the Gauss-Newton matrix of the motion.

    Parameters
    ----------
    memory : int
        Steps that L-BFGS remembers.
    block : int
        Steps between two checkpoints; L-BFGS restarts after each.

    Raises
    ------
    DuotomoError
        If a count is below 1.
    """

    memory: int = 20
    block: int = 500

    def __post_init__(self) -> None:
        check_counts("Coupled", memory=self.memory, block=self.block)

    @classmethod
    def for_grid(cls, grid: VolumeGrid) -> Coupled:
        """Return what suits the volume's size: on more than 50 million voxels, 10 steps are remembered.

        Parameters
        ----------
        grid : VolumeGrid
            Of the volume.

        Returns
        -------
        Coupled
            With two copies of the volume for each step that it remembers.

        Examples
        --------
        >>> clinical = VolumeGrid.on_detector((60, 1000, 2000), (1.0, 0.1, 0.1))
        >>> Coupled.for_grid(clinical).memory, Coupled.for_grid(clinical.coarsen((1, 2, 2))).memory
        (10, 20)
        """
        return cls(memory=LARGE_MEMORY) if grid.n_voxels > LARGE_VOXELS else cls()


@dataclass(frozen=True, kw_only=True)
class Alternating:
    """Steps of volume and motion in turn, the other held fixed: the decoupled solver of the paper.

    Parameters
    ----------
    volume_steps, motion_steps : int
        Steps of each turn.
    memory, block
        As for `Coupled`; a block has so many steps of the volume.

    Raises
    ------
    DuotomoError
        As for `Coupled`.
    """

    volume_steps: int = 6
    motion_steps: int = 2
    memory: int = 12
    block: int = 150

    def __post_init__(self) -> None:
        steps = {"volume_steps": self.volume_steps, "motion_steps": self.motion_steps}
        check_counts("Alternating", **steps, memory=self.memory, block=self.block)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a method.

    Parameters
    ----------
    stages : tuple of Stage
        The multi-resolution schedule, in order.
    solver : Coupled or Alternating
        Joint or alternating updates of volume and motion.
    priors : Priors
        Weights of the priors.
    initial_guess : bool
        Start from the centres of attenuation instead of from the identity.
    tolerance : float
        A stage ends once steps lower the objective by no more than this fraction of it, each, in the mean
        over ten.
    basis : str
        "spline": the volume holds coefficients of a cubic spline, warps interpolate by cubic convolution, and
        data are smoothed as the spline smooths the volume. "voxel": it holds values of voxels, and warps
        interpolate linearly.
    stiffer : tuple of Stage
        Stages that the method `simultaneous` goes on with, instead of those of `stages`, where the data do
        not ask for control points; they begin like these. None unless given.
    central_step : float, optional
        Differentiate warps by central differences of this step in the parameters, as the paper does; exactly
        unless given.

    Raises
    ------
    DuotomoError
        If there are no stages.
    """

    stages: tuple[Stage, ...]
    solver: Coupled | Alternating = field(default_factory=Coupled)
    priors: Priors = field(default_factory=Priors)
    initial_guess: bool = True
    tolerance: float = 5e-6
    basis: Basis = "spline"
    stiffer: tuple[Stage, ...] = ()
    central_step: float | None = None

    def __post_init__(self) -> None:
        if not self.stages:
            raise DuotomoError("Settings: expected at least one stage; got none. Use Settings.staged.")

    @classmethod
    def automatic(
        cls,
        study: Study,
        *,
        solver: Coupled | Alternating | None = None,
        priors: Priors | None = None,
        n_steps: int = N_STEPS,
    ) -> Settings:
        """Return settings that leave the model of motion to the data: affine, or control points after it.

        The method `simultaneous` estimates an affine motion first. Where its residuals ask for control
        points (`model_choice`), or where these move tissue when they are tried, it goes on with a B-spline,
        22 mm from one to the next; else without. The other methods estimate the affine motion only.

        Parameters
        ----------
        study, solver, priors, n_steps
            As for `for_study`.

        Returns
        -------
        Settings
            With both schedules.
        """
        stiff = cls.for_study(study, Affine, solver=solver, priors=priors, n_steps=n_steps)
        # The affine motion comes first in both, with three visits too.
        through = models_of(stiff.stages)
        soft = stages_of(study.grid, BSpline.spaced(AUTOMATIC_MM), through=through, n_steps=n_steps)
        return replace(stiff, stages=soft, stiffer=stiff.stages)

    @property
    def without_choice(self) -> Settings:
        """The same with the stiffer model, if there are two."""
        return replace(self, stages=self.stiffer, stiffer=()) if self.stiffer else self

    @classmethod
    def for_study(
        cls,
        study: Study,
        model: Model,
        *,
        solver: Coupled | Alternating | None = None,
        priors: Priors | None = None,
        n_steps: int = N_STEPS,
    ) -> Settings:
        """Return the staged settings that suit a study.

        With two visits, those of `staged`. With more, only the translation comes before the model: a rigid
        stage that misaligns one visit degrades the volume that all of them share.

        Parameters
        ----------
        study : Study
            The visits, and the grid of the volume.
        model : Model
            Of the motion: a transform class, or what `BSpline.spaced`, `chain` and their like return.
        solver : Coupled or Alternating, optional
            `Coupled.for_grid` unless given.
        priors : Priors, optional
            The default ones unless given.
        n_steps : int
            Steps at full resolution, at most.

        Returns
        -------
        Settings
            For any of the methods.
        """
        through = LADDER[:1] if len(study.moving) > 1 and model is not LADDER[0] else None
        return cls.staged(study.grid, model, solver=solver, priors=priors, through=through, n_steps=n_steps)

    @classmethod
    def staged(
        cls,
        grid: VolumeGrid,
        model: Model,
        *,
        solver: Coupled | Alternating | None = None,
        priors: Priors | None = None,
        through: tuple[Model, ...] | None = None,
        n_steps: int = N_STEPS,
    ) -> Settings:
        """Return a multi-resolution schedule that needs no tuning: stiff models and coarse grids first.

        All models are estimated on the coarsest level, one after the other; the last is refined with the
        volume on every level, until it settles. Then it is held fixed, and the volume is finished. A model
        with control points begins where there are enough voxels between them, from the affine transform
        found before, and its bending energy is lowered from stage to stage.

        Parameters
        ----------
        grid : VolumeGrid
            Of the volume.
        model, solver, priors
            As for `for_study`.
        through : tuple of Model, optional
            The models before `model`, stiffest first. Unless given: those of translation, rigid and affine
            that are stiffer; before a chain those up to its first part; before any other model all three.
        n_steps
            As for `for_study`.

        Returns
        -------
        Settings
            For any of the methods.
        """
        stages = stages_of(grid, model, through=through, n_steps=n_steps)
        return cls(stages=stages, solver=solver or Coupled.for_grid(grid), priors=priors or Priors())

    @classmethod
    def plain(
        cls, model: Model, *, n_turns: int = 100, volume_steps: int = 5, motion_steps: int = 5
    ) -> Settings:
        """Return the settings of the paper's algorithm.

        A volume of zeros, the identity, one resolution, one model, no prior, central differences,
        alternation.

        Parameters
        ----------
        model : Model
            Of the motion.
        n_turns : int
            Turns of volume and motion.
        volume_steps, motion_steps : int
            Steps of each turn.

        Returns
        -------
        Settings
            For any of the methods.
        """
        solver = Alternating(volume_steps=volume_steps, motion_steps=motion_steps)
        return cls(
            stages=(Stage(coarsen=FINEST, model=model, n_steps=n_turns * volume_steps),),
            solver=solver,
            priors=NO_PRIORS,
            initial_guess=False,
            tolerance=0.0,
            basis="voxel",
            central_step=0.01,
        )

    def with_known_motion(self) -> Settings:
        """Return the same settings for a known motion: all stages update the volume only.

        With splines as the basis there is one stage for each resolution.

        Returns
        -------
        Settings
            Without a model in any stage.
        """
        stages = tuple(replace(stage, model=None) for stage in self.without_choice.stages)
        if self.basis == "spline":
            levels = dict.fromkeys(stage.coarsen for stage in stages)
            most = [max(one.n_steps for one in stages if one.coarsen == level) for level in levels]
            pairs = zip(levels, most, strict=True)
            stages = tuple(Stage(coarsen=level, model=None, n_steps=n_steps) for level, n_steps in pairs)
        return replace(self, stages=stages, stiffer=())
