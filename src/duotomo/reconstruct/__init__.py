"""Reconstruction of one visit: `reconstruct`, and the algorithms that it takes."""

from duotomo.reconstruct.algorithm import Algorithm
from duotomo.reconstruct.back_projection import BackProjection
from duotomo.reconstruct.filtered_back_projection import FilteredBackProjection, hann, ramp
from duotomo.reconstruct.least_squares import LeastSquares
from duotomo.reconstruct.ml_convex import MlConvex
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
    "hann",
    "ramp",
    "reconstruct",
]
