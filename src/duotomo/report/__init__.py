"""Pictures of results.

Each function but `three_views` writes stem.png and stem.svg and returns both paths; `draw_...` of the same
module returns the figure instead.
"""

from duotomo.report.cases import cases
from duotomo.report.control_grids import control_grids
from duotomo.report.curves import objective_curves
from duotomo.report.displacement import displacement_errors
from duotomo.report.montage import montage
from duotomo.report.parameter_errors import parameter_errors
from duotomo.report.profiles import profiles
from duotomo.report.projections import projections
from duotomo.report.slices import slices
from duotomo.report.three_views import three_views

__all__ = [
    "cases",
    "control_grids",
    "displacement_errors",
    "montage",
    "objective_curves",
    "parameter_errors",
    "profiles",
    "projections",
    "slices",
    "three_views",
]
