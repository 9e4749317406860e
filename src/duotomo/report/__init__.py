"""Results as figures and as a page.

Each function of a figure but `three_views` writes stem.png and stem.svg and returns both paths; `draw_...` of
the same module returns the figure instead. `write_page` writes `report.html`, one file to look at a result
with, and `write_cohort_page` the page of many.
"""

from duotomo.report.cohort_page import write_cohort_page
from duotomo.report.control_grids import control_grids
from duotomo.report.curves import objective_curves
from duotomo.report.displacement import displacement_errors
from duotomo.report.montage import montage
from duotomo.report.observability import observability_curves
from duotomo.report.page import write_page
from duotomo.report.profiles import profiles
from duotomo.report.projections import projections
from duotomo.report.slices import slices
from duotomo.report.three_views import three_views

__all__ = [
    "control_grids",
    "displacement_errors",
    "montage",
    "objective_curves",
    "observability_curves",
    "profiles",
    "projections",
    "slices",
    "three_views",
    "write_cohort_page",
    "write_page",
]
