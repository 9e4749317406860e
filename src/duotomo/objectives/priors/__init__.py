"""What is known before anything is measured: of volumes, and of deformations."""

from duotomo.objectives.priors.bending import Bending
from duotomo.objectives.priors.nonnegativity import Nonnegativity
from duotomo.objectives.priors.smoothness import Smoothness
from duotomo.objectives.priors.tikhonov import Tikhonov
from duotomo.objectives.priors.total_variation import TotalVariation

__all__ = ["Bending", "Nonnegativity", "Smoothness", "Tikhonov", "TotalVariation"]
