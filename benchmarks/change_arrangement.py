"""How a breast lies between the plates at each visit of a trial of change detection."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch

from benchmarks.change_anatomies import FAT, Floats, Placements
from benchmarks.change_plan import Nuisance

_STEPS, _NEAR_MM, _LONGEST_MM = 10, 0.01, 8.0
"""Of Newton's method that follows tissue: steps at most, and where they end; none is longer than the last."""


@dataclass(frozen=True, kw_only=True)
class Arrangement:
    """How the breast lies, and what is particular to one visit.

    placement: which compression. turn_rad, shift_mm: in the plane of the plates, after it. wave_mm: of a
    smooth displacement in that plane. stretch: of the rim, over the breast's size, by a thicker layer of fat.
    gland: change of the attenuation of gland over that of fat. phases_rad: of what varies smoothly.
    exposure: photons over the usual. scatter_error: relative, of the scatter that is subtracted.
    """

    placement: int
    turn_rad: float
    shift_mm: tuple[float, float]
    wave_mm: float
    stretch: float = 0.0
    gland: float = 0.0
    phases_rad: tuple[float, float, float]
    exposure: float
    blur_mm: float
    scatter_error: float
    seed: int


def arrangements(nuisance: Nuisance, rng: np.random.Generator) -> tuple[Arrangement, Arrangement]:
    """Draw how the breast lies at the current visit, and at the prior one."""

    def sign() -> float:
        return float(rng.choice((-1.0, 1.0)))

    def one(placement: int, wave_mm: float) -> Arrangement:
        x, y = rng.uniform((-3, -2), (3, 2))
        a, b, c = rng.uniform(0, 2 * math.pi, 3)
        return Arrangement(
            placement=placement,
            turn_rad=math.radians(rng.uniform(-2, 2)),
            shift_mm=(float(x), float(y)),
            wave_mm=wave_mm,
            phases_rad=(float(a), float(b), float(c)),
            exposure=float(rng.uniform(0.7, 1.4)),
            blur_mm=float(rng.uniform(0.2, 0.4)),
            scatter_error=float(rng.uniform(-0.1, 0.1)),
            seed=int(rng.integers(2**31)),
        )

    first = int(rng.integers(2))
    current = one(first, 0.0)
    prior = one(int(rng.integers(2, 4)) if nuisance == "roll" else 1 - first, 1.0)
    if nuisance == "repeat":
        prior = replace(current, seed=prior.seed)
    elif nuisance == "chest_wall":
        x, y = prior.shift_mm
        prior = replace(prior, shift_mm=(x, y + sign() * float(rng.uniform(5, 10))))
    elif nuisance == "density":
        prior = replace(prior, gland=sign() * float(rng.uniform(0.04, 0.1)))
    elif nuisance == "weight":
        prior = replace(prior, stretch=sign() * float(rng.uniform(0.02, 0.05)))
    return current, prior


@dataclass(frozen=True, kw_only=True, eq=False)
class Arranged:
    """A breast as it lies at one visit."""

    body: Placements
    how: Arrangement

    def to_rest(self, points_mm: Floats) -> Floats:
        """Return where points of the visit's frame, (point, xyz) in mm, lay at rest."""
        how, body = self.how, self.body
        cos, sin = math.cos(how.turn_rad), math.sin(how.turn_rad)
        turn = np.array([[cos, -sin], [sin, cos]])
        low, high = body.low_mm[how.placement], body.high_mm[how.placement]
        middle = np.array([(low[0] + high[0]) / 2, low[1]])
        plane = (points_mm[:, :2] - middle - how.shift_mm) @ turn
        half = np.array([(high[0] - low[0]) / 2, high[1] - low[1]])
        # From the rim to half way inwards: the inner half stays what it was.
        rim = np.clip(2 * np.linalg.norm(plane / half, axis=1) - 1, 0, 1)
        plane = plane * (1 - how.stretch * rim**2 * (3 - 2 * rim))[:, None]
        a, b, _ = how.phases_rad
        x, y = (plane / 90.0 * 2 * math.pi).T
        plane = plane + how.wave_mm * np.stack([np.sin(y + a), np.sin(x + b)], axis=1)
        return body.to_rest(how.placement, np.column_stack([plane + middle, points_mm[:, 2]]))

    def rest(self) -> torch.Tensor:
        """Return the attenuation at rest, (z, y, x)."""
        rest = self.body.rest
        if self.how.gland:
            y, x = np.arange(rest.shape[1])[:, None], np.arange(rest.shape[2])
            wave = np.sin(x / 24 + self.how.phases_rad[0]) * np.sin(y / 24 + self.how.phases_rad[1])
            rest = rest + np.maximum(rest - FAT, 0) * self.how.gland * (0.8 + 0.4 * wave).astype(np.float32)
        return torch.from_numpy(rest)


def carried(points_mm: Floats, here: Arranged, there: Arranged) -> Floats:
    """Return where the tissue at points, (point, xyz) in mm, of one visit lies at another.

    Newton's method on `there.to_rest(y) = here.to_rest(x)` from y = x on, each point for itself.
    """
    target, at = here.to_rest(points_mm), points_mm
    best, best_mm = points_mm, np.full(len(points_mm), np.inf)
    for _ in range(_STEPS):
        there_mm = there.to_rest(at)
        missed = target - there_mm
        missed_mm = np.linalg.norm(missed, axis=1)
        better = missed_mm < best_mm
        best, best_mm = np.where(better[:, None], at, best), np.where(better, missed_mm, best_mm)
        if best_mm.max() < _NEAR_MM:
            break
        # Displacements are linear between points of a lattice: slopes over a part of its spacing.
        slopes = np.stack([there.to_rest(at + step) - there_mm for step in np.eye(3)], axis=-1)
        steps = np.linalg.solve(slopes + 1e-3 * np.eye(3), missed[..., None])[..., 0]
        at = at + steps * np.minimum(1, _LONGEST_MM / np.linalg.norm(steps, axis=1).clip(1e-9))[:, None]
    return best
