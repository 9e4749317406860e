"""Motions, settings and checkpoints of short runs, on the studies of `tests.cases.studies`."""

from __future__ import annotations

from dataclasses import replace

from duotomo.geometry import VolumeGrid
from duotomo.methods import Coupled, Settings, Stage, State
from duotomo.transforms import Affine, BSpline, Model, Motion, Rigid, Translation, model_name
from tests.cases.studies import GRID, shifted, truth, turned

SHIFT = shifted(5.0, -3.0, 4.0)
TURN = turned(3.0, 8.0, -4.0, translation_mm=(4.0, -2.0, 3.0))
VOXEL_MM = GRID.spacing_mm[0]
OWN = VolumeGrid(shape=(15, 16, 17), spacing_mm=(3.0, 3.0, 3.0), center_mm=(27.0, 22.0, -4.0))
"""A grid that a moving visit has for itself."""

SPLINES = BSpline.shaped((4, 4, 4)), BSpline.shaped((5, 5, 5))
MODELS: dict[str, Model] = {model_name(model): model for model in (Translation, Rigid, Affine, *SPLINES)}
"""Models by their names, such as "bspline:4,4,4"."""


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
