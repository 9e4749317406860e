"""Bodies to simulate scans of: solids with known line integrals, breasts, lesions, and what others made."""

from duotomo.phantoms.attenuation import JOHNS_YAFFE_20_KEV_PER_MM, Tissue, attenuation_per_mm
from duotomo.phantoms.breast import Breast, BreastTissue, Density
from duotomo.phantoms.breast_shape import BreastShape
from duotomo.phantoms.lesions import CalcificationCluster, SpiculatedMass, WithLesions
from duotomo.phantoms.sampled import Sampled
from duotomo.phantoms.shepp_logan import SheppLogan
from duotomo.phantoms.solids import Box, Ellipsoid, EllipticCylinder
from duotomo.phantoms.toroid import Toroid

__all__ = [
    "JOHNS_YAFFE_20_KEV_PER_MM",
    "Box",
    "Breast",
    "BreastShape",
    "BreastTissue",
    "CalcificationCluster",
    "Density",
    "Ellipsoid",
    "EllipticCylinder",
    "Sampled",
    "SheppLogan",
    "SpiculatedMass",
    "Tissue",
    "Toroid",
    "WithLesions",
    "attenuation_per_mm",
]
