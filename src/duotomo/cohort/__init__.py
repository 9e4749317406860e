"""Many cases with one call: each is `duotomo joint` or `duotomo change`, run on Dask.

`read_manifest` or `find_cases` says which cases there are, `survey` what would run and what it costs, and
`cohort` runs what has no result yet. `read_table` reads what came out; `duotomo.report.write_cohort_page`
makes the page of it. Dask comes with the extra `cluster`: `pip install 'duotomo[cluster]'`.
"""

from typing import TYPE_CHECKING

from duotomo._lazy import lazy_names

if TYPE_CHECKING:
    from duotomo.cohort.case import Case, Command
    from duotomo.cohort.dask_client import SchedulerLostError
    from duotomo.cohort.dry_run import Survey, survey
    from duotomo.cohort.find import Found, find_cases
    from duotomo.cohort.manifest import read_manifest
    from duotomo.cohort.plan import Planned
    from duotomo.cohort.resources import Allotment, Resources
    from duotomo.cohort.run import Standing, cohort
    from duotomo.cohort.table import Row, read_table, write_tables

__all__ = [
    "Allotment",
    "Case",
    "Command",
    "Found",
    "Planned",
    "Resources",
    "Row",
    "SchedulerLostError",
    "Standing",
    "Survey",
    "cohort",
    "find_cases",
    "read_manifest",
    "read_table",
    "survey",
    "write_tables",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "case": ("Case", "Command"),
        "dask_client": ("SchedulerLostError",),
        "dry_run": ("Survey", "survey"),
        "find": ("Found", "find_cases"),
        "manifest": ("read_manifest",),
        "plan": ("Planned",),
        "resources": ("Allotment", "Resources"),
        "run": ("Standing", "cohort"),
        "table": ("Row", "read_table", "write_tables"),
    },
)
