"""Adapters that give other projectors duotomo's grid, acquisition and axes."""
