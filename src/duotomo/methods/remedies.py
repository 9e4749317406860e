"""What to do when a check says no: one remedy for each check, in the order in which to try."""

from __future__ import annotations

from collections.abc import Mapping

REMEDIES: Mapping[str, str] = {
    "breast in the views": "Choose projections of an exposed breast; `duotomo info` says what a file holds.",
    "missing views": "Export the scan again with all of its views, or take a scan that has them.",
    "saturation": "Export the projections unclipped, and say from which count on a pixel is dead: "
    "`saturation`.",
    "order of views": "Put views and geometry in one order; `duotomo info` lists the angles as understood.",
    "views together": "Give the geometry that the machine had in this scan: `geometry`.",
    "place of the breast": "Give the geometry of this scan, `geometry`; check `thickness_mm` and `gap_mm`.",
    "range of angles": "Use a scan with more views: this one does not show the depth of anything.",
    "number of views": "Export the shorter scan again with all of its views.",
    "geometry of the machine": "Give the right geometry of both visits, once for each: `geometry`.",
    "breast within the detector": "Take views that show the breast from side to side, or each view "
    "alone with duotomo reconstruct.",
    "convergence": "If the steps ran out, allow more of them: `steps`. If not, use larger voxels or a "
    "transform with less freedom.",
    "folding": "Check that both visits show the same breast; then use control points farther apart, such as "
    "`transform='bspline:40mm'`, or none, `transform='affine'`.",
    "change of volume": "Check that both visits show the same breast, and `thickness_mm` of each.",
    "explained rays": "Check that both visits show the same breast; then give the transform more freedom, "
    "such as `transform='bspline:25mm'`, or take smaller voxels.",
    "held-back rays": "Check that both visits show the same breast and that both geometries are right; until "
    "then use the volume of the reference visit alone, visit_1.",
    "reference visit": "Use the volume of the reference visit alone, visit_1, in place of the joint one.",
    "structure inside": "Check that both visits show the same breast, the same side.",
}
"""By the name of the check. Parameters of the commands stand in backticks."""

OF_TWO_VIEWS: Mapping[str, str] = {
    "folding": "Check that both views show the same breast, `thickness_mm` of each, and the angle between "
    "them, `roll_deg`; then use control points farther apart, such as "
    "`transform='recompression+bspline:40mm'`, or none, `transform='recompression'`.",
    "explained rays": "Check that both views show the same breast, `thickness_mm` of each, and the angle "
    "between them, `roll_deg`; then use control points nearer to each other, such as "
    "`transform='recompression+bspline:15mm'`, or take smaller voxels.",
}
"""Those that are others for two views of one breast, which a recompression leads into each other."""


def remedy_of(name: str, *, two_views: bool = False) -> str:
    """Return what to do if a check failed; "" if nothing is known.

    >>> remedy_of("folding", two_views=True).split(", ")[-1]
    "`transform='recompression'`."
    """
    return OF_TWO_VIEWS.get(name, REMEDIES.get(name, "")) if two_views else REMEDIES.get(name, "")
