"""Small studies whose truth is known: three balls in a box, seen without noise from where they moved to."""

from __future__ import annotations

from dataclasses import replace
from math import radians

import torch

from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.methods import Coupled, Priors, Settings, Stage, State, Study, Visit
from duotomo.operators import Projector
from duotomo.phantoms import Ellipsoid
from duotomo.transforms import Affine, BSpline, Model, Motion, Rigid, Translation

GRID = VolumeGrid.on_detector((14, 14, 16), (3.0, 3.0, 3.0), gap_mm=5.0)

SCAN = Acquisition.arc(
    n_views=7,
    angle_range_rad=radians(50),
    source_to_detector_mm=660.0,
    pivot_height_mm=0.0,
    detector_shape=(16, 26),
    pixel_spacing_mm=(3.0, 3.0),
)

BALLS = (
    Ellipsoid(center_mm=(-4.0, 20.0, 24.0), radii_mm=(12.0, 10.0, 11.0), value=0.05),
    Ellipsoid(center_mm=(6.0, 25.0, 30.0), radii_mm=(5.0, 5.0, 5.0), value=0.08),
    Ellipsoid(center_mm=(-8.0, 14.0, 19.0), radii_mm=(4.0, 4.0, 5.0), value=0.08),
)

WEAK = Priors(total_variation=0.3)
"""For balls of a few voxels: the default, which suits breasts, blurs them, and with them the motion."""

MODELS: dict[str, Model] = {
    "translation": Translation,
    "rigid": Rigid,
    "affine": Affine,
    "bspline:4,4,4": BSpline.shaped((4, 4, 4)),
    "bspline:5,5,5": BSpline.shaped((5, 5, 5)),
}
"""Models by their names."""


def truth(grid: VolumeGrid = GRID, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return the balls on a grid, (z, y, x)."""
    return sum(torch.from_numpy(ball.voxels(grid)) for ball in BALLS).to(dtype)  # type: ignore[union-attr]


def shifted(*translation_mm: float, grid: VolumeGrid = GRID) -> Motion:
    """Return a translation, xyz."""
    shift = Translation(grid)
    return Motion(shift, shift.params(translation_mm=translation_mm))


def turned(
    *rotation_deg: float, translation_mm: tuple[float, float, float], grid: VolumeGrid = GRID
) -> Motion:
    """Return a rigid motion, xyz."""
    rigid = Rigid(grid)
    return Motion(rigid, rigid.params(rotation_deg=rotation_deg, translation_mm=translation_mm))


def seen(
    motion: Motion | None = None,
    *,
    acquisition: Acquisition = SCAN,
    grid: VolumeGrid | None = None,
    dtype: torch.dtype = torch.float32,
) -> Visit:
    """Return a visit without noise, on the grid of the reconstruction."""
    volume = truth(dtype=dtype)
    if motion is not None:
        volume = motion.warp(GRID, grid or GRID)(volume)
    projections = Projector(grid=grid or GRID, acquisition=acquisition)(volume)
    return Visit(projections=projections, acquisition=acquisition, grid=grid)


def study(*motions: Motion, dtype: torch.dtype = torch.float32) -> Study:
    """Return a study of the reference and one visit after each motion."""
    return Study(grid=GRID, visits=(seen(dtype=dtype), *(seen(motion, dtype=dtype) for motion in motions)))


def stages(*models: str | None, n_steps: int, coarsen: int = 1) -> tuple[Stage, ...]:
    """Return a stage for each model."""
    return tuple(
        Stage(coarsen=(coarsen,) * 3, model=None if model is None else MODELS[model], n_steps=n_steps)
        for model in models
    )


def short(model: str = "rigid") -> Settings:
    """Return settings with several blocks on two levels, and so few steps that they take no time."""
    return Settings(
        stages=(
            *stages("translation", n_steps=5, coarsen=2),
            *stages(model, n_steps=5),
            *stages(None, n_steps=3),
        ),
        solver=Coupled(memory=4, block=2),
    )


def error_mm(found: Motion, true: Motion) -> float:
    """Return the mean distance between where two motions take the points of the balls."""
    grid = found.grid
    inside = true.warp(GRID, grid)(truth()) > 0.02
    return float((found.displacement(grid) - true.displacement(grid)).norm(dim=0)[inside].mean())


class Memory:
    """A checkpoint that keeps every state."""

    def __init__(self, *states: State) -> None:
        self.states = list(states)

    def load(self) -> State | None:
        return self.states[-1] if self.states else None

    def save(self, state: State) -> None:
        # A copy, as from a file: what a method goes on to change in place must not change the past.
        volumes = {name: volume.clone() for name, volume in state.volumes.items()}
        self.states.append(replace(state, volumes=volumes))
