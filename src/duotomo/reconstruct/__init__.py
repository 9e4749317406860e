"""Reconstruction of one visit: `reconstruct`, and the algorithms that it takes."""

from duotomo.reconstruct.algorithm import Algorithm
from duotomo.reconstruct.back_projection import BackProjection
from duotomo.reconstruct.combined_pixels import combine_pixels, pixels_per_voxel
from duotomo.reconstruct.filtered_back_projection import FilteredBackProjection, hann, ramp
from duotomo.reconstruct.least_squares import LeastSquares
from duotomo.reconstruct.mismatch import model_mismatch, residual_mismatch, with_mismatch
from duotomo.reconstruct.ml_convex import MlConvex
from duotomo.reconstruct.noise import estimated_photons, noise_level, total_variation_weight
from duotomo.reconstruct.one_visit import reconstruct
from duotomo.reconstruct.sart import Sart
from duotomo.reconstruct.tv_least_squares import TvLeastSquares

__all__ = [
    "Algorithm",
    "BackProjection",
    "FilteredBackProjection",
    "LeastSquares",
    "MlConvex",
    "Sart",
    "TvLeastSquares",
    "combine_pixels",
    "estimated_photons",
    "hann",
    "model_mismatch",
    "noise_level",
    "pixels_per_voxel",
    "ramp",
    "reconstruct",
    "residual_mismatch",
    "total_variation_weight",
    "with_mismatch",
]
