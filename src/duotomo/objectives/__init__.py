"""Objective functions: misfits of projections and of images, the joint misfit of all visits, and priors."""

from duotomo.objectives.cross_correlation import CrossCorrelation
from duotomo.objectives.embedded import Embedded
from duotomo.objectives.image_misfit import ImageMisfit, SumOfSquares
from duotomo.objectives.joint import JointMisfit
from duotomo.objectives.joint_parts import ParamsPart, VolumePart
from duotomo.objectives.objective import Objective, Product, Sum, Weighted
from duotomo.objectives.priors import Bending, Nonnegativity, Smoothness, Tikhonov, TotalVariation
from duotomo.objectives.projection_misfit import ProjectionMisfit, photon_weights
from duotomo.objectives.term import Term

__all__ = [
    "Bending",
    "CrossCorrelation",
    "Embedded",
    "ImageMisfit",
    "JointMisfit",
    "Nonnegativity",
    "Objective",
    "ParamsPart",
    "Product",
    "ProjectionMisfit",
    "Smoothness",
    "Sum",
    "SumOfSquares",
    "Term",
    "Tikhonov",
    "TotalVariation",
    "VolumePart",
    "Weighted",
    "photon_weights",
]
