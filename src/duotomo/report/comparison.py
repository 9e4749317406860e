"""A result of two simulated visits beside the truth: where tissue is, and how a new lesion stands out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.geometry.frame import voxel_centers_mm
from duotomo.methods import Result, resample_to_reference
from duotomo.report.slices import slices
from duotomo.simulate import SimulatedVisits
from duotomo.transforms import Motion, Translation, target_registration_error

TISSUE_PER_MM = 0.025
"""Half of what fat attenuates."""

SEEN = 0.99
"""The share of a voxel's value that has to come from inside the moving visit's grid."""

CORE, FAR = 0.75, 3.0
"""The lesion within so many radii, and the tissue that its spicules do not reach."""

WINDOW_PER_MM, DIFFERENCE_PER_MM = (0.035, 0.095), 0.03
"""From just below fat to just above skin; the difference in the strongest colours."""


@dataclass(frozen=True, kw_only=True)
class LesionDifference:
    """What a difference of two visits shows.

    Parameters
    ----------
    lesion_per_mm : float
        Mean over the lesion, 1/mm.
    elsewhere_per_mm : float
        Root mean square over tissue where nothing is new, 1/mm.

    Examples
    --------
    >>> LesionDifference(lesion_per_mm=0.02, elsewhere_per_mm=0.005).contrast
    4.0
    """

    lesion_per_mm: float
    elsewhere_per_mm: float

    @property
    def contrast(self) -> float:
        """How far the lesion stands out of everything else that differs."""
        return self.lesion_per_mm / self.elsewhere_per_mm


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """A result beside the truth, before registration and after it.

    Parameters
    ----------
    tre_mm : tuple of float
        Mean distance between where tissue is and where it was taken to be, before and after.
    changes : tuple of LesionDifference
        What the differences of the visits show, before and after.
    volumes : tuple of torch.Tensor
        The reference visit, the moving one as it was, and registered: (z, y, x) on `grid`, 1/mm.
    grid : VolumeGrid
        Of the result.
    lesion_mm : tuple of float
        Middle of the lesion at the reference visit, xyz.
    unseen : tuple of torch.Tensor
        Where the moving visit has no data, before and after: (z, y, x) on `grid`, bool.
    """

    tre_mm: tuple[float, float]
    changes: tuple[LesionDifference, LesionDifference]
    volumes: tuple[torch.Tensor, torch.Tensor, torch.Tensor] = field(repr=False)
    grid: VolumeGrid
    lesion_mm: tuple[float, float, float]
    unseen: tuple[torch.Tensor, torch.Tensor] = field(repr=False)


def compare_with_truth(result: Result, pair: SimulatedVisits) -> Comparison:
    """Return how near a result of two simulated visits comes to the truth.

    Parameters
    ----------
    result : Result
        Of both visits, with the volumes of each alone, as `with_visits_alone` makes them.
    pair : SimulatedVisits
        The visits, the reference first, one of which has a lesion.

    Returns
    -------
    Comparison
        Before registration and after it.

    Raises
    ------
    DuotomoError
        If the visits have no lesion, or the result lacks the volumes of each visit.
    """
    where, lesion_mm = "compare_with_truth", pair.lesion_mm
    if lesion_mm is None:
        raise DuotomoError(f"{where}: expected visits with a lesion; got none. Pass `lesion='first'`.")
    missing = [name for name in ("visit_1", "visit_2", "visit_2_registered") if name not in result.others]
    if missing:
        raise DuotomoError(
            f"{where}: expected a result with the volumes of each visit alone; got none named "
            f"{', '.join(missing)}. Make it with with_visits_alone."
        )
    grid, radius_mm = result.grid, pair.options.lesion_radius_mm
    first, registered = result.others["visit_1"], result.others["visit_2_registered"]
    second, second_grid = result.others["visit_2"], result.grids.get("visit_2", grid)
    still = Translation(grid)
    unmoved = Motion(still, still.identity())
    as_it_was = unmoved.warp(second_grid, grid)(second)
    # Beyond its grid the moving visit shows nothing, and a difference no change.
    everywhere = torch.ones_like(second)
    seen = resample_to_reference(everywhere, result.motions[0], grid=grid, moving_grid=second_grid) > SEEN
    seen_unmoved = unmoved.warp(second_grid, grid)(everywhere) > SEEN
    tissue = (first > TISSUE_PER_MM) & seen
    landmarks_mm = pair.landmarks_mm()
    before_mm, after_mm = (
        float(target_registration_error(motion, *landmarks_mm).mean())
        for motion in (unmoved, result.motions[0])
    )
    return Comparison(
        tre_mm=(before_mm, after_mm),
        changes=(
            lesion_difference(first - as_it_was, tissue, grid, lesion_mm, radius_mm),
            lesion_difference(first - registered, tissue, grid, lesion_mm, radius_mm),
        ),
        volumes=(first, as_it_was, registered),
        grid=grid,
        lesion_mm=lesion_mm,
        unseen=(~seen_unmoved, ~seen),
    )


def lesion_difference(
    difference: torch.Tensor,
    tissue: torch.Tensor,
    grid: VolumeGrid,
    lesion_mm: Sequence[float],
    radius_mm: float,
) -> LesionDifference:
    """Return what a difference, (z, y, x), shows of a lesion of so many mm around `lesion_mm`, xyz.

    tissue: the voxels that count.

    >>> grid = VolumeGrid.on_detector((8, 8, 8), (1.0, 1.0, 1.0))
    >>> difference = torch.full(grid.shape, 0.01)
    >>> difference[4, 4, 4] = 0.03
    >>> found = lesion_difference(difference, difference > 0, grid, (0.5, 4.5, 4.5), 1.0)
    >>> round(found.contrast, 3)
    3.0
    """
    off_mm = torch.from_numpy(np.linalg.norm(voxel_centers_mm(grid) - np.array(lesion_mm), axis=-1))
    # On coarse grids too there is a voxel that is the lesion.
    lesion = off_mm <= max(CORE * radius_mm, float(off_mm.min()))
    elsewhere = (off_mm > FAR * radius_mm) & tissue
    return LesionDifference(
        lesion_per_mm=float(difference[lesion].mean()),
        elsewhere_per_mm=float(difference[elsewhere].square().mean().sqrt()),
    )


def draw_comparison(
    stem: Path, comparison: Comparison, *, names: tuple[str, str] = ("today", "prior")
) -> Path:
    """Draw both visits and their differences, before registration and after it, through the lesion.

    Where the moving visit has no data the differences are hatched.

    Parameters
    ----------
    stem : Path
        Without a suffix.
    comparison : Comparison
        What to draw.
    names : tuple of str
        Of the reference and of the moving visit.

    Returns
    -------
    Path
        `stem.png`; `stem.svg` lies beside it.
    """
    (first, as_it_was, registered), (one, other) = comparison.volumes, names
    before, after = f"{one} less {other}, as it was", f"{one} less {other}, registered"
    picture, _ = slices(
        stem,
        rows={one: first, f"{other}, as it was": as_it_was, f"{other}, registered": registered},
        differences={
            before: first - as_it_was,
            after: first - registered,
        },
        unseen=dict(zip((before, after), comparison.unseen, strict=True)),
        grid=comparison.grid,
        unit="1/mm",
        window=WINDOW_PER_MM,
        difference_limit=DIFFERENCE_PER_MM,
        at_mm=comparison.lesion_mm,
        arrows=[comparison.lesion_mm],
    )
    return picture
