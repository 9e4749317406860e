"""Bodies to simulate scans of: solids with known line integrals, breasts, lesions, and what others made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duotomo._lazy import lazy_names

if TYPE_CHECKING:
    from duotomo.mechanics.breast_shape import BreastShape
    from duotomo.mechanics.compression import compress
    from duotomo.phantoms.attenuation import Tissue, attenuation_per_mm
    from duotomo.phantoms.breast import Breast, BreastTissue
    from duotomo.phantoms.density import Density
    from duotomo.phantoms.lesions import CalcificationCluster, SpiculatedMass, WithLesions
    from duotomo.phantoms.phantom import Phantom
    from duotomo.phantoms.sampled import Sampled
    from duotomo.phantoms.shepp_logan import SheppLogan
    from duotomo.phantoms.solids import Box, Ellipsoid, EllipticCylinder
    from duotomo.phantoms.toroid import Toroid

__all__ = [
    "Box",
    "Breast",
    "BreastShape",
    "BreastTissue",
    "CalcificationCluster",
    "Density",
    "Ellipsoid",
    "EllipticCylinder",
    "Phantom",
    "Sampled",
    "SheppLogan",
    "SpiculatedMass",
    "Tissue",
    "Toroid",
    "WithLesions",
    "attenuation_per_mm",
    "compress",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "attenuation": ("Tissue", "attenuation_per_mm"),
        "breast": ("Breast", "BreastTissue"),
        "duotomo.mechanics.breast_shape": ("BreastShape",),
        "duotomo.mechanics.compression": ("compress",),
        "density": ("Density",),
        "lesions": ("CalcificationCluster", "SpiculatedMass", "WithLesions"),
        "phantom": ("Phantom",),
        "sampled": ("Sampled",),
        "shepp_logan": ("SheppLogan",),
        "solids": ("Box", "Ellipsoid", "EllipticCylinder"),
        "toroid": ("Toroid",),
    },
)
