"""Results as figures and as a page.

Each function of a figure but `three_views` writes stem.png and stem.svg and returns both paths; `draw_...` of
the same module returns the figure instead. `write_page` writes `report.html`, one file to look at a result
with.
"""

from duotomo.report.cases import cases
from duotomo.report.comparison import Change, Comparison, compare_with_truth, draw_comparison
from duotomo.report.control_grids import control_grids
from duotomo.report.curves import objective_curves
from duotomo.report.displacement import displacement_errors
from duotomo.report.montage import montage
from duotomo.report.page import page_of, write_page
from duotomo.report.page_server import PageServer, serving
from duotomo.report.parameter_errors import parameter_errors
from duotomo.report.profiles import profiles
from duotomo.report.projections import projections
from duotomo.report.slices import slices
from duotomo.report.three_views import three_views

__all__ = [
    "Change",
    "Comparison",
    "PageServer",
    "cases",
    "compare_with_truth",
    "control_grids",
    "displacement_errors",
    "draw_comparison",
    "montage",
    "objective_curves",
    "page_of",
    "parameter_errors",
    "profiles",
    "projections",
    "serving",
    "slices",
    "three_views",
    "write_page",
]
