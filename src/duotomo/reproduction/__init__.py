"""The experiments of the paper, beside its numbers; and the same without its shortcuts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duotomo._lazy import lazy_names

if TYPE_CHECKING:
    from duotomo.reproduction.compared_method import ComparedMethod
    from duotomo.reproduction.experiment import Experiment
    from duotomo.reproduction.experiments import EXPERIMENTS
    from duotomo.reproduction.plan import DataLevel, Plan
    from duotomo.reproduction.results_page import write_results_page
    from duotomo.reproduction.runner import reproduce

__all__ = [
    "EXPERIMENTS",
    "ComparedMethod",
    "DataLevel",
    "Experiment",
    "Plan",
    "reproduce",
    "write_results_page",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "compared_method": ("ComparedMethod",),
        "experiment": ("Experiment",),
        "experiments": ("EXPERIMENTS",),
        "plan": ("DataLevel", "Plan"),
        "results_page": ("write_results_page",),
        "runner": ("reproduce",),
    },
)
