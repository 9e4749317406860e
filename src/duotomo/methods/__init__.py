"""Sequential, iterative and simultaneous reconstruction and registration of a study."""

from duotomo.methods.models import Model, carried_over
from duotomo.methods.settings import NO_PRIORS, Alternating, Coupled, Priors, Settings, Stage
from duotomo.methods.simultaneous import simultaneous, with_known_motion
from duotomo.methods.start import centroid_mm, first_translations_mm
from duotomo.methods.state import Checkpoint, OnRecord, Record, Result, State
from duotomo.methods.study import Study, Visit

__all__ = [
    "NO_PRIORS",
    "Alternating",
    "Checkpoint",
    "Coupled",
    "Model",
    "OnRecord",
    "Priors",
    "Record",
    "Result",
    "Settings",
    "Stage",
    "State",
    "Study",
    "Visit",
    "carried_over",
    "centroid_mm",
    "first_translations_mm",
    "simultaneous",
    "with_known_motion",
]
