"""Objective functions: misfits of projections and of images, the joint misfit of all visits, and priors."""

from duotomo.objectives.cross_correlation import CrossCorrelation
from duotomo.objectives.image_misfit import ImageMisfit, SumOfSquares
from duotomo.objectives.joint import JointMisfit
from duotomo.objectives.local_correlation import LocalCorrelation
from duotomo.objectives.objective import Objective
from duotomo.objectives.priors import Bending, Nonnegativity, Smoothness, Tikhonov, TotalVariation
from duotomo.objectives.projection_misfit import ProjectionMisfit, photon_weights
from duotomo.objectives.term import Term

__all__ = [
    "Bending",
    "CrossCorrelation",
    "ImageMisfit",
    "JointMisfit",
    "LocalCorrelation",
    "Nonnegativity",
    "Objective",
    "ProjectionMisfit",
    "Smoothness",
    "SumOfSquares",
    "Term",
    "Tikhonov",
    "TotalVariation",
    "photon_weights",
]
