"""Scans of phantoms: what a detector would have counted, as line integrals."""

from duotomo.simulate.scanning import AnalyticPhantom, Phantom, same_grid_noise_free, scan, scan_analytic

__all__ = ["AnalyticPhantom", "Phantom", "same_grid_noise_free", "scan", "scan_analytic"]
