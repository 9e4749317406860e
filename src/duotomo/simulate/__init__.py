"""Scans of phantoms: what a detector would have counted, as line integrals, and whole simulated visits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duotomo._lazy import lazy_names

if TYPE_CHECKING:
    from duotomo.simulate.options import PhantomKind, SimulationOptions
    from duotomo.simulate.scanning import same_grid_noise_free, scan, scan_analytic
    from duotomo.simulate.visits import SimulatedVisits, demo_pair, make_visits

__all__ = [
    "PhantomKind",
    "SimulatedVisits",
    "SimulationOptions",
    "demo_pair",
    "make_visits",
    "same_grid_noise_free",
    "scan",
    "scan_analytic",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "options": ("PhantomKind", "SimulationOptions"),
        "scanning": ("same_grid_noise_free", "scan", "scan_analytic"),
        "visits": ("SimulatedVisits", "demo_pair", "make_visits"),
    },
)
