"""Whether a view shows the whole breast, whose outline tells how large it is at rest."""

from __future__ import annotations

import numpy as np

from duotomo.methods.held_breast import AIR
from duotomo.methods.input_checks import Check
from duotomo.methods.study import Visit

CUT_MM = 10.0
"""The shadow of a breast may run so far along an edge of the detector, other than that at the chest wall."""


def cut_off(number: int, visit: Visit) -> Check:
    """Return the check that a breast ends within the detector, but for the chest wall.

    In the view whose tube stands most upright, the length of each edge of the detector that lies in the
    shadow of the breast. A breast that is wider, or deeper, than what is seen is taken for a smaller one.

    Parameters
    ----------
    number : int
        Of the visit, from 1.
    visit : Visit
        One of two views.

    Returns
    -------
    Check
        Its value is the length of the edge that lies farthest in the shadow, in mm.
    """
    upright = int(np.argmin(np.abs(visit.acquisition.angles_rad)))
    view = visit.projections[upright]
    shadow = view > AIR * visit.projections.max()
    if visit.weights is not None:
        shadow &= visit.weights[upright] > 0
    d_v, d_u = visit.acquisition.pixel_spacing_mm
    edges = {
        "in front of the nipple": float(shadow[-1].sum()) * d_u,
        "at -x": float(shadow[:, 0].sum()) * d_v,
        "at +x": float(shadow[:, -1].sum()) * d_v,
    }
    where, longest_mm = max(edges.items(), key=lambda edge: edge[1])
    passed = longest_mm <= CUT_MM
    text = f"Visit {number}: the breast ends within the detector."
    if not passed:
        text = (
            f"Visit {number}: the breast is cut off by the detector's edge {where}, over {longest_mm:.0f} "
            f"mm. How large it is does not follow from its outline."
        )
    return Check(name="breast within the detector", passed=passed, value=longest_mm, limit=CUT_MM, text=text)
