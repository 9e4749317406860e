"""Bodies to simulate scans of: solids with known line integrals, breasts, lesions, and what others made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duotomo._lazy import lazy_names

if TYPE_CHECKING:
    from duotomo.phantoms.attenuation import JOHNS_YAFFE_20_KEV_PER_MM, Tissue, attenuation_per_mm
    from duotomo.phantoms.breast import Breast, BreastTissue
    from duotomo.phantoms.breast_shape import BreastShape
    from duotomo.phantoms.cached import Cached
    from duotomo.phantoms.compressed import Compressed
    from duotomo.phantoms.compression import Compression, compress, motion_between
    from duotomo.phantoms.compression_mask import compress_mask
    from duotomo.phantoms.compression_tissue import ElasticTissue
    from duotomo.phantoms.density import Density
    from duotomo.phantoms.lattice_motion import sampled_motion
    from duotomo.phantoms.lesion import Lesion
    from duotomo.phantoms.lesions import CalcificationCluster, SpiculatedMass, WithLesions
    from duotomo.phantoms.phantom import AnalyticPhantom, OversampledPhantom, Phantom
    from duotomo.phantoms.sampled import Sampled
    from duotomo.phantoms.shepp_logan import SheppLogan
    from duotomo.phantoms.shifted import Shifted
    from duotomo.phantoms.solids import Box, Ellipsoid, EllipticCylinder
    from duotomo.phantoms.toroid import Toroid

__all__ = [
    "JOHNS_YAFFE_20_KEV_PER_MM",
    "AnalyticPhantom",
    "Box",
    "Breast",
    "BreastShape",
    "BreastTissue",
    "Cached",
    "CalcificationCluster",
    "Compressed",
    "Compression",
    "Density",
    "ElasticTissue",
    "Ellipsoid",
    "EllipticCylinder",
    "Lesion",
    "OversampledPhantom",
    "Phantom",
    "Sampled",
    "SheppLogan",
    "Shifted",
    "SpiculatedMass",
    "Tissue",
    "Toroid",
    "WithLesions",
    "attenuation_per_mm",
    "compress",
    "compress_mask",
    "motion_between",
    "sampled_motion",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "attenuation": ("JOHNS_YAFFE_20_KEV_PER_MM", "Tissue", "attenuation_per_mm"),
        "breast": ("Breast", "BreastTissue"),
        "breast_shape": ("BreastShape",),
        "cached": ("Cached",),
        "compressed": ("Compressed",),
        "compression": ("Compression", "compress", "motion_between"),
        "compression_mask": ("compress_mask",),
        "compression_tissue": ("ElasticTissue",),
        "density": ("Density",),
        "lattice_motion": ("sampled_motion",),
        "lesion": ("Lesion",),
        "lesions": ("CalcificationCluster", "SpiculatedMass", "WithLesions"),
        "phantom": ("AnalyticPhantom", "OversampledPhantom", "Phantom"),
        "sampled": ("Sampled",),
        "shepp_logan": ("SheppLogan",),
        "shifted": ("Shifted",),
        "solids": ("Box", "Ellipsoid", "EllipticCylinder"),
        "toroid": ("Toroid",),
    },
)
