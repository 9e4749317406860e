"""What a method carries from one block of steps to the next, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch

from duotomo.geometry import Picture, VolumeGrid
from duotomo.solvers import Status
from duotomo.transforms import Transform


@dataclass(frozen=True, kw_only=True)
class Record:
    """Where a method stood after a step.

    stage: its place in the schedule, from 0. what: which part worked, such as "rigid at 4 mm". step: since
    the start of the method. applications: of projectors or their adjoints, one visit each, since the start.
    seconds: of computing, since the start.
    """

    stage: int
    what: str
    step: int
    objective: float
    gradient_norm: float
    step_size: float
    applications: int
    seconds: float


@dataclass(frozen=True, kw_only=True, eq=False)
class State:
    """All that a method needs to go on: whoever has the state of a block gets the same result.

    stage, block: the next block to compute, counted within the stage. volumes: by name, (z, y, x) on the grid
    of the stage before. coarsen: the factors, (z, y, x), of that grid. params: of each moving visit, for the
    model of the stage before. model: its name. status, reason: of the last block.
    """

    stage: int
    block: int
    volumes: dict[str, torch.Tensor] = field(repr=False)
    coarsen: tuple[int, int, int]
    model: str
    params: tuple[torch.Tensor, ...]
    status: Status
    reason: str
    applications: int
    seconds: float
    history: tuple[Record, ...] = field(repr=False)


class Checkpoint(Protocol):
    """Where states are kept, so that a run that was killed can go on."""

    def load(self) -> State | None:
        """Return the last state saved, or None if there is none."""

    def save(self, state: State) -> None:
        """Keep a state, in place of the last one."""


OnRecord = Callable[[Record], None]


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """What a method found.

    volume: of the reference visit, (z, y, x) on `grid`, 1/mm. others: further volumes by name, such as those
    of the moving visits; on `grid` too, but for those that `grids` names. transforms, params:
    moving_to_reference of each moving visit. applications: of projectors or adjoints, one visit each.
    """

    method: str
    grid: VolumeGrid
    volume: torch.Tensor = field(repr=False)
    others: dict[str, torch.Tensor] = field(default_factory=dict, repr=False)
    grids: dict[str, VolumeGrid] = field(default_factory=dict)
    transforms: tuple[Transform, ...]
    params: tuple[torch.Tensor, ...] = field(repr=False)
    status: Status
    reason: str
    applications: int
    seconds: float
    history: tuple[Record, ...] = field(repr=False)

    def _repr_html_(self) -> str:
        return summary_html(self, [type(transform).__name__ for transform in self.transforms])


class Ended(Protocol):
    """A result, as a method returned it or as a folder holds it."""

    @property
    def method(self) -> str: ...
    @property
    def grid(self) -> VolumeGrid: ...
    @property
    def volume(self) -> torch.Tensor: ...
    @property
    def status(self) -> Status: ...
    @property
    def reason(self) -> str: ...
    @property
    def applications(self) -> int: ...
    @property
    def seconds(self) -> float: ...


def summary_html(result: Ended, models: Sequence[str]) -> str:
    """Return a result as a notebook shows it: three slices of its volume, how it ended, and what it cost.

    models: the names of the transforms.
    """
    facts = {
        "status": f"{result.status.value}: {result.reason}",
        "motion": ", ".join(models) or "none",
        "cost": f"{result.applications} projector applications, {result.seconds:.1f} s",
    }
    return Picture(volume=result.volume, grid=result.grid, title=result.method, facts=facts)._repr_html_()
