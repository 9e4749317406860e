"""A breast as tissue that moves: at rest, turned, and compressed between plates, by finite elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duotomo._lazy import lazy_names

if TYPE_CHECKING:
    from duotomo.mechanics.between_views import BetweenViews
    from duotomo.mechanics.breast_shape import BreastShape
    from duotomo.mechanics.compression import Compression, compress, motion_between
    from duotomo.mechanics.compression_mask import compress_mask
    from duotomo.mechanics.forces import Forces
    from duotomo.mechanics.plates import Paddle
    from duotomo.mechanics.response import HeldView
    from duotomo.mechanics.stiffness import GlandInFat, GlandVolume, PectoralMuscle, Stiffness
    from duotomo.mechanics.tissue import ElasticTissue

__all__ = [
    "BetweenViews",
    "BreastShape",
    "Compression",
    "ElasticTissue",
    "Forces",
    "GlandInFat",
    "GlandVolume",
    "HeldView",
    "Paddle",
    "PectoralMuscle",
    "Stiffness",
    "compress",
    "compress_mask",
    "motion_between",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "between_views": ("BetweenViews",),
        "breast_shape": ("BreastShape",),
        "compression": ("Compression", "compress", "motion_between"),
        "compression_mask": ("compress_mask",),
        "forces": ("Forces",),
        "plates": ("Paddle",),
        "response": ("HeldView",),
        "stiffness": ("GlandInFat", "GlandVolume", "PectoralMuscle", "Stiffness"),
        "tissue": ("ElasticTissue",),
    },
)
