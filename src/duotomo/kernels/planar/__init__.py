"""Resampling of one detector plane from another through the source, with its exact transpose."""
