"""Sequential, iterative and simultaneous reconstruction and registration of a study."""

from duotomo.methods.bootstrap import bootstrap
from duotomo.methods.comparison import with_visits_alone
from duotomo.methods.correspondence import Correspondence, in_moving, in_reference
from duotomo.methods.fused import Fusion, fused
from duotomo.methods.iterative import iterative
from duotomo.methods.matching import Match, matches
from duotomo.methods.memory import memory_bytes
from duotomo.methods.motion_precision import MotionPrecision
from duotomo.methods.motion_uncertainty import MotionUncertainty
from duotomo.methods.observability import Observability, observability
from duotomo.methods.priors import Priors
from duotomo.methods.quality import Quality, quality_of
from duotomo.methods.registration import Registration, register, resample_to_reference
from duotomo.methods.result import Result
from duotomo.methods.schedule import Stage
from duotomo.methods.sequential import sequential
from duotomo.methods.settings import Alternating, Coupled, Settings
from duotomo.methods.settings_dict import settings_from_dict, settings_to_dict
from duotomo.methods.simultaneous import simultaneous, with_known_motion
from duotomo.methods.solves import SolveStore
from duotomo.methods.state import Checkpoint, State
from duotomo.methods.study import Study, Visit
from duotomo.methods.trust import Trust, trust_of
from duotomo.methods.two_views import two_view_settings, with_tissue_behind
from duotomo.methods.uncertainty import uncertainty_of
from duotomo.methods.uncertainty_cost import UncertaintyCost, uncertainty_cost
from duotomo.methods.uncertainty_summary import UncertaintySummary, summaries_of
from duotomo.methods.updates import Estimates, averaged, replaced, symmetric

__all__ = [
    "Alternating",
    "Checkpoint",
    "Correspondence",
    "Coupled",
    "Estimates",
    "Fusion",
    "Match",
    "MotionPrecision",
    "MotionUncertainty",
    "Observability",
    "Priors",
    "Quality",
    "Registration",
    "Result",
    "Settings",
    "SolveStore",
    "Stage",
    "State",
    "Study",
    "Trust",
    "UncertaintyCost",
    "UncertaintySummary",
    "Visit",
    "averaged",
    "bootstrap",
    "fused",
    "in_moving",
    "in_reference",
    "iterative",
    "matches",
    "memory_bytes",
    "observability",
    "quality_of",
    "register",
    "replaced",
    "resample_to_reference",
    "sequential",
    "settings_from_dict",
    "settings_to_dict",
    "simultaneous",
    "summaries_of",
    "symmetric",
    "trust_of",
    "two_view_settings",
    "uncertainty_cost",
    "uncertainty_of",
    "with_known_motion",
    "with_tissue_behind",
    "with_visits_alone",
]
