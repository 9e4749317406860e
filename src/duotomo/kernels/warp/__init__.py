"""Resampling of a volume through a map of points, its exact transpose, and its derivatives in the map."""
