"""Adapters that give other programs duotomo's grids, acquisitions, transforms and axes."""
