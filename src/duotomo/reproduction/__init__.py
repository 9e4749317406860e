"""The experiments of the paper, beside its numbers; and the same without its shortcuts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duotomo._lazy import lazy_names

if TYPE_CHECKING:
    from duotomo.reproduction.case import Case
    from duotomo.reproduction.compared_method import ComparedMethod
    from duotomo.reproduction.data_level import DataLevel
    from duotomo.reproduction.experiment import Experiment, SetUp
    from duotomo.reproduction.experiments import EXPERIMENTS
    from duotomo.reproduction.fda import FDA_NAME, FDA_TITLE, reproduce_fda
    from duotomo.reproduction.fda_table import draw_fda, fda_lines, fda_remarks, read_fda
    from duotomo.reproduction.figures import draw_experiment
    from duotomo.reproduction.plan import Plan
    from duotomo.reproduction.results_page import write_results_page
    from duotomo.reproduction.runner import Progress, folder_of, reproduce
    from duotomo.reproduction.summary import remarks, table_lines
    from duotomo.reproduction.table import read_table

__all__ = [
    "EXPERIMENTS",
    "FDA_NAME",
    "FDA_TITLE",
    "Case",
    "ComparedMethod",
    "DataLevel",
    "Experiment",
    "Plan",
    "Progress",
    "SetUp",
    "draw_experiment",
    "draw_fda",
    "fda_lines",
    "fda_remarks",
    "folder_of",
    "read_fda",
    "read_table",
    "remarks",
    "reproduce",
    "reproduce_fda",
    "table_lines",
    "write_results_page",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "case": ("Case",),
        "compared_method": ("ComparedMethod",),
        "data_level": ("DataLevel",),
        "experiment": ("Experiment", "SetUp"),
        "experiments": ("EXPERIMENTS",),
        "fda": ("FDA_NAME", "FDA_TITLE", "reproduce_fda"),
        "fda_table": ("draw_fda", "fda_lines", "fda_remarks", "read_fda"),
        "figures": ("draw_experiment",),
        "plan": ("Plan",),
        "results_page": ("write_results_page",),
        "runner": ("Progress", "folder_of", "reproduce"),
        "summary": ("remarks", "table_lines"),
        "table": ("read_table",),
    },
)
