"""The model of a motion from one view of a breast to another: what two compressions do to it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from duotomo.errors import check_lengths
from duotomo.geometry import VolumeGrid
from duotomo.mechanics.response import REFINEMENTS, HeldView, compressions_of
from duotomo.transforms import BSpline
from duotomo.transforms.compressions import Compressions
from duotomo.transforms.recompression import Recompression


@dataclass(frozen=True, kw_only=True)
class BetweenViews:
    """Model of the motion from one view to another, such as from MLO to CC: a `Recompression`.

    The compressions are computed by finite elements when the model is first used on a grid, which takes about
    a minute, and are kept for the next time.

    Parameters
    ----------
    radii_mm : tuple of float
        Of the breast at rest, (x, y, z): half an ellipsoid.
    reference, moving : HeldView
        How it is held in both views.
    control_mm : float, optional
        Distance of the control points of a B-spline that follows what the modes leave; none unless given.
    refinements : int
        Of the meshes, as for `compress`.

    Examples
    --------
    >>> from dataclasses import replace
    >>> cc, mlo = HeldView(thickness_mm=50.0), HeldView(thickness_mm=45.0, roll_deg=45.0)
    >>> model = BetweenViews(radii_mm=(55.0, 65.0, 45.0), reference=cc, moving=mlo)
    >>> str(model), str(replace(model, control_mm=22.0))
    ('recompression', 'recompression+bspline:22mm')
    """

    radii_mm: tuple[float, float, float]
    reference: HeldView
    moving: HeldView
    control_mm: float | None = None
    refinements: int = REFINEMENTS

    def __post_init__(self) -> None:
        check_lengths("BetweenViews", "radii_mm (x, y, z)", *self.radii_mm)

    def __call__(self, grid: VolumeGrid) -> Recompression:
        """Return the transform on the grid of the moving visit."""
        residual = None if self.control_mm is None else BSpline.spaced(self.control_mm)(grid)
        assert residual is None or isinstance(residual, BSpline)
        return Recompression(grid, _computed(replace(self, control_mm=None), grid), residual)

    def __str__(self) -> str:
        return "recompression" + ("" if self.control_mm is None else f"+{BSpline.spaced(self.control_mm)}")


@lru_cache(maxsize=8)
def _computed(model: BetweenViews, grid: VolumeGrid) -> Compressions:
    return compressions_of(
        model.radii_mm,
        moving=model.moving,
        reference=model.reference,
        grid=grid,
        refinements=model.refinements,
    )
