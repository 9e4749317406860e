"""What changed between two visits: score maps, findings, and how sure they are."""

from duotomo.change.change import Change, FalseFindings, Silent
from duotomo.change.detection import ScoreMap, change_of, for_change, score_map
from duotomo.change.finding import Finding

__all__ = ["Change", "FalseFindings", "Finding", "ScoreMap", "Silent", "change_of", "for_change", "score_map"]
