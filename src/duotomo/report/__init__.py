"""Pictures of results."""

from duotomo.report.three_views import three_views

__all__ = ["three_views"]
