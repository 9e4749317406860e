"""Reconstruction of one visit: `reconstruct`, and the algorithms that it takes."""

from duotomo.reconstruct.algorithm import Algorithm
from duotomo.reconstruct.back_projection import BackProjection
from duotomo.reconstruct.cgls import Cgls
from duotomo.reconstruct.filtered_back_projection import FilteredBackProjection
from duotomo.reconstruct.mlem import Mlem
from duotomo.reconstruct.noise import noise_level, total_variation_weight
from duotomo.reconstruct.one_visit import reconstruct
from duotomo.reconstruct.sart import Sart
from duotomo.reconstruct.total_variation import TotalVariation
from duotomo.reconstruct.windows import hann, ramp

__all__ = [
    "Algorithm",
    "BackProjection",
    "Cgls",
    "FilteredBackProjection",
    "Mlem",
    "Sart",
    "TotalVariation",
    "hann",
    "noise_level",
    "ramp",
    "reconstruct",
    "total_variation_weight",
]
