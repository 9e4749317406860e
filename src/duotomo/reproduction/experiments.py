"""All experiments, in the order of the paper."""

from __future__ import annotations

from duotomo.reproduction.breast_mr import BREAST_MR
from duotomo.reproduction.compressed_pair import COMPRESSED_PAIR
from duotomo.reproduction.experiment import Experiment
from duotomo.reproduction.shepp_logan import SHEPP_LOGAN
from duotomo.reproduction.toroid import INNER_OUTER, TOROID_LARGE_MOTION, TOROID_RANDOM_MOTIONS

EXPERIMENTS: dict[str, Experiment] = {
    one.name: one
    for one in (
        TOROID_LARGE_MOTION,
        TOROID_RANDOM_MOTIONS,
        BREAST_MR,
        COMPRESSED_PAIR,
        SHEPP_LOGAN,
        INNER_OUTER,
    )
}
"""All experiments, by name."""
