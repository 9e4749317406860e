"""Sequential, iterative and simultaneous reconstruction and registration of a study."""

from duotomo.methods.initial_guess import centroid_mm, initial_translations_mm
from duotomo.methods.iterative import iterative
from duotomo.methods.memory import memory_bytes
from duotomo.methods.models import Model, carried_over
from duotomo.methods.quality import Quality, quality_of
from duotomo.methods.registration import Registered, register, register_once, resample_to_reference
from duotomo.methods.sequential import sequential
from duotomo.methods.settings import NO_PRIORS, Alternating, Coupled, Priors, Settings, Stage
from duotomo.methods.simultaneous import simultaneous, with_known_motion
from duotomo.methods.state import Checkpoint, OnRecord, Record, Result, State
from duotomo.methods.study import Study, Visit
from duotomo.methods.updates import Estimates, Update, averaged, replaced, symmetric

__all__ = [
    "NO_PRIORS",
    "Alternating",
    "Checkpoint",
    "Coupled",
    "Estimates",
    "Model",
    "OnRecord",
    "Priors",
    "Quality",
    "Record",
    "Registered",
    "Result",
    "Settings",
    "Stage",
    "State",
    "Study",
    "Update",
    "Visit",
    "averaged",
    "carried_over",
    "centroid_mm",
    "initial_translations_mm",
    "iterative",
    "memory_bytes",
    "quality_of",
    "register",
    "register_once",
    "replaced",
    "resample_to_reference",
    "sequential",
    "simultaneous",
    "symmetric",
    "with_known_motion",
]
