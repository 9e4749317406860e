"""The experiments of the paper, beside its numbers; and the same without its shortcuts."""

from duotomo.experiments.breast_mr import BREAST_MR
from duotomo.experiments.case import Case
from duotomo.experiments.compressed_pair import COMPRESSED_PAIR
from duotomo.experiments.experiment import Experiment, SetUp
from duotomo.experiments.inner_outer import INNER_OUTER
from duotomo.experiments.plan import Level, Plan
from duotomo.experiments.runner import Progress, folder_of, reproduce
from duotomo.experiments.shepp_logan import SHEPP_LOGAN
from duotomo.experiments.toroid import TOROID_LARGE_MOTION, TOROID_RANDOM_MOTIONS
from duotomo.experiments.way import Way

EXPERIMENTS = {
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

__all__ = [
    "EXPERIMENTS",
    "Case",
    "Experiment",
    "Level",
    "Plan",
    "Progress",
    "SetUp",
    "Way",
    "folder_of",
    "reproduce",
]
